"""The functions of Flink that are known and not served, and what to use instead.

Runs on the driver. Invariant: each function that Flink 2.3 lists is served or here
(tests/unit/sql/test_functions.py).
"""

from __future__ import annotations

_NO_TIME = "TIME is not served. Use {}."
_MADE_VARIANT = "Spark makes VARIANT of JSON only. Use JSON_OBJECT, and PARSE_JSON of it."
_OLD_WINDOW = "it needs GROUP BY {0}(ts, ...). Or write TABLE({0}(TABLE t, DESCRIPTOR(ts), ...)) in FROM."
_PATTERNS = "MATCH_RECOGNIZE is not served. Use a join on times or ROW_NUMBER()."
_TOOLS = "it is for tools of Flink. Leave it out."
_OTHERS = "use CREATE FUNCTION ... LANGUAGE PYTHON."
_PARTS = ("START", "END", "ROWTIME", "PROCTIME")

REFUSED: dict[str, str] = {
    "COLLECT": "Spark has no MULTISET. Use ARRAY_AGG, or LISTAGG for texts.",
    "CURRENT_WATERMARK": "Spark has no expression for the watermark. Windows drop late rows by themselves.",
    "SOURCE_WATERMARK": "Spark makes watermarks. Write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND.",
    "TYPEOF": "the names of types differ from Spark's. DESCRIBE shows those of a table.",
    "UUID": "a value that is not the same when a batch is computed again would write rows twice. Make a key "
    "of the record, e.g. MD5(CONCAT_WS('-', topic, CAST(`offset` AS STRING))).",
    "RAND_INTEGER": "use CAST(FLOOR(RAND() * n) AS INT).",
    "CURRENT_TIME": _NO_TIME.format("CURRENT_TIMESTAMP"),
    "LOCALTIME": _NO_TIME.format("LOCALTIMESTAMP"),
    "CURRENT_DATABASE": "write the name of the database as a text.",
    "JSON_QUOTE": "use JSON_STRING, which writes é instead of \\u00e9.",
    **dict.fromkeys(
        ("JSON_OBJECTAGG", "JSON_ARRAYAGG"),
        "use JSON_STRING(ARRAY_AGG(x)), or a column of type ARRAY<ROW<...>> and the format json.",
    ),
    "ELEMENT": "write a[1].",
    "SIMILAR TO": "use REGEXP or LIKE.",
    "OVERLAPS": "compare the times: a.b <= b.e AND b.b <= a.e.",
    "HASH_CODE": "use MD5 or SHA256.",
    **dict.fromkeys(("INET_ATON", "INET_NTOA"), _OTHERS),
    **dict.fromkeys(("OBJECT_OF", "OBJECT_UPDATE"), _MADE_VARIANT),
    **dict.fromkeys(
        ("ML_PREDICT", "ML_EVALUATE", "VECTOR_SEARCH"), "models are not served. Use a Python function."
    ),
    **dict.fromkeys(
        (
            *("BITMAP_AND", "BITMAP_ANDNOT", "BITMAP_OR", "BITMAP_XOR", "BITMAP_BUILD", "BITMAP_CARDINALITY"),
            *("BITMAP_FROM_BYTES", "BITMAP_TO_ARRAY", "BITMAP_TO_BYTES", "BITMAP_TO_STRING"),
            *("BITMAP_AND_AGG", "BITMAP_OR_AGG", "BITMAP_XOR_AGG", "BITMAP_BUILD_AGG"),
            *("BITMAP_AND_CARDINALITY_AGG", "BITMAP_OR_CARDINALITY_AGG"),
            *("BITMAP_XOR_CARDINALITY_AGG", "BITMAP_BUILD_CARDINALITY_AGG"),
        ),
        "Spark has no bitmaps of Flink's form. Use COUNT(DISTINCT x).",
    ),
    **{
        f"{window}_{part}": _OLD_WINDOW.format(window)
        for window in ("TUMBLE", "HOP", "SESSION")
        for part in _PARTS
    },
    **dict.fromkeys(("MATCH_RECOGNIZE", "MATCH_ROWTIME", "MATCH_PROCTIME", "CLASSIFIER"), _PATTERNS),
    **dict.fromkeys(("FIRST", "LAST", "PREV", "NEXT", "FINAL", "RUNNING"), _PATTERNS),
    **dict.fromkeys(("STREAMRECORD_TIMESTAMP", "GROUP_ID", "PRINT"), _TOOLS),
    **dict.fromkeys(
        ("FROM_CHANGELOG", "TO_CHANGELOG"),
        "it is a table function and stands in FROM, with input => TABLE name.",
    ),
    "SINGLE_VALUE": "use MAX.",
}
"""By name, and what to use instead."""
FREE = frozenset(
    (
        *("FIRST", "LAST", "PREV", "NEXT", "FINAL", "RUNNING", "CLASSIFIER", "PRINT", "GROUP_ID"),
        *("HASH_CODE", "INET_ATON", "INET_NTOA", "SINGLE_VALUE", "ELEMENT"),
    )
)
"""Those whose names a function of the user may have."""
