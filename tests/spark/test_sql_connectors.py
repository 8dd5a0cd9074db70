"""Tables of SQL that are not in Kafka, on real Spark: made rows, and a database."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.errors import SqlError
from penstock.sql.run.session import Session
from tests.waiting import Patience

WAIT_S = 240


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, lines: list[str]) -> Iterator[Session]:
    made = Session(spark, lines.append)
    made.execute(
        f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints'; SET 'table.dml-sync' = 'true'"
    )
    yield made
    made.stop()


@pytest.fixture
def database(spark: SparkSession) -> str:
    """The URL of a new Derby in memory with the table `stored`. Derby comes with Spark."""
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", "/dev/null")  # type: ignore[union-attr]  # it is there
    url = f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"
    rows = spark.createDataFrame([], "id BIGINT, name STRING")
    types = {"createTableColumnTypes": "id BIGINT, name VARCHAR(20)"}
    rows.write.jdbc(url, "stored", properties=types)
    return url


def sequence(count: int, **more: str) -> str:
    """Return WITH of a datagen table whose column `id` counts from 1."""
    options = {
        "connector": "datagen",
        "fields.id.kind": "sequence",
        "fields.id.start": "1",
        "fields.id.end": str(count),
        **{key.replace("__", "-").replace("_", "."): value for key, value in more.items()},
    }
    return "WITH (" + ", ".join(f"'{key}' = '{value}'" for key, value in options.items()) + ")"


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    found = [tuple(row) for row in session.sql(query).collect()]
    session.execute("RESET 'execution.runtime-mode'")
    return found


def test_a_stream_of_made_rows_goes_into_a_database_and_is_looked_up(
    session: Session, database: str, lines: list[str]
) -> None:
    session.execute(
        f"""
        CREATE TABLE made (id BIGINT, name STRING, doubled AS id * 2) {sequence(50, fields_name_length="4")};
        CREATE TABLE stored (id BIGINT, name STRING)
            WITH ('connector' = 'jdbc', 'url' = '{database}', 'table-name' = 'stored');
        CREATE TABLE shown (id BIGINT, size_of_name INT) WITH ('connector' = 'print');
        INSERT INTO stored SELECT id, UPPER(name) FROM made;
        """
    )
    totals = "SELECT COUNT(*), MIN(id), MAX(id), MIN(CHAR_LENGTH(name)), MAX(CHAR_LENGTH(name)) FROM stored"
    assert rows(session, totals) == [(50, 1, 50, 4, 4)]
    session.execute(
        "INSERT INTO shown SELECT made.id, CHAR_LENGTH(stored.name) FROM made JOIN stored ON made.doubled = stored.id "
        "WHERE made.doubled > 46"
    )
    assert sorted(lines) == ["+I[24, 4]", "+I[25, 4]"]
    lines.clear()
    session.execute(
        """
        CREATE TABLE nested (r ROW<`order-id` INT, at TIMESTAMP_LTZ(3)>) WITH ('connector' = 'print');
        INSERT INTO nested SELECT CAST(ROW(id, TO_TIMESTAMP_LTZ(id, 3)) AS ROW<`order-id` INT, at TIMESTAMP_LTZ(3)>)
            FROM made WHERE id = 7
        """
    )
    assert lines == ["+I[+I[7, 1970-01-01T00:00:00.007]]"]
    session.execute("SET 'execution.runtime-mode' = 'batch'; INSERT INTO stored VALUES (51, 'x')")
    assert rows(session, "SELECT name FROM stored WHERE id = 51") == [("x",)]
    looked_up = (
        "SELECT m.id, s.name FROM (SELECT *, PROCTIME() AS p FROM (VALUES (51), (99)) AS v (id)) AS m "
        "LEFT JOIN stored FOR SYSTEM_TIME AS OF m.p AS s ON m.id = s.id"
    )
    assert sorted(rows(session, looked_up)) == [(51, "x"), (99, None)]
    twice = (
        "SELECT COUNT(*) FROM made JOIN (SELECT id, name FROM made WHERE id > 9) AS m ON made.name = m.name"
    )
    assert rows(session, twice)[0][0] >= 41


def test_a_stream_of_made_rows_continues_after_a_stop(session: Session, tmp_path: Path) -> None:
    target = tmp_path / "out"
    session.execute(
        f"""
        SET 'table.dml-sync' = 'false';
        CREATE TABLE made (id BIGINT) {sequence(1500, rows__per__second="500")};
        CREATE TABLE out (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{target}');
        """
    )
    insert = "INSERT INTO out SELECT id FROM made"
    job = session.execute(insert)[0].job
    assert job is not None
    patience = Patience("a batch is committed", WAIT_S)
    while not list((target / "_spark_metadata").glob("0")):
        patience.check()
    job.stop()
    again = session.execute(insert)[0].job
    assert again is not None
    assert again.wait(WAIT_S)
    found = rows(session, "SELECT COUNT(*), COUNT(DISTINCT id), MIN(id), MAX(id) FROM out")
    assert found == [(1500, 1500, 1, 1500)]


def test_rows_with_a_key_are_kept_once_in_a_database(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    session.execute(
        f"""
        CREATE TABLE made (id BIGINT) {sequence(50)};
        CREATE TABLE latest (k BIGINT, id BIGINT, PRIMARY KEY (k) NOT ENFORCED)
            WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{file}', 'table-name' = 'latest');
        INSERT INTO latest SELECT MOD(id, 5), id FROM made;
        """
    )

    def stored() -> dict[int, int]:
        with closing(sqlite3.connect(file)) as connection:
            return dict(connection.execute("SELECT k, id FROM latest").fetchall())

    assert stored() == {0: 50, 1: 46, 2: 47, 3: 48, 4: 49}
    session.execute(
        "SET 'execution.runtime-mode' = 'batch'; INSERT INTO latest VALUES (CAST(4 AS BIGINT), CAST(0 AS BIGINT)), (9, 9)"
    )
    assert stored() == {0: 50, 1: 46, 2: 47, 3: 48, 4: 0, 9: 9}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SET 'execution.runtime-mode' = 'batch'; SELECT * FROM endless", "cannot be read by a batch"),
        ("INSERT INTO endless SELECT 1", "only makes rows"),
        ("SELECT * FROM elsewhere", "the table 'gone' of the database cannot be opened"),
        ("SELECT * FROM other", "does not have the column 'color'. It has id, name"),
        ("INSERT INTO other SELECT 1", "does not have the column 'color'"),
        ("INSERT INTO keyed SELECT 1", "is of 'derby'"),
    ],
)
def test_what_a_connector_cannot_do_is_refused(
    session: Session, database: str, statement: str, message: str
) -> None:
    jdbc = f"'connector' = 'jdbc', 'url' = '{database}', 'table-name'"
    session.execute(
        f"""
        CREATE TABLE endless (id INT) WITH ('connector' = 'datagen');
        CREATE TABLE elsewhere (id BIGINT) WITH ({jdbc} = 'gone');
        CREATE TABLE other (color INT) WITH ({jdbc} = 'stored');
        CREATE TABLE keyed (id INT PRIMARY KEY NOT ENFORCED) WITH ({jdbc} = 'stored');
        """
    )
    with pytest.raises(SqlError) as error:
        session.execute(statement)
    assert message.lower() in str(error.value).lower()


KAFKA = (
    "'connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json'"
)
FILES = "'connector' = 'filesystem', 'path' = '{folder}/out'"
REFUSED: list[tuple[str, str, str]] = [
    ("a ARRAY<INT>", f"{FILES}, 'format' = 'csv'", "'a' is ARRAY, which the format 'csv' cannot hold"),
    ("a BYTES", f"{FILES}, 'format' = 'csv'", "'a' is BYTES, which the format 'csv' cannot hold"),
    ("a INT", "'connector' = 'filesystem', 'path' = '/etc/hostname', 'format' = 'csv'", "is a file. Expected a folder"),
    ("a INT", "'connector' = 'filesystem', 'path' = 'nosuch://h/x', 'format' = 'csv'", 'No FileSystem for scheme "nosuch"'),
    ("a INT, at STRING METADATA FROM 'x'", f"{FILES}, 'format' = 'json'", "has no metadata, so 'at' cannot be written"),
    ("a INT, at STRING METADATA FROM 'x'", "'connector' = 'print'", "has no metadata, so 'at' cannot be written"),
    ("a INT) PARTITIONED BY (a", f"{FILES}, 'format' = 'json'", "PARTITIONED BY names all columns"),
    ("a INT, t TIMESTAMP(3)) PARTITIONED BY (t", f"{FILES}, 'format' = 'json'", "'t' of PARTITIONED BY is TIMESTAMP"),
    ("a INT) PARTITIONED BY (a", KAFKA, "PARTITIONED BY is for 'filesystem'"),
    ("a INT", KAFKA.replace("'json'", "'jsn'"), "there is no table"),
    ("a INT", KAFKA.replace(", 'format' = 'json'", ""), "A table needs a format"),
    ("a INT", f"{KAFKA}, 'sink.delivery-guarantee' = 'exactly-once'", "transactional-id-prefix' is required"),
    ("a INT", f"{KAFKA}, 'sink.query-id' = 'q'", "'sink.batch-id' is missing"),
    ("a INT", "'connector' = 'datagen'", "only makes rows"),
    ("a INT", "'connector' = 'nats'", "there is no connector 'nats'"),
    ("a INT", "'connector.type' = 'filesystem', 'connector.path' = '{folder}', 'format.type' = 'csv'", "there is no table"),
    ("a INT", "'connector' = 'jdbc', 'url' = 'jdbc:mysql://h/d', 'table-name' = 'x'", "cannot be opened"),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_explain_refuses_what_insert_refuses(session: Session, tmp_path: Path, mode: str) -> None:
    session.execute(f"SET 'execution.runtime-mode' = '{mode}'; CREATE TABLE made (i INT) {ROWS}")
    for number, (columns, options, message) in enumerate(REFUSED):
        name = f"t{number}"
        with contextlib.suppress(SqlError):
            session.execute(
                f"CREATE TABLE {name} ({columns}) WITH ({options.replace('{folder}', str(tmp_path))})"
            )
        values = ", ".join(
            VALUES[each.split()[1]] for each in columns.partition(") PARTITIONED")[0].split(", ")
        )
        insert = f"INSERT INTO {name} SELECT {values} FROM made"
        for statement in (f"EXPLAIN {insert}", insert):
            with pytest.raises(SqlError) as found:
                session.execute(statement)
            assert message in found.value.message, statement
            assert type(found.value) is SqlError, "the exit status is that of a mistake"
    assert not (tmp_path / "out").exists()


ROWS = "WITH ('connector' = 'datagen', 'number-of-rows' = '3')"
VALUES = {
    "INT": "i",
    "STRING": "'x'",
    "ARRAY<INT>": "ARRAY[i]",
    "BYTES": "CAST('x' AS BYTES)",
    "TIMESTAMP(3)": "TIMESTAMP '2026-01-01 00:00:00'",
}


def test_files_are_divided_among_folders_by_columns(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "divided"
    session.execute(
        f"""
        CREATE TABLE made (id BIGINT) {sequence(3)};
        CREATE TABLE divided (dt STRING, id BIGINT, hm STRING, n INT) PARTITIONED BY (dt, hm, n) WITH (
            'connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}',
            'sink.rolling-policy.rollover-interval' = '1 min');
        INSERT INTO divided SELECT CASE WHEN id < 3 THEN '01' END, id, '00:0' || CAST(id AS STRING), CAST(id AS INT)
            FROM made
        """
    )
    assert sorted(each.name for each in folder.glob("dt=*")) == [
        "dt=01",
        "dt=__HIVE_DEFAULT_PARTITION__",
    ]
    assert (folder / "dt=01" / "hm=00%3A01" / "n=1").is_dir()
    stored = "SELECT dt, id, hm, n FROM divided ORDER BY id"
    assert rows(session, stored) == [("01", 1, "00:01", 1), ("01", 2, "00:02", 2), (None, 3, "00:03", 3)]
    of_flink = folder / "dt=__DEFAULT_PARTITION__" / "hm=a" / "n=4"
    of_flink.mkdir(parents=True)
    (of_flink / "part").write_text("4\n")
    folder_of_spark = folder / "_spark_metadata"
    shutil.rmtree(folder_of_spark)  # it lists the files of the stream only
    assert rows(session, f"{stored} DESC LIMIT 1") == [(None, 4, "a", 4)]
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    session.execute("INSERT OVERWRITE divided VALUES ('01', 9, '00:01', 1)")
    assert [row[1] for row in rows(session, stored)] == [2, 3, 4, 9]
    with pytest.raises(SqlError, match="or the name of the folder for NULL"):
        session.execute("SET 'execution.runtime-mode' = 'batch'; INSERT INTO divided VALUES ('', 9, 'x', 1)")


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_files_give_back_each_value(session: Session, tmp_path: Path, format_: str) -> None:
    """Spark by itself leaves out microseconds, and in CSV blanks at the ends of texts and the text ''."""
    texts = ["' a '", "''", "CAST(NULL AS STRING)", "'\"'", "'a,\"b\\'", "'\tx\t'", "'#'"]
    time = "TIMESTAMP '2026-01-01 10:00:00.123456'"
    columns = "id INT, a STRING, at TIMESTAMP(6), `day` DATE, d DOUBLE, m DECIMAL(10, 3)"
    options = f"'connector' = 'filesystem', 'format' = '{format_}'"
    made = ", ".join(
        f"({number}, {text}, {time}, DATE '0099-01-02', 0.1E0, 1.500)" for number, text in enumerate(texts)
    )
    session.execute(
        f"""
        CREATE TABLE kept ({columns}) WITH ({options}, 'path' = '{tmp_path}/kept');
        CREATE TABLE streamed ({columns}) WITH ({options}, 'path' = '{tmp_path}/streamed');
        SET 'execution.runtime-mode' = 'batch';
        INSERT INTO kept VALUES {made}
        """
    )
    wanted = rows(session, f"SELECT * FROM (VALUES {made}) AS v(id, a, `at`, `day`, d, m) ORDER BY id")
    assert rows(session, "SELECT * FROM kept ORDER BY id") == wanted
    session.execute(
        f"""
        CREATE TABLE watched ({columns}) WITH ({options}, 'path' = '{tmp_path}/kept',
            'source.monitor-interval' = '1 s');
        SET 'execution.runtime-mode' = 'streaming'; SET 'table.dml-sync' = 'false'
        """
    )
    job = session.execute("INSERT INTO streamed SELECT * FROM watched")[0].job
    assert job is not None
    job.queries[0].processAllAvailable()
    job.stop()
    assert rows(session, "SELECT * FROM streamed ORDER BY id") == wanted
