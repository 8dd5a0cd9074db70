"""The placeholder of Debezium is found in each form in which Debezium writes it."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest

from penstock.cdc._unavailable import PLACEHOLDER, unavailable

TEXT = PLACEHOLDER.decode()
FORMS = {
    "text": TEXT,
    "bytea in base64": base64.b64encode(PLACEHOLDER).decode(),
    "bytea in hex": PLACEHOLDER.hex(),
    "hstore": f'{{"{TEXT}":"{TEXT}"}}',
    "uuid": "b68a35a7-17ad-35b3-af2a-ae46edb4545a",  # Java's UUID.nameUUIDFromBytes
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_text_that_stands_for_an_unknown_value_is_found(form: str) -> None:
    found = unavailable(pa.array(["a", form, None]), PLACEHOLDER)
    assert found is not None
    assert found.to_pylist() == [False, True, False]
    in_lists = unavailable(pa.array([["a"], [form], None, []]), PLACEHOLDER)
    assert in_lists is not None
    assert in_lists.to_pylist() == [False, True, False, False]


def test_bytes_that_stand_for_an_unknown_value_are_found() -> None:
    found = unavailable(pa.array([b"a", PLACEHOLDER, None]), PLACEHOLDER)
    assert found is not None
    assert found.to_pylist() == [False, True, False]


def test_other_values_are_none() -> None:
    assert unavailable(pa.array(["a", None, TEXT + "x"]), PLACEHOLDER) is None
