"""Check the options of tables that are declared, and show wrong ones where they were written.

Runs on the driver. Invariant: the options of Kafka tables are read by the same parser as those of a
DataFrame, and nothing is asked or looked up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import OptionError, PenstockError, RowError, SchemaError, SqlError
from penstock.sql.connectors.described import NoConnectorError
from penstock.sql.connectors.options import WrongOptionError
from penstock.sql.language.source import Source
from penstock.sql.language.tokens import Kind, tokenize
from penstock.sql.run.catalog import Table

WRONG = (OptionError, SchemaError, RowError, ValueError)
"""What the checks of options raise."""


def check_alone(table: Table, *statements: tuple[Source, int]) -> None:
    """Check each option of a table by itself. What is missing may come by a hint, LIKE or ALTER TABLE.

    As in Flink, the connector itself is checked when a statement uses the table.

    Args:
        table: its declaration.
        statements: others than its CREATE TABLE where options may stand; see `located`.

    Raises:
        SqlError: the name or the value of an option is wrong.
    """
    try:
        table.connector  # noqa: B018 - it checks them
    except NoConnectorError:
        return
    except WRONG as error:
        raise located(error, *statements, (table.source, table.definition.name.offset)) from None


def is_about(error: Exception, options: Mapping[str, str]) -> bool:
    """Return whether an error is about one of these options."""
    given = {key.lower() for key in options}
    return any(key.lower() in given for key in _options_of(error))


def located(error: Exception, *statements: tuple[Source, int]) -> SqlError:
    """Return an error about options at the position of the option.

    Args:
        error: one of WRONG.
        statements: where the option may stand: a script, and the offset of the table's name in it. If none of
            them has it, the error is shown at the last one.
    """
    message = error.message if isinstance(error, PenstockError) else str(error)
    for source, start in statements:
        offset = next(
            (at for key in _options_of(error) if (at := _offset(source, key, start)) is not None), None
        )
        if offset is not None:
            return source.error(message, offset)
    source, start = statements[-1]
    return source.error(message, start)


def _options_of(error: Exception) -> tuple[str, ...]:
    """Return the options that an error is about."""
    if isinstance(error, WrongOptionError):
        return (error.option,)
    facts = error.facts if isinstance(error, PenstockError) else {}
    one = (facts["option"],) if "option" in facts else ()
    return (*one, *facts.get("options", ()), *facts.get("spark", ()))


def _offset(source: Source, key: str, start: int) -> int | None:
    """Return where an option stands in a statement, behind `start`."""
    wanted = key.lower()
    for token in tokenize(source):
        if token.start < start:
            continue
        if token.is_(";"):
            return None
        if token.kind is Kind.TEXT and token.value.lower() == wanted:
            return token.start
        found = re.search(re.escape(f"'{wanted}'"), token.value.lower()) if token.kind is Kind.HINT else None
        if found is not None:
            return token.start + found.start()
    return None
