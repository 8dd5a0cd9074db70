"""What an independent consumer (librdkafka) says of a copy by a continuous query that was disturbed.

Runs in tests only, and uses no code of penstock. Invariant: it says "right" only if it has found each record.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from kafka import KafkaAdminClient

from tests import judge


def check_copy(bootstrap: str, source: str, target: str, record_count: int, *, timeout_s: float) -> None:
    """Fail unless each record is there once, in order for each key and topic partition of the source.

    Args:
        bootstrap: of the cluster of both topics.
        source: a topic whose records have different values. It is also the beginning of the transactional ids
            of the query.
        target: its copy.
        record_count: how many records were written to the source.
        timeout_s: how long to wait without progress.

    Raises:
        AssertionError: a record is lost, doubled or out of order, or a transaction is open.
    """
    assert not (names := _open_transactions(bootstrap, source)), f"open after the stop: {names}"
    wrote = judge.consume_all(bootstrap, source, "read_uncommitted", timeout_s=timeout_s)
    found = judge.consume_all(bootstrap, target, timeout_s=timeout_s)
    assert len(wrote) == record_count, f"the source has {len(wrote)} of {record_count}"
    place_of = {record.value: record.partition for record in wrote}
    seen = Counter(record.value for record in found)
    lost = sorted(int(value or b"-1") for value in place_of.keys() - seen.keys())
    doubled = sorted(int(value or b"-1") for value, count in seen.items() if count > 1)
    assert not lost, f"{len(lost)} of {len(wrote)} records are lost, the first: {lost[:5]}"
    assert not doubled, f"{len(doubled)} of {len(wrote)} records are doubled, the first: {doubled[:5]}"
    wanted, got = _by_key(wrote, place_of), _by_key(found, place_of)
    wrong = [each for each in wanted if got.get(each) != wanted[each]]
    assert not wrong, f"out of order under (partition of the source, key): {wrong[:5]}"
    assert len(got) == len(wanted)


def _open_transactions(bootstrap: str, prefix: str) -> list[str]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        listed = admin.list_transactions(state_filters=["Ongoing"])
    finally:
        admin.close()
    names = [each.transactional_id for some in listed.values() for each in some]
    return [name for name in names if name.startswith(prefix)]


def _by_key(
    records: list[judge.Record], place_of: dict[bytes | None, int | None]
) -> dict[tuple[int | None, bytes | None], list[bytes | None]]:
    found = defaultdict(list)
    for each in records:
        found[place_of[each.value], each.key].append(each.value)
    return found
