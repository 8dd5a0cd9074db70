"""The only list of the public names of `penstock.changelog` and their modules. See penstock/_lazy.py."""

from penstock.spark.changelog import aggregate as aggregate
from penstock.spark.changelog import deduplicate as deduplicate
from penstock.spark.changelog import join as join
from penstock.spark.changelog import normalize as normalize
from penstock.spark.changelog import temporal_join as temporal_join
from penstock.spark.changelog import top_n as top_n
from penstock.spark.in_order import in_order as in_order
from penstock.spark.materialize import materialize as materialize
from penstock.spark.signed_sums import signed_sums as signed_sums
from penstock.spark.waiting import over as over
from penstock.spark.waiting import sessions as sessions
from penstock.spark.waiting import sort_by_time as sort_by_time
from penstock.types import ROW_KIND as ROW_KIND

__all__: list[str]
