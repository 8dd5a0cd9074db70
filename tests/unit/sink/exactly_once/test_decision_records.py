"""What a decision looks like in the log, and what 0.1.0 wrote there."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.transactions.markers import Witness
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.sink.exactly_once._log_records import decode, encode
from penstock.sink.exactly_once.committable import Committable, TargetTopic
from penstock.sink.exactly_once.decision import DecidedTransaction, Decision, DecisionStatus, Outcome, decide
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.types import TopicPartition

U64 = st.integers(0, 2**64 - 1)
DIGESTS = st.builds(RecordDigest, st.integers(0, 10**12), U64, U64)
TOPICS = st.builds(TargetTopic, st.text(min_size=1), st.none() | st.uuids().map(str))
COMMITTABLES = st.builds(
    lambda spark_partition_id, digest, witness: Committable(
        TransactionIdentity(f"app-{spark_partition_id}-0", 7, 3, TransactionProtocol.V2),
        spark_partition_id,
        digest.record_count,
        str(digest),
        witness,
    ),
    st.integers(0, 9999),
    DIGESTS,
    st.none() | st.builds(Witness, st.builds(TopicPartition, st.text(), st.integers(0, 99)), U64),
)
DECISIONS = st.builds(
    Decision,
    query_id=st.text(min_size=1),
    batch_id=st.integers(0, 2**40),
    status=st.sampled_from(DecisionStatus),
    spark_partition_count=st.integers(0, 9999),
    record_count=st.integers(0, 10**12),
    transactions=st.lists(
        st.builds(DecidedTransaction, COMMITTABLES, st.sampled_from(Outcome)), max_size=5
    ).map(tuple),
    at_ms=st.integers(0, 2**50),
    digest=st.none() | DIGESTS.map(str),
    topics=st.lists(TOPICS, max_size=3).map(tuple),
    is_taken_as_written=st.booleans(),
    doubt=st.none() | st.text(),
)

OF_0_1_0 = {
    "version": 1,
    "status": "finished",
    "batch_id": 41,
    "spark_partition_count": 4,
    "record_count": 120_000,
    "at_ms": 1_700_000_000_000,
    "transactions": [],
}


@given(DECISIONS)
def test_decision_comes_back_as_it_was_written(decision: Decision) -> None:
    assert decode(decision.query_id, encode(decision)) == decision


@given(DIGESTS)
def test_digest_comes_back_as_it_was_written(digest: RecordDigest) -> None:
    assert RecordDigest.from_text(digest.record_count, str(digest)) == digest


def test_record_of_0_1_0_is_read() -> None:
    decision = decode("q", json.dumps(OF_0_1_0).encode())
    assert decision.record_count == 120_000
    assert decision.digest is None
    assert decision.topics == ()
    assert not decision.takes_any_replay
    assert not decision.is_in_doubt


def test_what_0_1_0_reads_is_still_there() -> None:
    """It looks at these fields and at no other."""
    committable = Committable(TransactionIdentity("app-0-0", 1, 0), 0, 2, str(RecordDigest(2, 3, 4)))
    stored = json.loads(encode(decide("q", 5, 1, [committable], [TargetTopic("t", "id")])))
    assert stored.keys() >= OF_0_1_0.keys()
    assert stored["topics"] == [["t", "id"]]


@pytest.mark.parametrize("digest", ["2:" + "0" * 32, "1:00", "1:" + "g" * 32, "", "0" * 32])
def test_digest_of_another_definition_is_not_guessed_at(digest: str) -> None:
    committable = Committable(TransactionIdentity("app-0-0", 1, 0), 0, 2, str(RecordDigest(2, 3, 4)))
    stored = json.loads(encode(decide("q", 5, 1, [committable])))
    stored["transactions"][0]["digest"] = digest
    with pytest.raises(ValueError, match=r"digest|literal"):
        decode("q", json.dumps(stored).encode())
    with pytest.raises(ValueError, match=r"digest|literal"):
        decode("q", json.dumps({**OF_0_1_0, "digest": digest}).encode())
