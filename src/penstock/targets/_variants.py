"""Columns of JSON text that a table of Spark keeps as VARIANT.

Runs on the driver. Invariant: the value in the table is the whole text, or the batch ends in an error and
writes nothing. Digest and marker are of the text, so they do not depend on how the table keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import MaterializeError, OptionError, RowError, SchemaError
from penstock.targets.sql_names import quoted, text_of

VARIANT = "variant"
"""The type, in Spark's words."""
_PAIR = r"r'\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'"
_HALF = r"r'\\u[dD][89a-fA-F]'"
"""Regular expressions, as texts of SQL, for the escape of a surrogate pair and of a half of one."""


@dataclass(frozen=True)
class Variants:
    """The columns of a table that are VARIANT.

    Attributes:
        names: of the columns, which the batches have as JSON text.
        target: names the table in messages.
    """

    names: Sequence[str] = ()
    target: str = ""

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check that each name is that of a column of texts, and not of a key.

        Raises:
            OptionError: a text is given in place of names.
            SchemaError: a name is that of no such column.
        """
        if isinstance(self.names, str):
            raise OptionError(
                f"Expected names of columns as `variants` of {self.target}, got the text {self.names!r}. "
                f"Nothing was written. Write variants=[{self.names!r}].",
                option="variants",
                value=self.names,
            )
        for name in self.names:
            if name not in columns.names:
                raise self._no_text(name, f"is not a column. The columns are {', '.join(columns.names)}")
            kind = columns.field(name).type
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise self._no_text(name, f"has type {kind}, and only JSON text in a STRING can be VARIANT")
            if name in keys:
                raise self._no_text(name, "is in the primary key, and a VARIANT cannot be compared")

    def _no_text(self, name: str, what: str) -> SchemaError:
        return SchemaError(
            f"`variants` of {self.target} names '{name}', which {what}. Nothing was written. Name columns "
            "of JSON text that are not keys, or leave the name out.",
            column=name,
        )

    def types(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the types of columns in the table, for those of the batches."""
        return {name: VARIANT if name in self.names else kind for name, kind in types.items()}

    def check_types(self, wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
        """Raise MaterializeError if a column is VARIANT in the table alone, or in the query alone.

        Args:
            wanted: the types that the query needs.
            found: those of the table.
        """
        for name, kind in wanted.items():
            if name in found and found[name] != kind and VARIANT in (kind, found[name]):
                does = "names" if kind == VARIANT else "does not name"
                raise MaterializeError(
                    f"Column '{name}' of {self.target} has type {found[name]}, and `variants` {does} it, so "
                    f"the query needs {kind}. penstock does not change the type of a column. Nothing was "
                    "written. Set `variants` as it was when the table got the column, or build the table "
                    "again with a new checkpoint.",
                    column=name,
                )

    def value(self, name: str, batch_id: int) -> str:
        """Return what a MERGE writes into a column, for the row `s` of its source.

        `parse_json` alone would leave out what stands behind a value, such as `2` in `1 2`. A text is one
        value if it is the only element of an array, and also the only field of an object: what would close
        the array early, or add an element, is not allowed within the object. Spark before 4.2 also writes
        `?` in place of half a surrogate pair.
        """
        text = f"s.{quoted(name)}"
        if name not in self.names:
            return text
        failure = f"CAST(raise_error({text_of(self._not_json(name, batch_id))}) AS VARIANT)"
        parts = (f"concat('[', {text}, ']')", f"concat('{{\"v\":', {text}, '}}')")
        wrong = " OR ".join([*(f"try_parse_json({part}) IS NULL" for part in parts), _has_half(text)])
        return f"CASE WHEN {text} IS NULL THEN NULL WHEN {wrong} THEN {failure} ELSE parse_json({text}) END"

    @contextmanager
    def rows_explained(self, batch_id: int) -> Iterator[None]:
        """Raise RowError in place of Spark's error, if a text of a batch is not JSON."""
        try:
            yield
        except Exception as error:
            for name in self.names:
                if (message := self._not_json(name, batch_id)) in str(error):
                    raise RowError(message, column=name, batch_id=batch_id) from error
            raise

    def _not_json(self, name: str, batch_id: int) -> str:
        return (
            f"Column '{name}' of {self.target} is VARIANT, and batch {batch_id} has a text there which Spark "
            "cannot keep so. The text is not one JSON value, an object in it has a key twice, it has half a "
            "surrogate pair, or it is larger than a VARIANT may be. Nothing of the batch was written to the "
            "table. Correct the text at its source. Or build the table again without the column in "
            "`variants`: it is a STRING then."
        )

    @contextmanager
    def columns_explained(self, advice: str) -> Iterator[None]:
        """Raise OptionError in place of Spark's error, if the table cannot have a column of this type.

        Args:
            advice: what such a table needs.
        """
        try:
            yield
        except Exception as error:
            lines = [one.strip(" -.:") for one in str(error).splitlines() if VARIANT in one.lower()]
            if not self.names or not lines:
                raise
            raise OptionError(
                f"{self.target} cannot have the columns {', '.join(self.names)} as VARIANT (`variants`). "
                f"Spark says: {lines[0]}. Nothing of the batch was written. {advice} Or leave `variants` "
                "out: the columns are STRING then.",
                option="variants",
            ) from error


def _has_half(text: str) -> str:
    """Return a condition: a text of JSON has the escape of half a surrogate pair."""
    # Escaped backslashes are taken out first, because no escape begins with the second one.
    others = f"regexp_replace(replace({text}, r'\\\\', '.'), {_PAIR}, '.')"
    return f"({text} RLIKE {_HALF} AND {others} RLIKE {_HALF})"
