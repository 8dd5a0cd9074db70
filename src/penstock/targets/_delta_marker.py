"""The marker of a Delta table: the last batch, as transaction identifiers and metadata of its commit.

Runs on the driver. Invariant: a commit with a marker fails if the table has a newer version than the one
that was read.
"""

from __future__ import annotations

import hashlib
from typing import Any

from penstock.extras import import_extra
from penstock.targets.marker import Marker

BATCH, DIGEST = "penstock.batch", "penstock.digest"
"""Names of the transaction identifiers."""
NO_BATCH = -1
"""The number of the batch of a table that a query has taken, before its first batch."""
WRITER_WITH_FEATURES = 7
"""The version of Delta's protocol for writers from which a table names its features."""


def properties_of(new: Marker) -> Any:
    """Return the properties of the commit of a batch."""
    library = deltalake()
    identifiers = [
        library.Transaction(BATCH, new.batch_id),
        library.Transaction(DIGEST, int(new.digest, 16)),
    ]
    # Without retries a commit fails if there is a newer version than the one that was read.
    return library.CommitProperties(
        app_transactions=identifiers, custom_metadata={BATCH: str(new.batch_id)}, max_commit_retries=0
    )


def number_of(digest: str) -> int:
    """Return a number for Delta's identifiers, which have no texts."""
    return int.from_bytes(hashlib.sha256(digest.encode()).digest()[:7], "big")


def deltalake() -> Any:
    """Return the package `deltalake`.

    Raises:
        MissingExtraError: it is not installed.
    """
    import_extra("delta", "deltalake.exceptions", "A Delta table", option="target")
    return import_extra("delta", "deltalake", "A Delta table", option="target")
