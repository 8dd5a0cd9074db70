"""Check the Arrow batches that a function of the user returns, and bring them to declared columns.

Runs on executors. Pure. Invariant: a value is stored in its column unchanged, or is refused.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.table._row_maker import RowMaker, UnfitRowError

__all__ = ["UnfitRowError", "fitted"]


def fitted(given: pa.RecordBatch, schema: pa.Schema, giver: str) -> pa.RecordBatch:
    """Return a batch with the declared columns, in their order and with their types.

    Args:
        given: what the user's code returned.
        schema: the declared columns.
        giver: what returned it, for messages.

    Raises:
        UnfitRowError: it does not fit.
    """
    if given.schema.equals(schema):
        return given
    try:
        return RowMaker(schema, gives_values=False).fitted(given)
    except UnfitRowError as error:
        raise UnfitRowError(str(error).replace("the deserializer", giver)) from None
