"""Arguments of table functions in FROM, which are named or stand in their order.

Runs on the driver. Invariant: an argument that the function does not have is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.language.queries import NamedArgument, QueryLocation


def arguments_of(
    location: QueryLocation, call: exp.Expr, names: Sequence[str], *, in_any_case: bool
) -> dict[str, exp.Expr]:
    """Return the arguments of a call by their names.

    Args:
        location: of the query.
        call: of a table function.
        names: of the arguments that it has.
        in_any_case: whether a name may be written in another case. It is given in upper case then.

    Raises:
        SqlError: an argument has another name, or comes twice.
    """
    found: dict[str, exp.Expr] = {}
    for number, each in enumerate(call.expressions):
        if isinstance(each, NamedArgument):
            name, value = each.this.name, each.expression
            name = name.upper() if in_any_case else name
        else:
            name, value = (names[number] if number < len(names) else ""), each
        if name not in names or name in found:
            location.refuse(call, f"{str(call.this).upper()} takes {', '.join(names)}.")
        found[name] = value
    return found
