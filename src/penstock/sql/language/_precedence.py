"""The order of comparisons that stand beside one another without brackets, as Flink reads them.

Runs on the driver, on the tree of a text, before a query is translated. Invariant: =, <>, <, <=, > and >= are
of one rank and go from left to right, and IS NULL, IS TRUE and the like come after all of them. sqlglot reads
`a = b < c` as `a = (b < c)` and `a = b IS NULL` as `a = (b IS NULL)`. What is put in another order gets
brackets. Other mixtures are left as they are, and `_comparison` of Operators refuses them.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
IS_MARK = "is"
"""The mark of a node that was written IS ... or IS NOT ..."""
_DISTINCT_FROM = (exp.NullSafeEQ, exp.NullSafeNEQ)


def in_flinks_order(tree: exp.Expr) -> exp.Expr:
    """Return a tree whose comparisons are in the order of Flink; it is changed in place."""
    tops = [each for each in tree.find_all(*COMPARISONS) if type(each.parent) not in COMPARISONS]
    for top in reversed(tops):  # what is inside comes first
        found = _ordered(top)
        if found is None:
            continue
        if top is tree:
            tree = found
        else:
            top.replace(found)
    return tree


def _ordered(top: exp.Expr) -> exp.Expr | None:
    """Return a row of comparisons in another order; None if it stays."""
    operands: list[exp.Expr] = []
    signs: list[type] = []
    _flatten(top, operands, signs)
    last = _is_behind(operands[-1])
    if last is not None:
        operands[-1] = _is_of(last).this
    elif len(signs) == 1:
        return None
    if any(map(_is_other, operands)):
        return None
    found = operands[0].copy()
    for index, (sign, operand) in enumerate(zip(signs, operands[1:], strict=True)):
        found = sign(this=_in_brackets(found) if index else found, expression=operand.copy())
    if last is None:
        return found
    around = last.copy()
    _is_of(around).set("this", _in_brackets(found))
    return around


def _flatten(node: exp.Expr, operands: list[exp.Expr], signs: list[type]) -> None:
    if type(node) not in COMPARISONS:
        operands.append(node)
        return
    _flatten(node.this, operands, signs)
    signs.append(type(node))
    _flatten(node.expression, operands, signs)


def _is_behind(node: exp.Expr) -> exp.Expr | None:
    """Return IS ... behind the last comparison, around which sqlglot puts brackets; else None."""
    if not isinstance(node, exp.Paren) or node.meta.get("written"):
        return None
    inner: Any = node.this
    if not inner.meta.get(IS_MARK):
        return None
    return None if _is_other(_is_of(inner).this) else inner


def _is_of(node: Any) -> Any:
    return node.this if isinstance(node, exp.Not) else node


def _is_other(node: exp.Expr) -> bool:
    """Return whether an operand is a condition without brackets that this file does not put in order."""
    while isinstance(node, exp.Paren) and not node.meta.get("written"):
        node = node.this
    return isinstance(node, (exp.Not, exp.Is, *_DISTINCT_FROM))


def _in_brackets(node: exp.Expr) -> exp.Expr:
    found = exp.Paren(this=node)
    found.meta["written"] = True
    return found
