"""Texts of Spark's SQL as values: what an expression of a plan gives for a row.

Runs in tests only. The text is the one that Spark gets, so what a pass has written is what is computed. Times and
intervals are microseconds. Invariant: a function that is not here is an error, and never a guess.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp

Env = Mapping[str, Any]
_UNITS_US = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_LIMITS = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**63}
GROUP = "\1group"
"""The name under which a row of a group has the rows of the group."""


class RaisedError(Exception):
    """The text has called raise_error."""


@functools.cache
def parsed(text: str) -> exp.Expr:
    """Return the tree of a text."""
    found = sqlglot.parse_one(text, dialect="spark")
    assert isinstance(found, exp.Expr)
    return found


def value_of(text: str, env: Env) -> Any:
    """Return what a text gives for a row, by its names."""
    return _value(parsed(text), env)


def _value(node: exp.Expr, env: Env) -> Any:
    method = _METHODS.get(type(node))
    if method is None:
        raise NotImplementedError(f"{type(node).__name__} in {node.sql('spark')}")
    return method(node, env)


def _values(nodes: Sequence[exp.Expr], env: Env) -> list[Any]:
    return [_value(each, env) for each in nodes]


def _of(node: exp.Expr, env: Env, name: str = "expression") -> Any:
    return _value(node.args[name], env)


def _both(work: Callable[[Any, Any], Any]) -> Callable[[Any, Env], Any]:
    """Return a method for an operator that gives NULL for NULL."""

    def method(node: exp.Expr, env: Env) -> Any:
        one, other = _of(node, env, "this"), _of(node, env)
        return None if one is None or other is None else work(one, other)

    return method


def _column(node: exp.Column, env: Env) -> Any:
    if not node.table:
        return env[node.name]
    row = env[node.table]
    return None if row is None else row[node.name]


def _dot(node: exp.Dot, env: Env) -> Any:
    row = _value(node.this, env)
    return None if row is None else row[node.expression.name]


def _literal(node: exp.Literal, _env: Env) -> Any:
    return str(node.this) if node.is_string else int(str(node.this))


def _interval(node: exp.Interval, _env: Env) -> int:
    whole, _, fraction = str(node.this.this).partition(".")
    unit = _UNITS_US[str(node.args["unit"].this).upper().removesuffix("S")]
    return int(whole) * unit + int(fraction.ljust(6, "0") or 0) * unit // 1_000_000


def _and(node: exp.And, env: Env) -> bool | None:
    found = [_of(node, env, "this"), _of(node, env)]
    return False if False in found else None if None in found else True


def _or(node: exp.Or, env: Env) -> bool | None:
    found = [_of(node, env, "this"), _of(node, env)]
    return True if True in found else None if None in found else False


def _not(node: exp.Not, env: Env) -> bool | None:
    found = _of(node, env, "this")
    return None if found is None else not found


def _is(node: exp.Is, env: Env) -> bool:
    return bool(_of(node, env, "this") is _of(node, env))


def _between(node: exp.Between, env: Env) -> bool | None:
    this, low, high = (_of(node, env, name) for name in ("this", "low", "high"))
    found = [None if None in (low, this) else low <= this, None if None in (high, this) else this <= high]
    return False if False in found else None if None in found else True


def is_in(value: Any, others: Sequence[Any]) -> bool | None:
    """Return value IN (others), with the NULL of SQL."""
    if not others:
        return False
    if value is None:
        return None
    return True if value in others else None if None in others else False


def _case(node: exp.Case, env: Env) -> Any:
    this = node.args.get("this")
    for each in node.args["ifs"]:
        test = _value(each.this, env)
        if (test is True) if this is None else (test is not None and test == _value(this, env)):
            return _value(each.args["true"], env)
    default = node.args.get("default")
    return None if default is None else _value(default, env)


def _cast(node: exp.TryCast, env: Env) -> Any:
    value, kind = _value(node.this, env), node.args["to"].this.value
    if kind in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "TIMESTAMPLTZ") or value is None:
        return value
    if kind in _LIMITS:
        number = int(value)
        assert -_LIMITS[kind] <= number < _LIMITS[kind], f"{number} is no {kind}"
        return number
    if kind in ("TEXT", "VARCHAR"):
        return str(value)
    raise NotImplementedError(f"CAST AS {kind}")


def _coalesce(node: exp.Coalesce, env: Env) -> Any:
    found = (_value(each, env) for each in (node.this, *node.expressions))
    return next((each for each in found if each is not None), None)


def _nullif(node: exp.Nullif, env: Env) -> Any:
    one, other = _of(node, env, "this"), _of(node, env)
    return None if one == other else one


def _extreme(work: Callable[[list[Any]], Any]) -> Callable[[Any, Env], Any]:
    def method(node: exp.Expr, env: Env) -> Any:
        found = [each for each in _values([node.this, *node.expressions], env) if each is not None]
        return work(found) if found else None

    return method


def _struct(node: exp.Struct, env: Env) -> dict[str, Any]:
    return {each.this.name: _value(each.expression, env) for each in node.expressions}


def _listed(node: exp.ArrayAgg, env: Env) -> list[Any]:
    found = (_value(node.this, {**env, **row}) for row in env[GROUP])
    return [each for each in found if each is not None]


def _different(node: exp.ArrayUniqueAgg, env: Env) -> list[Any]:
    found = (_value(node.this, {**env, **row}) for row in env[GROUP])
    return list(dict.fromkeys(each for each in found if each is not None))


def _lowest(work: Callable[..., Any]) -> Callable[[Any, Env], Any]:
    def method(node: exp.Expr, env: Env) -> Any:
        found = (_value(node.this, {**env, **row}) for row in env[GROUP])
        return work((each for each in found if each is not None), default=None)

    return method


def _summed(node: exp.Sum, env: Env) -> Any:
    found = (_value(node.this, {**env, **row}) for row in env[GROUP])
    known = [each for each in found if each is not None]
    return sum(known) if known else None


def _lambda(node: exp.Expr, env: Env) -> Callable[..., Any]:
    names = [each.name for each in node.expressions]
    return lambda *args: _value(node.this, {**env, **dict(zip(names, args, strict=True))})


def _sorted(node: exp.ArraySort, env: Env) -> list[Any]:
    found = _value(node.this, env)
    by = node.args.get("expression")
    if by is None:
        return sorted(found)
    return sorted(found, key=functools.cmp_to_key(_lambda(by, env)))


def _slice(node: exp.ArraySlice, env: Env) -> list[Any]:
    first, count = _of(node, env, "start"), _of(node, env, "end")
    found: list[Any] = _value(node.this, env)[first - 1 : first - 1 + count]
    return found


def _transform(node: exp.Transform, env: Env) -> list[Any]:
    return list(map(_lambda(node.args["expression"], env), _value(node.this, env)))


def _reduce(node: exp.Reduce, env: Env) -> Any:
    work = _lambda(node.args["merge"], env)
    return functools.reduce(work, _value(node.this, env), _of(node, env, "initial"))


def _named(node: exp.Anonymous, env: Env) -> Any:
    name, args = str(node.this).lower(), _values(node.expressions, env)
    if name == "array_repeat":
        return None if args[1] is None else [args[0]] * args[1]
    if name == "xxhash64":
        return zlib.crc32(repr(args).encode())
    if name == "timestamp_micros":
        return args[0]
    if name == "raise_error":
        raise RaisedError(args[0])
    raise NotImplementedError(name)


def _same(node: exp.Expr, env: Env) -> Any:
    return _value(node.this, env)


_METHODS: dict[type, Callable[[Any, Env], Any]] = {
    exp.Column: _column,
    exp.Sum: _summed,
    exp.Identifier: lambda node, env: env[node.name],
    exp.Dot: _dot,
    exp.Literal: _literal,
    exp.Null: lambda _node, _env: None,
    exp.Boolean: lambda node, _env: node.this,
    exp.Interval: _interval,
    exp.Paren: _same,
    exp.UnixMicros: _same,
    exp.EQ: _both(lambda one, other: one == other),
    exp.NEQ: _both(lambda one, other: one != other),
    exp.LT: _both(lambda one, other: one < other),
    exp.LTE: _both(lambda one, other: one <= other),
    exp.GT: _both(lambda one, other: one > other),
    exp.GTE: _both(lambda one, other: one >= other),
    exp.Add: _both(lambda one, other: one + other),
    exp.Sub: _both(lambda one, other: one - other),
    exp.Mul: _both(lambda one, other: one * other),
    exp.IntDiv: _both(lambda one, other: (abs(one) // abs(other)) * (1 if (one < 0) == (other < 0) else -1)),
    exp.BitwiseAnd: _both(lambda one, other: one & other),
    exp.Neg: lambda node, env: -_value(node.this, env),
    exp.NullSafeEQ: lambda node, env: _of(node, env, "this") == _of(node, env),
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: lambda node, env: is_in(_value(node.this, env), _values(node.expressions, env)),
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Least: _extreme(min),
    exp.Greatest: _extreme(max),
    exp.Array: lambda node, env: _values(node.expressions, env),
    exp.ArraySize: lambda node, env: len(_value(node.this, env)),
    exp.Struct: _struct,
    exp.Min: _lowest(min),
    exp.Max: _lowest(max),
    exp.ArrayAgg: _listed,
    exp.ArrayUniqueAgg: _different,
    exp.ArraySort: _sorted,
    exp.ArraySlice: _slice,
    exp.Transform: _transform,
    exp.Reduce: _reduce,
    exp.Anonymous: _named,
}
