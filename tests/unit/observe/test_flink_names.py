"""Every metric in Flink's documentation has a row in the table, and the table is what is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.observe.serve.flink import FLINK_NAMES, PREFIX
from tests.unit.observe.test_serve import Served

PAGE = (Path(__file__).parents[3] / "docs/metrics.md").read_text()
DOCUMENTED = {
    # The connector's documentation, 1.7 to 2.x, and Alibaba's.
    *("currentEmitEventTimeLag", "watermarkLag", "sourceIdleTime", "pendingRecords", "currentSendTime"),
    *("KafkaSourceReader.commitsSucceeded", "KafkaSourceReader.commitsFailed"),
    *("KafkaSourceReader.committedOffsets", "KafkaSourceReader.currentOffsets"),
    *("current-offsets", "committed-offsets"),
    "KafkaSourceReader.topic.<t>.partition.<p>.currentOffset",
    "KafkaSourceReader.topic.<t>.partition.<p>.committedOffset",
    "KafkaSourceReader.KafkaConsumer.records-consumed-total",
    *("KafkaSourceReader.KafkaConsumer.*", "KafkaProducer.*"),
    # FLIP-33, the names that every source and sink has.
    *("numRecordsIn", "numBytesIn", "numRecordsInErrors"),
    *("numRecordsSend", "numBytesSend", "numRecordsSendErrors"),
}


@pytest.fixture
def found() -> dict[str, dict[tuple[str, ...], float]]:
    served = Served()
    served.have_everything()
    return served.families(1_000, "flink")


def test_every_documented_name_has_its_line() -> None:
    assert {each.flink for each in FLINK_NAMES} >= DOCUMENTED
    for each in FLINK_NAMES:
        served = "-" if each.served is None else f"`{each.served}`"
        assert f"| `{each.flink}` | {served} | {each.meaning} |" in PAGE


def test_exactly_the_names_of_the_table_are_served(
    found: dict[str, dict[tuple[str, ...], float]],
) -> None:
    served = {name for name in found if name.startswith("flink_")}
    assert served == {PREFIX + each.served for each in FLINK_NAMES if each.served is not None}


def test_the_values_are_those_of_our_names(found: dict[str, dict[tuple[str, ...], float]]) -> None:
    pairs = {
        "numRecordsIn": "penstock_source_records_total",
        "numBytesIn": "penstock_source_bytes_total",
        "KafkaSourceReader_commitsSucceeded": "penstock_source_offset_commits_succeeded_total",
        "numBytesSend": "penstock_sink_bytes_total",
    }
    for flink, ours in pairs.items():
        assert found[PREFIX + flink] == found[ours]
    errors = found["penstock_source_decode_errors_total"]
    assert found[f"{PREFIX}numRecordsInErrors"] == {(): sum(errors.values())}
    assert found[f"{PREFIX}currentSendTime"] == {("orders",): -1}
