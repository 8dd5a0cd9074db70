"""The folder of an operator's state: `state` itself, or the folder `name` in it."""

from __future__ import annotations

import pytest

from penstock.errors import OptionError
from penstock.spark._arguments import folder_of


@pytest.mark.parametrize(
    ("state", "name", "expected"),
    [
        ("/checkpoints/a", None, "/checkpoints/a"),
        ("/checkpoints/a", "orders", "/checkpoints/a/orders"),
        ("/checkpoints/a/", "orders", "/checkpoints/a/orders"),
        ("/with?mark", "orders", "/with?mark/orders"),
        ("s3://bucket/a", "orders-2", "s3://bucket/a/orders-2"),
        ("s3://bucket/a/?region=eu&scheme=http", "o", "s3://bucket/a/o?region=eu&scheme=http"),
        (None, "orders", None),
        (None, None, None),
    ],
)
def test_a_name_is_a_folder_in_the_state(state: str | None, name: str | None, expected: str | None) -> None:
    assert folder_of(state, name) == expected


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", "7", "runs", "plans", "partitions", "a b", "é", "a" * 101, "a\n"]
)
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="Expected letters, digits"):
        folder_of("/checkpoints/a", name)
    with pytest.raises(OptionError, match="Expected letters, digits"):
        folder_of(None, name)
