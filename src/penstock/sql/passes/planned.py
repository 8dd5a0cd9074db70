"""All passes, in their order.

Runs on the driver. Invariant: a batch keeps its queries in expressions and its OVER, which Spark runs itself.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.sql.passes.apply_to_join import apply_to_join
from penstock.sql.passes.assign_state_ids import assign_state_ids
from penstock.sql.passes.check_changelogs import check_changelogs
from penstock.sql.passes.check_determinism import check_determinism
from penstock.sql.passes.check_variants import check_variants
from penstock.sql.passes.context import PassContext
from penstock.sql.passes.drop_watermarks import drop_watermarks
from penstock.sql.passes.engine.choose import choose_engine
from penstock.sql.passes.filter_before_sessions import filter_before_sessions
from penstock.sql.passes.fold_cases import fold_cases
from penstock.sql.passes.join_ended_windows import join_ended_windows
from penstock.sql.passes.keep_varying import keep_varying
from penstock.sql.passes.merge_joins import merge_joins
from penstock.sql.passes.narrow_scans import narrow_scans
from penstock.sql.passes.prune_columns import prune_columns
from penstock.sql.passes.prune_fields import prune_fields
from penstock.sql.passes.push_filters import push_filters
from penstock.sql.passes.rank_to_top import rank_to_top
from penstock.sql.passes.refuse_in_batch import refuse_in_batch
from penstock.sql.passes.sets_to_groups import sets_to_groups
from penstock.sql.passes.share_groups import share_groups
from penstock.sql.passes.slice_windows import slice_windows
from penstock.sql.passes.take_fields import take_fields
from penstock.sql.passes.unnest_queries import unnest_queries
from penstock.sql.passes.version_times import version_times
from penstock.sql.plan.nodes import Output

PASSES: tuple[Callable[[Output, PassContext], Output], ...] = (
    unnest_queries,
    apply_to_join,
    push_filters,
    lambda plan, _: fold_cases(plan),
    rank_to_top,
    sets_to_groups,
    version_times,
    lambda plan, _: prune_columns(plan),
    take_fields,
    choose_engine,
    slice_windows,
    keep_varying,
    lambda plan, _: prune_columns(plan),
    join_ended_windows,
    share_groups,
    merge_joins,
    lambda plan, _: prune_fields(plan),
    narrow_scans,
    check_determinism,
    check_changelogs,
    check_variants,
    drop_watermarks,
    lambda plan, _: assign_state_ids(plan),
)


PASSES_OF_BATCH: tuple[Callable[[Output, PassContext], Output], ...] = (
    refuse_in_batch,
    check_variants,
    apply_to_join,
    filter_before_sessions,
    lambda plan, _: prune_columns(plan),
    lambda plan, _: prune_fields(plan),
    narrow_scans,
)


def planned(plan: Output, context: PassContext, *, is_batch: bool) -> Output:
    """Return a plan of what runs."""
    for each in PASSES_OF_BATCH if is_batch else PASSES:
        plan = each(plan, context)
    return plan
