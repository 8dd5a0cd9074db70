"""What Flink 2.3 answered to expressions, aggregates and whole scripts, and what penstock answers.

The scripts are tests/data/sql/corpus, and tests/judges/sql/corpus.py says what their first lines mean. Here are those
with the mark `quick`; `python -m tests.judges.sql` runs all. What penstock serves has to be equal.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import SqlError
from penstock.sql.run.session import Session
from tests.judges.sql.corpus import DATA, MODES, SCRIPTS
from tests.judges.sql.judged import judged, judged_in_batches
from tests.judges.sql.outcomes import Outcome, kept
from tests.judges.sql.running import run_script
from tests.judges.sql.topics import write_inputs
from tests.spark.sql_answers import answers, collected, same, same_type

DIFFERENT = {
    "TO_DATE('26-01-02')": "NULL here: a year has four digits",
    "TRY_CAST('1 2' AS DATE)": "the same",
    "TIMESTAMPDIFF(WEEK, TIMESTAMP '2026-12-31 00:00:00', TIMESTAMP '1900-01-01 12:30:15.123')": "overflows in Flink",
    "EXTRACT(SECOND FROM TIMESTAMP '1900-01-01 12:30:15.123')": "-44 in Flink before 1970",
    "EXTRACT(MILLISECOND FROM TIMESTAMP '1900-01-01 12:30:15.123')": "the same",
    "EXTRACT(DOW FROM TIMESTAMP '1969-12-31 23:59:59.5')": "the next day in Flink before 1970",
    "TRY_CAST('x' AS DECIMAL(10, 2))": "NULL here, 0 in Flink",
    "TRY_CAST('1.5d' AS DECIMAL(10, 2))": "NULL here",
    "CEIL(-0.5)": "the constant, and so the type, has a digit less",
    "MOD(CAST(7.5 AS DECIMAL(3, 1)), 2)": "the type has a digit less",
    "REGEXP_EXTRACT('ab', '(a)|(b)', 2)": "an empty text here, NULL in Flink",
    "UPPER('straße')": "Flink cuts the constant to the length of the argument",
    "LOWER('İ')": "the same",
    "TIMESTAMP '2026-01-31 00:00:00' + INTERVAL '1 02:03:04.5' DAY TO SECOND": "Flink's type has no fraction",
    "CAST(CAST(0.1 AS FLOAT) AS DOUBLE)": "Flink folds both casts of a constant into one",
    "LISTAGG(s, '-')": "beside an aggregate with DISTINCT the order differs; Flink promises none",
    "LISTAGG(s, '')": "the same",
    "LISTAGG(s)": "the same",
    "LISTAGG(s) FILTER (WHERE i = 2)": "the same",
    "ARRAY[1, 2][3]": "NULL here; -1 for constants in Flink, and NULL for columns",
    "MAP['a', 1]['b']": "NULL here; -1 for constants in Flink, and NULL for columns",
    "JSON_STRING(TRY_PARSE_JSON('1e400'))": "in quotes here, so that it is JSON",
}
"""Expressions whose answer differs from Flink's, and why. docs/functions.md says it."""
KINDER = {
    "LPAD('hi', -1, 'x')": "NULL here; Flink takes the NULL of a constant as a mistake",
    "LPAD('hi', 4, '')": "the same",
    "CAST('NaN' AS FLOAT) = CAST('NaN' AS FLOAT)": "Flink fails for constants, and is true for columns",
    "TIMESTAMP '2026-01-02 00:00:00' > DATE '2026-01-01'": "Flink wants a CAST",
    "DATE_FORMAT(DATE '2026-01-02', 'yyyy/MM')": "the same",
    "TIMESTAMP '2026-01-02 03:04:05' - TIMESTAMP '2026-01-01 00:00:00' > INTERVAL '1' DAY": "Flink has no such -",
    "JSON_VALUE('{\"a\": \"5\"}', '$.a' RETURNING INT)": "Flink wants the type of JSON to be that of RETURNING",
    "JSON_VALUE('{\"a\": 5}', '$.a' RETURNING DOUBLE)": "the same",
    "JSON_VALUE('{\"a\": \"true\"}', '$.a' RETURNING BOOLEAN)": "the same",
    "JSON_VALUE('{\"a\": 1}', '$.a' RETURNING BOOLEAN)": "the same",
    "JSON_STRING(IF(FALSE, PARSE_JSON('1'), PARSE_JSON('\"x\"')))": "Flink's IF takes no VARIANT",
}
"""Expressions that fail in Flink and not here, and why."""
SOURCES = {"flink_expressions": "", "flink_aggregates": " FROM some_rows", "flink_berlin": ""}
ZONES = {"flink_berlin": "Europe/Berlin"}
REFUSED: dict[str, str] = answers("refused")


@pytest.fixture
def session(spark: SparkSession) -> Iterator[Session]:
    made = Session(spark)
    made.execute("SET 'execution.runtime-mode' = 'batch'")
    yield made
    made.execute("RESET")
    made.stop()


@pytest.mark.promise
@pytest.mark.parametrize("file", SOURCES)
def test_expressions_have_the_values_and_types_that_flink_gave(session: Session, file: str) -> None:
    prepare(session, file)
    given = [each for each in answers(file) if "error" not in each and is_compared(each["expression"])]
    wrong = {}
    for start in range(0, len(given), 50):
        some = given[start : start + 50]
        query = ", ".join(f"{each['expression']} AS c{index}" for index, each in enumerate(some))
        frame = session.sql(f"SELECT {query}{SOURCES[file]}")
        for each, value, (_, kind) in zip(some, collected(frame)[0], frame.dtypes, strict=True):
            one, other = (in_any_order(each["expression"], found) for found in (value, each["value"]))
            if not same(one, other, each["type"]) or not same_type(kind, each["type"]):
                wrong[each["expression"]] = (value, each["value"], kind, each["type"])
    assert wrong == {}


def in_any_order(expression: str, value: Any) -> Any:
    """Return the values of LISTAGG(DISTINCT ...) sorted: neither Flink nor Spark promises their order."""
    return sorted(value.split(",")) if expression.startswith("LISTAGG(DISTINCT") else value


def prepare(session: Session, file: str) -> None:
    """Create the rows of the aggregates, and set the zone of the file."""
    session.execute(f"SET 'table.local-time-zone' = '{ZONES.get(file, 'UTC')}'")
    session.execute((DATA / "rows.sql").read_text())


def is_compared(expression: str) -> bool:
    return expression not in DIFFERENT and expression not in REFUSED


@pytest.mark.parametrize("file", SOURCES)
def test_what_is_refused_has_its_message_and_what_fails_in_flink_fails(session: Session, file: str) -> None:
    prepare(session, file)
    found = {}
    for each in answers(file):
        expression = each["expression"]
        if expression in REFUSED or ("error" in each and expression not in KINDER):
            found[expression] = failure(session, f"SELECT {expression} AS x{SOURCES[file]}")
    assert [each for each, message in found.items() if not message] == []
    recorded = {each: message for each, message in found.items() if each in REFUSED}
    assert {
        each: message for each, message in recorded.items() if not message.startswith(REFUSED[each])
    } == {}


def failure(session: Session, query: str) -> str:
    """Return why a query is refused or fails; "" if it gives a row."""
    try:
        session.sql(query).collect()
    except SqlError as error:
        return str(error).split("\n")[0].partition(": ")[2]
    except PySparkException as error:
        return f"fails: {error.getCondition()}"
    return ""


@pytest.fixture(scope="module")
def inputs(bootstrap: str) -> str:
    """The prefix of the topics that the scripts read."""
    prefix = f"corpus-{uuid.uuid4().hex[:8]}-"
    write_inputs(bootstrap, prefix)
    return prefix


OF_EACH_KIND = (
    ("cdc_group", "streaming"),
    ("cdc_left_join", "streaming"),
    ("cdc_top_2", "streaming"),
    ("full_join", "streaming"),
    ("grouping_sets", "batch"),
    ("interval_join", "streaming"),
    ("keep_last", "streaming"),
    ("over_lag", "batch"),
    ("over_of_all", "streaming"),
    ("session_rows", "streaming"),
    ("tumble_by_key", "streaming"),
    ("upsert_temporal_join", "streaming"),
    ("word_count", "streaming"),
)
"""A script for each kind of operator."""
QUICK = [(name, mode) for name, script in SCRIPTS.items() for mode in MODES if script.is_quick(mode)]


@pytest.fixture
def check(spark: SparkSession, bootstrap: str, inputs: str, tmp_path: Path) -> Callable[[str, str], None]:
    """Run a script, and compare its table with that of Flink."""

    def run(name: str, mode: str) -> None:
        given = run_script(spark, SCRIPTS[name], mode, bootstrap, tmp_path, inputs=inputs)
        outcome, why = judged(SCRIPTS[name], mode, given)
        listed = kept()[mode][name]["outcome"]
        assert outcome is not Outcome.DIFFERENT, why
        assert outcome.value == listed, f"{why}\nRun `python -m tests.judges.sql {mode} {name}`."

    return run


@pytest.mark.promise
@pytest.mark.parametrize(("name", "mode"), OF_EACH_KIND)
def test_an_operator_of_each_kind_gives_the_table_of_flink(
    check: Callable[[str, str], None], name: str, mode: str
) -> None:
    check(name, mode)


@pytest.mark.parametrize(("name", "mode"), [each for each in QUICK if each not in OF_EACH_KIND])
def test_a_script_gives_the_table_of_flink(check: Callable[[str, str], None], name: str, mode: str) -> None:
    check(name, mode)


IN_BATCHES = (
    "cdc_group_of_a_join",
    "cdc_top_second",
    "cdc_window_of_a_window",
    "cdc_window_of_deduplication",
    "cumulate_top_n",
    "except_all",
    "full_join_is_not_distinct",
    "full_join_of_groups",
    "interval_join",
    "keep_last",
    "not_in_query_or_a_condition",
    "over_range",
    "session",
    "upsert_temporal_join_into_groups",
    "window_left_join",
)
"""Scripts with the operators of which an error in the borders of micro-batches is most likely."""


@pytest.mark.long
def test_a_table_does_not_depend_on_micro_batches_and_a_restart(
    spark: SparkSession, bootstrap: str, inputs: str, tmp_path: Path
) -> None:
    def found(name: str) -> tuple[Outcome, str]:
        given = run_script(
            spark, SCRIPTS[name], "streaming", bootstrap, tmp_path, inputs=inputs, batches=4, restarts=True
        )
        return judged_in_batches(SCRIPTS[name], {4: given})

    with ThreadPoolExecutor(2) as pool:
        assert dict(zip(IN_BATCHES, pool.map(found, IN_BATCHES), strict=True)) == dict.fromkeys(
            IN_BATCHES, (Outcome.EQUAL, "")
        )
