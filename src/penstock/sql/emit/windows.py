"""Windows as queries of Spark: each row once in every window that it is in.

Runs on the driver. Invariant: a window has the same start and end as in Flink. Rows without a time are in
none.

The windows of CUMULATE, and those of a HOP with many windows for each row, are structs. Spark's own window
writes each window of a row into its plan, so a query with hundreds of them takes long to start.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.plan.windows import Spans, is_made

_STEP, _NEW, _NUMBER = "__step", "__new", "__session"


def spark_window(spans: Spans, time: str) -> str:
    """Return Spark's window over a time."""
    size, slide = f"'{spans.size} milliseconds'", f"'{spans.slide} milliseconds'"
    if spans.kind == "SESSION":
        return f"session_window({time}, {size})"
    # Only the rest of the offset counts, and Spark takes no other.
    rest = spans.offset % spans.slide
    offset = f", '{rest} milliseconds'" if rest else ""
    return f"window({time}, {size}, {slide}{offset})"


def rows(
    spans: Spans,
    time: str,
    kind: str,
    keys: Sequence[str],
    shown: str,
    source: str,
    name: str,
    *,
    is_stream: bool,
) -> str:
    """Return a query with the rows and their windows in the column `name`.

    Args:
        spans: of the window.
        time: the text of the time.
        kind: its type, as Spark's simple string.
        keys: what SESSION is partitioned by.
        shown: the columns of the rows.
        source: behind FROM.
        name: of the new column.
        is_stream: whether the rows have no end. Spark then makes sessions of the groups above.
    """
    if spans.kind == "SESSION" and not is_stream:
        return _sessions(spans, time, keys, shown, source, name)
    if spans.kind == "SESSION" or not is_made(spans):
        return f"SELECT {shown}, {spark_window(spans, time)} AS `{name}` FROM {source}"
    steps, start, stop = _cumulated(spans, time) if spans.kind == "CUMULATE" else _hopped(spans, time)
    bounds = [f"timestamp_micros({each})" for each in (start, stop)]
    if kind == "timestamp_ntz":
        bounds = [f"CAST({each} AS TIMESTAMP_NTZ)" for each in bounds]
    window = f"named_struct('start', {bounds[0]}, 'end', {bounds[1]})"
    each = f"LATERAL VIEW explode({steps}) `__steps` AS `{_STEP}`"
    return f"SELECT {shown}, {window} AS `{name}` FROM {source} {each}"


def _cumulated(spans: Spans, time: str) -> tuple[str, str, str]:
    """Return steps, start and end of the windows of CUMULATE: one for each step that is left."""
    micros = f"unix_micros(CAST({time} AS TIMESTAMP))"
    step = 1_000 * spans.slide
    passed = f"pmod({micros} - {1_000 * spans.offset}, {1_000 * spans.size})"
    numbers = f"sequence({passed} div {step} + 1, {spans.size // spans.slide}L)"
    return numbers, f"{micros} - {passed}", f"{micros} - {passed} + `{_STEP}` * {step}"


def _hopped(spans: Spans, time: str) -> tuple[str, str, str]:
    """Return steps, start and end of the windows of HOP, one of which begins at each slide."""
    micros = f"unix_micros(CAST({time} AS TIMESTAMP))"
    slide, size = 1_000 * spans.slide, 1_000 * spans.size
    last = f"{micros} - pmod({micros} - {1_000 * spans.offset}, {slide})"
    return f"sequence({last} - {size - slide}, {last}, {slide}L)", f"`{_STEP}`", f"`{_STEP}` + {size}"


def _sessions(spans: Spans, time: str, keys: Sequence[str], shown: str, source: str, name: str) -> str:
    """Return the rows of a batch with their sessions."""
    micros = f"unix_micros(CAST({time} AS TIMESTAMP))"
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    gap = f"{micros} - lag({micros}) OVER ({by}ORDER BY {micros}) <= {1_000 * spans.size}"
    texts = [f"{each} AS `__k{index}`" for index, each in enumerate(keys)]
    new = f"CASE WHEN {gap} THEN 0 ELSE 1 END AS `{_NEW}`"
    found = ", ".join([shown, *texts, f"{time} AS `__t`", f"{micros} AS `__us`", new])
    own = [f"`__k{index}`" for index in range(len(keys))]
    of_keys = f"PARTITION BY {', '.join(own)} " if own else ""
    numbered = (
        f"SELECT *, sum(`{_NEW}`) OVER ({of_keys}ORDER BY `__us`) AS `{_NUMBER}` "
        f"FROM (SELECT {found} FROM {source} WHERE {time} IS NOT NULL)"
    )
    of_session = f"OVER (PARTITION BY {', '.join([*own, f'`{_NUMBER}`'])})"
    seconds = f"{spans.size // 1_000}.{spans.size % 1_000:03}"
    stop = f"max(`__t`) {of_session} + INTERVAL '{seconds}' SECOND"
    window = f"named_struct('start', min(`__t`) {of_session}, 'end', {stop}) AS `{name}`"
    hidden = ", ".join([*own, "`__t`", "`__us`", f"`{_NEW}`", f"`{_NUMBER}`"])
    return f"SELECT * EXCEPT ({hidden}), {window} FROM ({numbered})"
