"""Commands on a job that has written exactly-once, as users with some rights. For tests/kafka/test_rights.py.

The job has read the records of `SOURCE` in its batch 0 and copied them into `TARGET`. Its shadow has done the
same in its batch 1, into `SHADOW`. Both write with all rights.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from penstock.cli import _hand_over, _shadows, _verified
from penstock.cli.connecting import Cluster
from penstock.cli.receipts import receipts_of
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from penstock.errors import AuthorizationError
from penstock.observe.shadow_note import NAME, ShadowNote
from penstock.observe.verify.found import Verdict
from penstock.observe.verify.shadow.compare import Outcome
from penstock.options.config import KafkaProperties
from penstock.options.parse import parse_write
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings, driver_side
from penstock.sink.exactly_once.receipt import Facts
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.source.checkpoint_offset import Markers, SourceOffset, positions_to_json
from penstock.types import OffsetRange, TopicPartition
from tests.checkpoint_files import write_checkpoint
from tests.kafka.rights_cases import (
    JOB,
    SHADOW,
    SHADOW_JOB,
    SOURCE,
    TARGET,
    Case,
    open_connections,
    properties_of,
)

RECORDS = [b"a", b"b", b"c"]
ROWS = pa.record_batch({"value": pa.array(RECORDS, pa.binary())})
FROM = TopicPartition(SOURCE, 0)
READ = OffsetRange(FROM, 0, len(RECORDS))
ALWAYS = range(1 << 62)


def write_job(cluster: DevCluster) -> None:
    """Let the job and its shadow write their batches, with all rights."""
    _write_batch(cluster, JOB, JOB, 0, TARGET)
    _write_batch(cluster, SHADOW_JOB, SHADOW_JOB, 1, SHADOW)


def _write_batch(cluster: DevCluster, prefix: str, query_id: str, batch_id: int, topic: str) -> None:
    options = {"properties.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}
    options |= {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": prefix}
    side = driver_side(ExactlyOnceSettings(_all_rights(cluster), prefix))
    mandate = side.recover()
    task = TaskAttempt(query_id, batch_id, 0, 0)
    report = write_in_transaction(parse_write(options).sink, mandate, task, [ROWS])
    side.commit([report], facts=Facts("0.1.0", "4.2.1", (READ,)))


def _all_rights(cluster: DevCluster) -> ConnectionSettings:
    return ConnectionSettings((cluster.bootstrap_servers,), "test-rights")


def _checkpoint(folder: Path, query_id: str) -> Path:
    """Write the checkpoint of a query that has done batch 0."""
    write_checkpoint(
        folder, SourceOffset({FROM: READ.stopping_offset}, Markers(whole_start={FROM: 0})).to_json()
    )
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    return folder


def _shadow_checkpoint(folder: Path) -> Path:
    """Write that of the shadow, which has done batch 1."""
    start, end = ({SOURCE: {"0": each}} for each in (READ.starting_offset, READ.stopping_offset))
    write_checkpoint(folder, start, end)
    (folder / "metadata").write_text(json.dumps({"id": SHADOW_JOB}))
    note = ShadowNote(JOB, JOB, TARGET, 0, 0, SHADOW_JOB, SHADOW, positions_to_json({FROM: 0}))
    (folder / NAME).write_text(note.text())
    return folder


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def look_at_receipts(cluster: DevCluster, case: Case) -> None:
    properties = KafkaProperties(tuple(sorted(properties_of(cluster, case).items())))
    [receipt], unfinished = receipts_of(Cluster(properties, "b"), JOB, None)
    assert (receipt.read, dict(unfinished)) == ((READ,), {})


def verify(cluster: DevCluster, case: Case) -> None:
    wanted = _verified.Wanted(JOB, None, None, ALWAYS, ("value",), has_other_writers=True)
    with open_connections(cluster, case) as connections:
        report = _verified.report_of(connections, connections, wanted)
    assert (report.verdict, len(report.batches)) == (Verdict.PROVEN, 1)


def create_shadow(cluster: DevCluster, case: Case) -> None:
    with _folder() as folder, open_connections(cluster, case) as connections:
        live, new = _checkpoint(folder / "live", JOB), folder / "new"
        wanted = _shadows.Wanted(JOB, str(live), str(new), SHADOW)
        with _nothing_made(new):
            assert _shadows.create(connections, wanted).live_topic == TARGET
        assert new.exists()


def compare_shadow(cluster: DevCluster, case: Case) -> None:
    with _folder() as folder, open_connections(cluster, case) as connections:
        shadow = _shadow_checkpoint(folder / "shadow")
        _, found = _shadows.compare_shadow(connections, str(shadow), None, ("key", "value"))
    assert (found.outcome, len(found.groups)) == (Outcome.EQUAL, 1)


def look_at_promotion(cluster: DevCluster, case: Case) -> None:
    with _folder() as folder, open_connections(cluster, case) as connections:
        wanted = _hand_over.Wanted(JOB, str(_checkpoint(folder / "old", JOB)), str(folder / "new"))
        assert _hand_over.hand_over(connections, wanted, is_sure=False).after == 0


def promote(cluster: DevCluster, case: Case) -> None:
    _write_batch(cluster, case.user, case.user, 0, TARGET)
    with _folder() as folder, open_connections(cluster, case) as connections:
        old, new = _checkpoint(folder / "old", case.user), folder / "new"
        with _nothing_made(new):
            _hand_over.hand_over(connections, _hand_over.Wanted(case.user, str(old), str(new)), is_sure=True)
        assert new.exists()


def rollback(cluster: DevCluster, case: Case) -> None:
    _write_batch(cluster, case.user, case.user, 0, TARGET)
    with _folder() as folder:
        old, new, back = _checkpoint(folder / "old", case.user), folder / "new", folder / "back"
        with_all = KafkaConnections(_all_rights(cluster))
        try:
            _hand_over.hand_over(with_all, _hand_over.Wanted(case.user, str(old), str(new)), is_sure=True)
        finally:
            with_all.close()
        wanted = _hand_over.Wanted(case.user, str(new), str(back), is_rollback=True)
        with open_connections(cluster, case) as connections, _nothing_made(back):
            _hand_over.hand_over(connections, wanted, is_sure=True)
        assert back.exists()


@contextmanager
def _nothing_made(folder: Path) -> Iterator[None]:
    """Check that a right was found missing before the command has made its folder."""
    try:
        yield
    except AuthorizationError:
        assert not folder.exists()
        raise


def command_line(cluster: DevCluster, case: Case, folder: Path, *, with_prefix: bool = True) -> list[str]:
    """Return the arguments of `penstock` for `verify` or `shadow compare`."""
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties_of(cluster, case).items()))
    if case.needed.key == "shadow-compare":
        shadow = _shadow_checkpoint(folder / "shadow")
        chosen = ["shadow", "compare", "--shadow-checkpoint", str(shadow)]
    elif with_prefix:
        chosen = ["verify", "--prefix", JOB]
    else:
        chosen = ["verify", "--checkpoint", str(_checkpoint(folder / "live", JOB))]
    return [*chosen, "--command-config", str(file)]


JOB_OPERATIONS: dict[str, Callable[[DevCluster, Case], None]] = {
    "receipts": look_at_receipts,
    "verify": verify,
    "shadow-create": create_shadow,
    "shadow-compare": compare_shadow,
    "promote-look": look_at_promotion,
    "promote": promote,
    "rollback": rollback,
}
