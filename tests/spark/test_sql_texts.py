"""Functions of texts in Spark's SQL beside plain ones: no value changes because a text is cheaper."""

from __future__ import annotations

import random

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.sql.emit.arrow_rows import DayFormat
from penstock.sql.functions.patterns import known
from penstock.sql.functions.served import FUNCTIONS
from penstock.sql.plan.expressions import TypedSql
from penstock.sql.plan.texts import literal
from tests.patterns import a_pattern, a_text

SEPARATORS = [
    *("/", " ", "-", "]", "}", "&", "#", "0", "a", "\t", "\n", "'", '"', "\\", "ä", "\u2028", "𝄞", "\x00"),
    *(".", "$", "|", "(", ")", "[", "{", "^", "?", "*", "+"),
    *("ab", "aa", "||", "\\E", "a\\Eb", "\\Q", "\\\\", "é𝄞", "a\n", "$1"),
]
INDEXES = ["-1", "0", "1", "3", "2147483647", "CAST(NULL AS INT)", "i"]
EDGES = [
    "",
    "a",
    "aaa",
    "aaaa",
    "https://a.b/c//d/",
    "é𝄞é",
    "\\E",
    "a\\Ea\\Eb",
    "$1$1",
    "channel_id=",
    "&channel_id=a",
]
MORE_PATTERNS = [
    *(
        "(&|^)channel_id=([^&]*)",
        "^(https?)://([^/?#]*)",
        "(\\d+)-(\\d*)",
        "a",
        "a=",
        "a\\.(b|c*)=",
        "b(a*)$",
        "=(.*)",
    ),
    *(
        "(a)|(b)",
        "(a)?b",
        "(a*)(b*)",
        "^$",
        "(?:a|=)(b*)",
        "é(𝄞*)",
        "((a)(b*))",
        "a{2}(b*?)=",
        "'(a*)'",
        "\\\\(b*)",
    ),
]


def texts(chance: random.Random, count: int) -> list[str | None]:
    """Return texts of separators and of characters of patterns."""
    parts = [*SEPARATORS, *"aaabbb==.é𝄞 &^"]
    made = ("".join(chance.choices(parts, k=chance.randrange(9))) for _ in range(count))
    return [None, *EDGES, *SEPARATORS, *made]


def applied(name: str, *args: tuple[str, str]) -> str:
    return FUNCTIONS[name].apply([TypedSql(*each) for each in args])


def test_split_index_gives_the_pieces_between_separators(spark: SparkSession) -> None:
    rows = [(text, number % 5 - 1) for number, text in enumerate(texts(random.Random(7), 400))]
    asked = [(each, index) for each in SEPARATORS for index in INDEXES]
    made = [
        applied("SPLIT_INDEX", ("t", "string"), (literal(each), "string"), (index, "int"))
        for each, index in asked
    ]
    frame = spark.createDataFrame(rows, "t string, i int")
    found = frame.selectExpr("t", "i", *(f"{text} AS c{n}" for n, text in enumerate(made))).collect()
    assert sorted(map(str, ((row.t, row.i) for row in found))) == sorted(map(str, rows))
    for row in found:
        for (separator, index), value in zip(asked, row[2:], strict=True):
            number = row.i if index == "i" else -1 if index.startswith("CAST") else int(index)
            assert value == piece(row.t, separator, number), (row.t, separator, index)


def piece(text: str | None, separator: str, index: int) -> str | None:
    pieces = text.split(separator) if text else []
    return pieces[index] if 0 <= index < len(pieces) else None


def test_a_pattern_in_quotes_finds_what_two_plain_searches_find(spark: SparkSession) -> None:
    chance = random.Random(11)
    values = [*texts(chance, 100), *(a_text(chance) for _ in range(200))]
    pairs = []
    for pattern in [*MORE_PATTERNS, *(a_pattern(chance) for _ in range(100))]:
        read, quoted = known(literal(pattern)), literal(pattern)
        assert read is not None, pattern
        for number in range(len(read.groups)):
            plain = f"CASE WHEN t RLIKE {quoted} THEN regexp_extract(t, {quoted}, {number}) END"
            asked = ("t", "string"), (quoted, "string"), (str(number), "int")
            pairs.append((plain, applied("REGEXP_EXTRACT", *asked)))
        tested = applied("REGEXP", ("t", "string"), (quoted, "string"))
        pairs.append((f"({quoted} <> '' AND t RLIKE {quoted})", tested))
    cheap = [(plain, text) for plain, text in pairs if plain != text]
    frame = spark.createDataFrame([(each,) for each in values], "t string").coalesce(1).cache()
    matching = 0
    for start in range(0, len(cheap), 50):
        some = cheap[start : start + 50]
        for row in frame.selectExpr("t", *(f"array({plain}, {text})" for plain, text in some)).collect():
            for (plain, text), (one, other) in zip(some, row[1:], strict=True):
                assert one == other, (row.t, plain, text)
                matching += one not in (None, False, "")
    assert len(cheap) > 200
    assert matching > 1_000
    frame.unpersist()


def test_a_day_is_that_of_date_format_in_all_years(spark: SparkSession) -> None:
    chance = random.Random(3)
    given = [
        0,
        -1,
        86_400_000_000 - 1,
        253_402_300_800_000_000,
        -62_135_596_800_000_001,
        -62_198_755_200_000_000,
    ]
    given += [chance.randrange(-(2**61), 2**61) for _ in range(500)]
    frame = spark.createDataFrame([(each,) for each in given], "micros bigint").coalesce(1)
    with_zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        query = [
            f"date_format(timestamp_micros(micros), '{each}')"
            for each in ("yyyy-MM-dd", "dd.MM yyyy", "MM/dd")
        ]
        found = frame.selectExpr("micros", *query).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(with_zone))
    times = pa.array([row.micros for row in found], pa.int64()).view(pa.timestamp("us", tz="UTC"))
    for column, parts in (
        (1, ("yyyy", "-", "MM", "-", "dd")),
        (2, ("dd", ".", "MM", " ", "yyyy")),
        (3, ("MM", "/", "dd")),
    ):
        assert DayFormat(parts)(times).to_pylist() == [row[column] for row in found]
