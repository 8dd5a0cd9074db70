"""What the codec needs of cramjam."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path

import cramjam
from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
WITHOUT = "2.10.0"
"""The last version that needs the size before an lz4 block which it decompresses into given memory. With it
each lz4 batch of Kafka's clients was a TypeError."""


def test_no_version_is_allowed_that_cannot_decompress_lz4_blocks_of_kafkas_clients() -> None:
    found = inspect.signature(cramjam.lz4.decompress_block_into).parameters
    assert "output_len" in found
    dependencies = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    (allowed,) = (each for each in map(Requirement, dependencies) if each.name == "cramjam")
    assert WITHOUT not in allowed.specifier
    assert cramjam.__version__ in allowed.specifier
