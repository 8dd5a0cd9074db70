"""Memory of columns is used again when it is free, and not before."""

from __future__ import annotations

import threading

import pyarrow as pa

from penstock.formats import _native, _native_encode

SCHEMA = pa.schema({"number": pa.int64(), "text": pa.string()})
KEPT_MAX = 16 << 20


def decoded(first: int, count: int = 20_000, width: int = 20) -> pa.RecordBatch:
    values = [b'{"number":%d,"text":"%0*d"}' % (each, width, each) for each in range(first, first + count)]
    arrays, row_count, indices, failures, ignored = _native.decode_json(
        pa.array(values), SCHEMA, fail_on_missing_field=False, ignore_parse_errors=False, separator=" "
    )
    assert (row_count, indices, failures, ignored) == (count, None, [], 0)
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def check(rows: pa.RecordBatch, first: int, width: int = 20) -> None:
    rows.validate(full=True)
    wanted = range(first, first + len(rows))
    assert rows.column("number").to_pylist() == list(wanted)
    assert rows.column("text").to_pylist() == [f"{each:0{width}d}" for each in wanted]


def encoded(rows: pa.RecordBatch) -> list[bytes]:
    found: list[bytes] = _native_encode.encode_json(
        rows, separator=" ", decimal_as_plain_number=False, ignore_null_fields=False
    ).to_pylist()
    return found


def test_columns_that_are_held_keep_their_values_while_others_use_free_memory() -> None:
    held = decoded(0)
    for _ in range(3):
        check(decoded(1_000_000), 1_000_000)
    check(held, 0)


def test_free_memory_is_kept_and_used_again() -> None:
    rows = decoded(0)
    before = _native.kept_bytes()
    del rows
    after = _native.kept_bytes()
    assert after - before >= 20_000 * (8 + 20)
    rows = decoded(0)
    assert _native.kept_bytes() <= after - 20_000 * (8 + 20)
    check(rows, 0)


def test_not_more_memory_is_kept_than_promised() -> None:
    batches = [decoded(number * 20_000, width=1_000) for number in range(3)]
    del batches
    assert 0 < _native.kept_bytes() <= KEPT_MAX


def test_rows_in_used_memory_have_no_old_bits() -> None:
    """Nulls and booleans are bits that an append only sets."""
    schema = pa.schema({"flag": pa.bool_()})
    for text, wanted in ((b"true", True), (b"false", False), (b"null", None), (b"true", True)):
        count = 600_000  # so that the bits are a large block
        (flags,), *_ = _native.decode_json(
            pa.array([b'{"flag":%s}' % text] * count),
            schema,
            fail_on_missing_field=False,
            ignore_parse_errors=False,
            separator=" ",
        )
        assert flags.unique().to_pylist() == [wanted]


def test_threads_share_free_memory() -> None:
    wrong: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for _ in range(10):
                rows = decoded(first)
                values = encoded(rows)
                check(rows, first)
                assert values[-1] == b'{"number":%d,"text":"%020d"}' % (first + 19_999, first + 19_999)
        except BaseException as error:  # noqa: BLE001  # told below
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number * 1_000_000,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
