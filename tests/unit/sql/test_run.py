"""What a session keeps beside Spark: names, settings, folders of checkpoints, secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.errors import SqlError
from penstock.sql.connectors.described import Kafka
from penstock.sql.language.parse import parse_script, parse_statement
from penstock.sql.language.source import Source, without_secrets
from penstock.sql.language.statements import CreateTable, CreateView, Insert
from penstock.sql.language.tokens import tokenize
from penstock.sql.language.write import statement_text
from penstock.sql.run import _checkpoints
from penstock.sql.run._inserts import Inserts, Write
from penstock.sql.run._tables import with_idle_timeout
from penstock.sql.run.catalog import Catalog, Table, View, altered, with_like
from penstock.sql.run.session import Session
from penstock.sql.run.settings import NEEDED, Settings
from tests.unit.sql.declared import FILES, FOUND, KAFKA, with_options

BASE = "CREATE TABLE base (a INT, b AS a + 1, c INT METADATA, WATERMARK FOR a AS a, PRIMARY KEY (a) NOT ENFORCED) WITH ('x' = '1', 'y' = '2')"


def table(text: str) -> CreateTable:
    found = parse_statement(text)
    assert isinstance(found, CreateTable)
    return found


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        ("CREATE TABLE t (d INT) WITH ('x' = '3') LIKE base", "CREATE TABLE t (a INT, b AS a + 1, c INT METADATA, d INT, WATERMARK FOR a AS a, PRIMARY KEY (a) NOT ENFORCED) WITH ('x' = '3', 'y' = '2')"),
        ("CREATE TABLE t (d INT) WITH ('x' = '3') LIKE base (EXCLUDING ALL)", "CREATE TABLE t (a INT, d INT) WITH ('x' = '3')"),
        ("CREATE TABLE t (b INT) LIKE base (OVERWRITING GENERATED EXCLUDING METADATA EXCLUDING CONSTRAINTS EXCLUDING WATERMARKS)", "CREATE TABLE t (a INT, b INT) WITH ('x' = '1', 'y' = '2')"),
    ],
)  # fmt: skip
def test_a_table_is_like_another(like: str, expected: str) -> None:
    assert with_like(table(like), table(BASE)) == table(expected)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ("CREATE TABLE t (b INT) LIKE base", "both tables have the column 'b'"),
        ("CREATE TABLE t WITH ('x' = '3') LIKE base (INCLUDING OPTIONS)", "both tables have the option 'x'"),
        ("CREATE TABLE t (WATERMARK FOR a AS a) LIKE base", "both tables have a WATERMARK"),
        ("CREATE TABLE t (d INT PRIMARY KEY NOT ENFORCED) LIKE base", "both tables have a PRIMARY KEY"),
    ],
)
def test_a_table_that_is_like_another_in_two_ways_is_refused(like: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_like(table(like), table(BASE))


def test_names_belong_to_databases() -> None:
    catalog = Catalog()
    made = table("CREATE TABLE t (a INT)")
    source = None
    catalog.add(made.name, Table(made, source), if_not_exists=False)  # type: ignore[arg-type]  # no text is needed
    with pytest.raises(ValueError, match="a table or view 't' already"):
        catalog.add(made.name, Table(made, source), if_not_exists=False)  # type: ignore[arg-type]  # see above
    assert catalog.find(("t",)) is catalog.find(("default_catalog", "default_database", "t"))
    assert catalog.find(("T",)) is None
    assert catalog.find(("other", "t")) is None
    with pytest.raises(ValueError, match="no catalog 'hive'"):
        catalog.key(("hive", "d", "t"))
    assert catalog.names(like="%") == ["t"]
    assert catalog.names(like="x%") == []


def test_a_table_is_altered() -> None:
    change = parse_statement("ALTER TABLE base RENAME a TO z")
    found = altered(table(BASE), change)  # type: ignore[arg-type]  # it is an AlterTable
    assert [column.name for column in found.columns] == ["z", "b", "c"]
    with pytest.raises(ValueError, match="has a WATERMARK already"):
        altered(table(BASE), parse_statement("ALTER TABLE base ADD WATERMARK FOR a AS a"))  # type: ignore[arg-type]  # see above


def test_settings() -> None:
    settings = Settings()
    assert settings.set("execution.runtime-mode", "BATCH") == "execution.runtime-mode"
    in_batch = settings.is_batch
    settings.reset(None)
    assert (in_batch, settings.is_batch) == (True, False)
    assert settings.set("table.exec.resource.default-parallelism", "4") == "parallelism.default"
    settings.set("table.exec.sink.not-null-enforcer", "ERROR")
    idle = [settings.idle_timeout]
    for value in ("5 s", "0"):
        settings.set("table.exec.source.idle-timeout", value)
        idle.append(settings.idle_timeout)
    assert idle == [None, "5 s", "never"]
    settings.set("execution.checkpointing.interval", "10 s")
    assert settings.interval_ms == 10_000
    assert settings.set("state.checkpoints.dir", "/x") == "execution.checkpointing.dir"
    for key in ("require-on-conflict", "upsert-materialize"):  # rows of a key are in order, or refused
        settings.set(f"table.exec.sink.{key}", "false")
    for key, value, message in [
        ("execution.runtime-mode", "fast", "Allowed: streaming, batch"),
        ("parallelism.default", "0", "a number from 1"),
        ("table.dml-sync", "yes", "Allowed: true, false"),
        ("execution.checkpointing.interval", "soon", "cannot be 'soon'"),
        ("pipeline.nam", "x", "Did you mean 'pipeline.name'?"),
        ("table.exec.state.ttl", "soon", "cannot be 'soon'"),
        ("table.exec.source.idle-timeout", "soon", "cannot be 'soon'"),
        ("sql-client.execution.result-mode", "pretty", "Allowed: table, changelog, tableau"),
        ("table.exec.sink.not-null-enforcer", "DROP", "can only be 'error'"),
        ("restart-strategy.type", "fixed-delay", "Spark retries tasks"),
        ("table.exec.mini-batch.enabled", "yes", "Allowed: true, false"),
        ("table.exec.mini-batch.allow-latency", "soon", "cannot be 'soon'"),
        ("table.exec.mini-batch.size", "-1", "a number from 1"),
    ]:
        with pytest.raises(ValueError, match=message.replace("?", r"\?")):
            settings.set(key, value)


def test_mini_batches_are_noted_where_they_are_set() -> None:
    spark = MagicMock()
    spark.conf.get.side_effect = lambda key, *_: NEEDED.get(key, ("false", ""))[0]
    session = Session(spark)
    script = (
        "SET 'table.exec.mini-batch.enabled' = 'true'; SET 'table.exec.mini-batch.allow-latency' = '5 s';"
        "SET 'table.exec.mini-batch.size' = '5000'; SET 'state.backend.type' = 'rocksdb'"
    )
    noted = [each.message for each in session.execute(script)]
    assert ["It has no effect." in each for each in noted] == [True, True, True, False]
    assert "'execution.checkpointing.interval'" in noted[1]
    assert "'scan.max-records-per-batch'" in noted[2]


@pytest.mark.parametrize(
    ("options", "expected_ms"),
    [
        (f"{KAFKA}, 'scan.watermark.alignment.max-drift' = '1 min'", 5_000),
        (f"{KAFKA}, 'Scan.Watermark.Alignment.Max-Drift' = '1 min', 'SCAN.idle-timeout' = '9 s'", 9_000),
        (KAFKA, 60_000),
    ],
)
def test_the_idle_time_out_of_a_session_is_for_aligned_tables(options: str, expected_ms: int) -> None:
    table = with_options(options)
    found = with_idle_timeout(table, "5 s").connector
    assert isinstance(found, Kafka)
    assert found.config.stream.source.idle_timeout_ms == expected_ms
    assert with_idle_timeout(table, None) is table


def test_the_idle_time_out_of_a_session_is_not_for_files() -> None:
    table = with_options(FILES)
    assert with_idle_timeout(table, "5 s") is table


KEY = ("default_database", "t")


def insert_of(text: str) -> Insert:
    found = parse_statement(text)
    assert isinstance(found, Insert)
    return found


def claim(
    folder: str,
    query: str,
    definitions: Mapping[str, str],
    states: Mapping[str, str] = MappingProxyType({}),
    *,
    may_change: bool,
) -> None:
    """Do what the start of one INSERT does to its folder."""
    noted = _checkpoints.compare(folder, query, definitions, states, may_change=may_change)
    if noted is not None:
        _checkpoints.note(folder, noted)


def test_a_refused_folder_leaves_the_notes_of_the_others(tmp_path: Path) -> None:
    script = "INSERT INTO t SELECT a FROM u"
    inserts = Inserts(MagicMock(), Catalog(), Settings(), MagicMock(), print)
    inserts._settings.values["penstock.changed-query"] = "continue"
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        batches(folder, planned=4, done=4)
        claim(str(folder), "old", {}, may_change=False)
    (folders[1] / "penstock-sql" / "query.json").write_text('{"version": 9}')
    before = (folders[0] / "penstock-sql" / "query.json").read_text()
    insert, target = insert_of(script), with_options(KAFKA)
    streams = [Write(KEY, MagicMock(), target, insert, FOUND, folder=str(each)) for each in folders]
    with pytest.raises(SqlError, match="version 9"):
        inserts._claim(streams, Source(script))
    assert inserts.checkpoints == []
    assert (folders[0] / "penstock-sql" / "query.json").read_text() == before
    inserts._claim([streams[0], replace(streams[1], folder=None)], Source(script))
    assert inserts.checkpoints == [str(folders[0])], "also if the start is cut off from here on"
    assert (folders[0] / "penstock-sql" / "query.json").read_text() != before


def test_a_checkpoint_belongs_to_its_query(tmp_path: Path) -> None:
    insert = insert_of("INSERT INTO t SELECT a FROM u")
    text = _checkpoints.described(insert, KEY)
    same = insert_of("INSERT INTO t -- a comment\n  SELECT  a\nFROM u")
    assert _checkpoints.described(same, KEY) == text
    other = _checkpoints.described(replace(insert, columns=("b",)), KEY)
    folder = str(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    batches(tmp_path / "checkpoint", planned=4, done=4)
    claim(folder, text, {}, may_change=False)
    claim(folder, text, {}, may_change=False)
    with pytest.raises(ValueError, match="belongs to another query, so its positions"):
        claim(folder, other, {}, may_change=False)
    claim(folder, other, {}, may_change=True)
    claim(folder, other, {}, may_change=False)
    (tmp_path / "checkpoint" / "penstock-sql" / "query.json").write_text('{"version": 9}')
    with pytest.raises(ValueError, match="version 9"):
        claim(folder, text, {}, may_change=True)


READS = (
    "SELECT a FROM u {hint} AS x",
    "SELECT a FROM u {hint} JOIN w {hint} ON u.a = w.a",
    "SELECT a FROM TABLE(TUMBLE(TABLE u {hint}, DESCRIPTOR(at), INTERVAL '1' MINUTE))",
    "SELECT a FROM (SELECT a FROM u {hint})",
)
HINTS = ("", "/*+ OPTIONS('metrics.http.port' = '1') */", "/*+ options('topic'='x', 'format'='raw') */")


def noted_with_hints(query: str) -> list[list[str]]:
    """Return the tokens of a query as earlier versions noted them."""
    return [[token.kind.name, token.value] for token in tokenize(Source(query))]


@pytest.mark.parametrize("query", READS)
@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_of_a_table_that_is_read_is_as_free_as_its_options_in_with(
    tmp_path: Path, query: str, hint: str
) -> None:
    batches(tmp_path, planned=4, done=4)
    texts = [query.format(hint=each) for each in HINTS]
    described = {_checkpoints.described(insert_of(f"INSERT INTO t {each}"), KEY) for each in texts}
    views = {definition(f"CREATE VIEW v AS {each}") for each in texts}
    assert len(described) == len(views) == 1
    old = query.format(hint=hint)
    noted = {
        "version": 3,
        "query": json.dumps([*KEY, [], [], noted_with_hints(old)]),
        "definitions": {"v": json.dumps(["default_database", [], noted_with_hints(old)])},
        "states": {},
    }
    (tmp_path / "penstock-sql").mkdir()
    (tmp_path / "penstock-sql" / "query.json").write_text(json.dumps(noted))
    claim(str(tmp_path), described.pop(), {"v": views.pop()}, may_change=False)


def test_hints_of_the_target_and_of_the_state_count(tmp_path: Path) -> None:
    plain = "INSERT INTO t SELECT {} a, COUNT(*) FROM u GROUP BY a"
    batches(tmp_path, planned=4, done=4)
    claim(str(tmp_path), _checkpoints.described(insert_of(plain.format("")), KEY), {}, may_change=False)
    of_state = plain.format("/*+ STATE_TTL('u' = '1 d') */")
    of_target = plain.format("").replace("t ", "t /*+ OPTIONS('topic' = 'x') */ ", 1)
    said = "belongs to another query, which has another OPTIONS hint of the target, so"
    for text, expected in ((of_state, "belongs to another query, so"), (of_target, said)):
        described = _checkpoints.described(insert_of(text), KEY)
        with pytest.raises(ValueError, match=expected):
            claim(str(tmp_path), described, {}, may_change=False)


def batches(checkpoint: Path, *, planned: int, done: int | None) -> None:
    """Write what Spark leaves of its last batches."""
    for log, last in (("offsets", planned), ("commits", done)):
        (checkpoint / log).mkdir(parents=True, exist_ok=True)
        if last is not None:
            (checkpoint / log / str(last)).write_text("v1")
            (checkpoint / log / f".{last}.crc").write_text("")


def test_a_batch_that_was_cut_off_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = str(tmp_path)
    batches(tmp_path, planned=0, done=None)
    claim(folder, "old", {}, may_change=False)
    with pytest.raises(ValueError, match=r"first batch was begun and not finished\. .* delete the folder"):
        claim(folder, "new", {}, may_change=False)
    batches(tmp_path, planned=22, done=21)
    with pytest.raises(ValueError, match=r"Batch 22 was cut off: start the old script once before"):
        claim(folder, "new", {}, may_change=False)
    claim(folder, "old", {}, may_change=True)
    assert not caplog.records
    claim(folder, "new", {}, may_change=True)
    assert "Batch 22 of the checkpoint" in caplog.text
    caplog.clear()
    batches(tmp_path, planned=22, done=22)
    with pytest.raises(ValueError, match="belongs to another query, so its") as error:
        claim(folder, "old", {}, may_change=False)
    assert "cut off" not in str(error.value)
    claim(folder, "old", {}, may_change=True)
    assert not caplog.records


@pytest.mark.parametrize(
    ("states", "changed"),
    [
        ({"1-join": "join of a", "1.1-aggregate": "sum of b"}, ""),
        ({"1-join": "join of a"}, r"1\.1-aggregate"),
        ({"1-join": "join of a", "2-join": "join of c", "1.1-aggregate": "sum of b"}, "2-join"),
        ({"1-join": "join of a", "1.1-aggregate": "sum of b, count of c"}, r"1\.1-aggregate"),
        ({"1.1-aggregate": "join of a", "1-join": "sum of b"}, r"1-join, 1\.1-aggregate"),
        ({"1-join": "join of a", "1.1-aggregate": "sum of b", "spark-1": "Join of a, b"}, "spark-1"),
    ],
)
def test_no_operator_continues_with_the_state_of_another_one(
    tmp_path: Path, states: dict[str, str], changed: str
) -> None:
    batches(tmp_path, planned=4, done=4)
    claim(str(tmp_path), "old", {}, {"1-join": "join of a", "1.1-aggregate": "sum of b"}, may_change=False)
    if not changed:
        claim(str(tmp_path), "new", {}, states, may_change=True)
        return
    with pytest.raises(
        ValueError, match=rf"others than those of the checkpoint in \S+: {changed}\. An operator"
    ):
        claim(str(tmp_path), "new", {}, states, may_change=True)


def test_a_checkpoint_without_the_ids_of_its_states_is_for_queries_without_states(tmp_path: Path) -> None:
    batches(tmp_path, planned=4, done=4)
    claim(str(tmp_path), "query", {}, may_change=False)
    (tmp_path / "penstock-sql" / "query.json").write_text(
        '{"version": 2, "query": "query", "definitions": {}}'
    )
    with pytest.raises(ValueError, match="was made by a development version of penstock"):
        claim(str(tmp_path), "query", {}, {"1-join": "join of a"}, may_change=True)
    claim(str(tmp_path), "query", {}, may_change=False)


def test_a_checkpoint_keeps_the_joins_whose_sides_have_one_read(tmp_path: Path) -> None:
    """Two reads would be two sources. Spark refuses a checkpoint with another number of them."""
    folder, states, ids = str(tmp_path), {"1-join": "join of a"}, frozenset({"1-join"})
    noted = tmp_path / "penstock-sql" / "query.json"

    def start(shared: frozenset[str]) -> dict[str, Any]:
        found = _checkpoints.compare(folder, "query", {}, states, may_change=False, shared=shared)
        if found is not None:
            _checkpoints.note(folder, found)
        written: dict[str, Any] = json.loads(noted.read_text())
        return written

    assert _checkpoints.shared_reads(folder) is None, "a new query chooses"
    assert start(frozenset())["version"] == 3, "an older version reads it"
    assert _checkpoints.shared_reads(folder) is None
    assert start(ids) == {
        "version": 4,
        "query": "query",
        "definitions": {},
        "states": states,
        "shared": ["1-join"],
    }
    batches(tmp_path, planned=0, done=None)
    assert _checkpoints.shared_reads(folder) == ids
    assert start(frozenset())["shared"] == ["1-join"], "Spark has planned a batch"
    noted.unlink()
    assert _checkpoints.shared_reads(folder) == frozenset()
    assert "shared" not in start(ids), "Spark has planned a batch, and no note says how"


def definition(text: str) -> str:
    found = parse_statement(text)
    if isinstance(found, CreateTable):
        return _checkpoints.definition_of(Table(found, Source(text)))
    assert isinstance(found, CreateView)
    return _checkpoints.definition_of(View(found, Source(text)))


TABLE = "CREATE TABLE u (a INT, b AS a + 1, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('topic' = 'x')"


@pytest.mark.parametrize(
    ("text", "other", "is_same"),
    [
        ("CREATE VIEW v AS SELECT a FROM u", "CREATE VIEW v AS -- more\n SELECT  a FROM u", True),
        ("CREATE VIEW v AS SELECT a FROM u", "CREATE VIEW v AS SELECT b FROM u", False),
        ("CREATE VIEW v AS SELECT a FROM u", "CREATE VIEW v (x) AS SELECT a FROM u", False),
        (TABLE, TABLE.replace("'x'", "'y'"), True),
        (TABLE, TABLE.replace("a + 1", "a + 2"), False),
        (TABLE, TABLE.replace("AS at)", "AS at - INTERVAL '1' SECOND)"), False),
        (TABLE, TABLE.replace("a INT", "a INT PRIMARY KEY NOT ENFORCED"), False),
    ],
)
def test_a_checkpoint_belongs_to_the_definitions_that_its_query_uses(
    tmp_path: Path, text: str, other: str, is_same: bool
) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    folder, first, second = str(tmp_path), {"d.u": definition(text)}, {"d.u": definition(other)}
    claim(folder, "query", first, may_change=False)
    if is_same:
        claim(folder, "query", second, may_change=False)
        return
    with pytest.raises(ValueError, match=r"another query: 'd\.u' has another definition now"):
        claim(folder, "query", second, may_change=False)
    claim(folder, "query", second, may_change=True)
    claim(folder, "query", second, may_change=False)


def test_a_checkpoint_of_the_first_version_learns_its_definitions(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    (tmp_path / "penstock-sql").mkdir()
    (tmp_path / "penstock-sql" / "query.json").write_text('{"version": 1, "query": "query"}')
    claim(str(tmp_path), "query", {"v": "1"}, may_change=False)
    with pytest.raises(ValueError, match="'v' has another definition now"):
        claim(str(tmp_path), "query", {"v": "2"}, may_change=False)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("INSERT INTO t SELECT 'a' FROM u", KEY),
        ("INSERT INTO t SELECT `a` FROM u", KEY),
        ("INSERT INTO t /*+ OPTIONS('topic' = 'x') */ SELECT a FROM u", KEY),
        ("INSERT INTO t SELECT a FROM u", ("d", "t")),
    ],
)
def test_an_insert_that_differs_has_another_claim(text: str, key: tuple[str, str]) -> None:
    plain = _checkpoints.described(insert_of("INSERT INTO t SELECT a FROM u"), KEY)
    assert _checkpoints.described(insert_of(text), key) != plain


def test_a_query_that_never_planned_a_batch_has_no_claim(tmp_path: Path) -> None:
    """Spark may refuse a query after its claim is written. The corrected one can start then."""
    folder = str(tmp_path / "checkpoint")
    claim(folder, "wrong", {}, may_change=False)
    claim(folder, "right", {}, may_change=False)
    (tmp_path / "checkpoint" / "offsets").mkdir()
    (tmp_path / "checkpoint" / "offsets" / "0").write_text("v1")
    claim(folder, "right", {}, may_change=False)
    with pytest.raises(ValueError, match="belongs to another query"):
        claim(folder, "wrong", {}, may_change=False)


WITH_PASSWORD = "CREATE TABLE t (a INT) WITH ('properties.sasl.jaas.config' = 'x password=\"hunter2\";', 'ssl.password' 'hunter2')"


def test_a_message_never_shows_a_secret() -> None:
    with pytest.raises(SqlError, match="expected '=', got a text in quotes") as error:
        parse_script(WITH_PASSWORD)
    assert "hunter2" not in str(error.value)
    shown = without_secrets(
        statement_text(table(WITH_PASSWORD.replace("'ssl.password' 'h", "'ssl.password' = 'h")))
    )
    assert "hunter2" not in shown
    assert "'properties.sasl.jaas.config' = '" in shown
    with pytest.raises(SqlError, match="a text in single quotes does not end") as error:
        parse_script("SET 'x.password' = 'hunter2")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "WITH ('properties.ssl.keystore.key' = 'hunter2\nhunter2')",
        "WITH ('url' = 'http://user:hunter2@host/path')",
        "WITH ('ssl.password' /* = 'x' */ = 'hunter2')",
        "WITH ('ssl.password' -- the one\n = 'hunter2')",
        "SET spark.x.password = hunter2;",
        "WITH ('url' = 'jdbc:oracle:thin:scott/hunter2@//host:1521/x')",
        "WITH ('url' = 'jdbc:oracle:thin:\"a b\"/hunter2@host')",
        "WITH ('ssl.password' = \"hunter2\")",
        'WITH ("ssl.password" = "hunter2")',
        "WITH ('ssl.password' = hunter2)",
        "WITH (ssl.password = 'hunter2')",
        "WITH ('x' = 'user=me password=hunter2 y=1')",
        "WITH ('x' = 'm user=\"me\" password=\"hunter2\";')",
        "WITH ('x' = 'AccountName=a;AccountKey=hunter2;z=1')",
        "WITH ('basic.auth.user.info' = 'me:hunter2')",
        "WITH ('fs.azure.account.key.x' = 'hunter2')",
        "WITH ('url' = 'jdbc:postgresql://h/d?user=u&password=hunter2&sslmode=require')",
    ],
)
def test_secrets_are_stars(text: str) -> None:
    shown = without_secrets(text)
    assert "hunter2" not in shown
    assert len(shown) == len(text)


def test_many_comments_behind_a_secret_option_are_read_in_time() -> None:
    text = "'password'" + "/**/" * 5_000
    assert without_secrets(text) == text
