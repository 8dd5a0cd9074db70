"""What penstock.sql relies on in the inside of sqlglot's parser, which is not a public interface."""

from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.language.queries import (
    CastTo,
    DescriptorOf,
    IntervalOf,
    NamedArgument,
    TableArgument,
    read_expression,
    read_query,
    start_of,
)
from penstock.sql.language.source import Source


def query(text: str) -> exp.Expr:
    return read_query(text, Source(text), 0)


def expression(text: str) -> exp.Expr:
    return read_expression(text, Source(text), 0)


@pytest.mark.parametrize("name", ["COUNT", "DATE_FORMAT", "COALESCE", "IF", "LOG", "LISTAGG", "ROW", "foo"])
def test_every_function_is_anonymous(name: str) -> None:
    found = expression(f"{name}(a, 1)")
    assert type(found) is exp.Anonymous
    assert found.this == name
    assert [type(each) for each in found.expressions] == [exp.Column, exp.Literal]


def test_names_functions_and_literals_know_their_offsets() -> None:
    text = "SELECT f(a), 'x' FROM t"
    tree = query(text)
    function, literal = tree.expressions
    assert (function.meta["start"], literal.meta["start"]) == (7, 13)
    table = tree.args["from_"].this
    assert (table.this.meta["start"], table.this.meta["end"]) == (22, 22)
    assert start_of(tree) == 7


def test_parts_of_a_select_have_these_names() -> None:
    tree = query(
        "WITH w AS (SELECT 1) SELECT DISTINCT a FROM t JOIN u ON a = b WHERE c GROUP BY a "
        "HAVING d ORDER BY a LIMIT 1"
    )
    assert type(tree) is exp.Select
    parts = {name for name, value in tree.args.items() if value}
    names = {
        "with_",
        "expressions",
        "distinct",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
    }
    assert parts == names


def test_nodes_of_flink() -> None:
    cast = expression("CAST(a AS ROW<b INT, c DECIMAL(1, 0)>)")
    assert isinstance(cast, CastTo)
    assert (cast.args["text"], cast.args["start"]) == ("ROW<b INT, c DECIMAL(1, 0)>", 10)
    interval = expression("INTERVAL -'1:30' HOURS TO MINUTE(2)")
    assert isinstance(interval, IntervalOf)
    assert interval.args == {"text": "1:30", "unit": "HOUR TO MINUTE", "sign": "-"}
    tree = query("SELECT * FROM TABLE(f(DATA => TABLE t PARTITION BY (a, b), X => DESCRIPTOR(ts))) AS x")
    data, time = tree.args["from_"].this.this.expressions
    assert isinstance(data, NamedArgument)
    assert isinstance(data.expression, TableArgument)
    assert [each.name for each in data.expression.args["partition_by"]] == ["a", "b"]
    assert isinstance(time.expression, DescriptorOf)


def test_a_join_has_side_and_kind() -> None:
    left, cross = query("SELECT * FROM a LEFT OUTER JOIN b ON c CROSS JOIN UNNEST(d) AS e (f)").args["joins"]
    assert (left.side, cross.kind) == ("LEFT", "CROSS")
    assert isinstance(cross.this, exp.Unnest)


@pytest.mark.parametrize(
    ("text", "column"),
    [("SELECT a b c FROM t", 12), ("SELECT (a FROM t", 11), ("SELECT a\nFROM t GROUP a", 14)],
)
def test_a_mistake_has_its_column(text: str, column: int) -> None:
    with pytest.raises(SqlError) as error:
        query(text)
    assert error.value.facts["column"] == column


@pytest.mark.parametrize("text", ["DROP TABLE t", "", "a", "SELECT 1; SELECT 2", "SET a = b", "{{ x }}"])
def test_only_one_query_is_read(text: str) -> None:
    with pytest.raises(SqlError):
        query(text)


def test_backslashes_are_plain_and_names_keep_their_case() -> None:
    found = expression("f('a\\', `B``c`)")
    assert found.expressions[0].this == "a\\"
    assert found.expressions[1].name == "B`c"


def test_nested_arrays_and_maps_are_read_once() -> None:
    """As parts of a type they would be read twice for each level: 16 levels took more than 8 seconds."""
    for word in ("ARRAY", "MAP"):
        found = expression(f"{f'{word}[' * 30}1{']' * 30}")
        assert len(list(found.find_all(exp.Bracket, exp.Array))) == 30
