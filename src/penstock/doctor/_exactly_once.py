"""Judge what an exactly-once sink depends on: its prefix, its decision log, the brokers' time-outs.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from penstock.doctor._topics import durability_findings, rights_findings
from penstock.doctor.facts import Config, PrefixFacts
from penstock.doctor.findings import Finding, bad, good, warning

BROKER_CONFIGS = ("transaction.max.timeout.ms", "transactional.id.expiration.ms")
_SHORT_TIMEOUT_MS = 300_000
_SHORT_EXPIRATION_MS = 86_400_000


def prefix_findings(prefix: PrefixFacts, now: datetime, broker_count: int) -> Iterator[Finding]:
    """Judge the prefix and its decision log."""
    subject = f"prefix {prefix.prefix}"
    if prefix.error:
        yield bad(subject, prefix.error, "Nothing else of this prefix could be checked.")
        return
    if prefix.write_error:
        advice = f"Grant WRITE on the transactional ids that begin with '{prefix.prefix}-' (prefixed)."
        yield bad(subject, prefix.write_error, advice)
    else:
        yield good(subject, "the user may write with its transactional ids.")
    yield _use(subject, prefix, now)
    yield from _log(prefix, broker_count)


def _use(subject: str, prefix: PrefixFacts, now: datetime) -> Finding:
    if not prefix.open_since_ms:
        return good(subject, "no transaction of it is open.")
    age_s = now.timestamp() - min(prefix.open_since_ms) / 1000
    return bad(
        subject,
        f"it is in use: {len(prefix.open_since_ms)} transactions are open, the oldest for {age_s:.0f} s. A "
        "query runs with it, or has died.",
        "Do not start another query with this prefix: the first would stop. If none runs, the next start of "
        f"the query ends them, or `{prefix.recover_command}`.",
    )


def _log(prefix: PrefixFacts, broker_count: int) -> Iterator[Finding]:
    subject = f"decision log {prefix.log_topic}"
    if prefix.log_problem:
        yield bad(subject, prefix.log_problem, "")
        return
    if not prefix.has_log:
        if prefix.may_create_log is False:
            advice = "Grant CREATE on the topic to the user, or create it with cleanup.policy=compact."
            yield bad(subject, "it does not exist, and the user may not create it.", advice)
        else:
            yield good(subject, "it does not exist yet. The first start of the query creates it.")
        return
    yield good(subject, "it exists and keeps all decisions.")
    yield from rights_findings(subject, prefix.log_rights, is_source=True, is_target=False)
    yield from rights_findings(subject, prefix.log_rights, is_source=False, is_target=True)
    if prefix.log is not None:
        yield from durability_findings(subject, prefix.log, broker_count)


def timeout_findings(configs: Sequence[Config | None], wanted_ms: int | None) -> Iterator[Finding]:
    """Judge the brokers' time-outs of transactions against the user's."""
    subject = "transaction time-outs"
    if not configs or any(config is None for config in configs):
        yield warning(
            subject,
            "the brokers' settings could not be read, because the user lacks DESCRIBE_CONFIGS on the "
            "cluster. penstock assumes Kafka's default of 15 minutes.",
            "Grant DESCRIBE_CONFIGS on the cluster, or check transaction.max.timeout.ms by hand.",
        )
        return
    allowed_ms = _smallest(configs, BROKER_CONFIGS[0], 900_000)
    if wanted_ms is not None and wanted_ms > allowed_ms:
        text = f"transaction.timeout.ms is {wanted_ms}, but the brokers allow {allowed_ms} at most."
        yield bad(subject, text, "Leave it out, or raise the brokers' transaction.max.timeout.ms.")
    elif (wanted_ms or allowed_ms) < _SHORT_TIMEOUT_MS:
        text = f"the brokers abort a batch that lasts longer than {wanted_ms or allowed_ms} ms."
        advice = "Raise it above the longest batch: the brokers' transaction.max.timeout.ms, or the "
        yield warning(subject, text, f"{advice}producer property transaction.timeout.ms.")
    else:
        yield good(subject, f"a batch may last {wanted_ms or allowed_ms} ms.")
    expiration_ms = _smallest(configs, BROKER_CONFIGS[1], 604_800_000)
    if expiration_ms < _SHORT_EXPIRATION_MS:
        yield warning(
            subject,
            f"the brokers forget a transactional id after {expiration_ms} ms "
            "(transactional.id.expiration.ms). A query that stands still for longer reads the outcome of its "
            "last batch from the target topic.",
            "Raise it to 7 days, Kafka's default.",
        )


def _smallest(configs: Sequence[Config | None], name: str, default: int) -> int:
    values = [config.get(name) for config in configs if config is not None]
    return min((int(value) for value in values if value is not None), default=default)
