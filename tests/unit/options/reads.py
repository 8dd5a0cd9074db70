"""Options of reads for tests, in both dialects."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import OptionError
from penstock.options.config import SourceConfig
from penstock.options.parse import parse_read

FLINK = {"properties.bootstrap.servers": "broker:9092", "topic": "orders"}
SPARK = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def parse(options: dict[str, str], *, streaming: bool = True) -> SourceConfig:
    """Return what the options of a read mean."""
    return parse_read(options, streaming=streaming).source


def refused(options: dict[str, str], *, streaming: bool = True) -> str:
    """Return the message of the error that these options end in."""
    with pytest.raises(OptionError) as caught:
        parse(options, streaming=streaming)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - just made here
    return str(caught.value)
