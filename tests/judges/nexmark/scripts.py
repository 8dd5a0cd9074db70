"""The texts of the queries, with hosts and connectors put in.

Invariant: what a query does is as the benchmark wrote it. `as_written` also has its declarations, which a
system may refuse; `query_of` has others where it is known that penstock does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

QUERIES = Path(__file__).parent / "queries"
NUMBERS = (*range(6), *range(7, 24))
"""All but q6, which Flink refuses."""
CHANGING = ("q4", "q9", "q15", "q16", "q17", "q18", "q19")
"""The queries that change rows. Their targets take changes."""
_BLACKHOLE = "'connector' = 'blackhole'"
_FOLDERS = re.compile(r"\) PARTITIONED BY \(dt, hm\) WITH \([^)]*\)")
_COMMITS = re.compile(r"  '(sink\.partition-commit|partition\.time-extractor)\.[^\n]*\n")
_OLD_KEYS = re.compile(r"'connector\.type'.*?'csv'", re.DOTALL)
_JAVA = "'com.github.nexmark.flink.udf.CountChar'"
_PYTHON = "'tests.judges.nexmark.functions.count_char' LANGUAGE PYTHON"
SIDE_ROWS = 10_000


def text_of(name: str) -> str:
    """Return a file of the benchmark."""
    return (QUERIES / f"{name}.sql").read_text()


def events_of(servers: str, topic: str, more: Mapping[str, str]) -> str:
    """Return the table of events over a topic, with more options, and the views of it."""
    table = text_of("ddl_kafka").replace("${BOOTSTRAP_SERVERS}", servers)
    table = table.replace("'topic' = 'nexmark'", f"'topic' = '{topic}'")
    table = table.replace("'format' = 'json'", f"'format' = 'json', {options_of(more)}")
    return f"{table}\n{text_of('ddl_views').replace('${NEXMARK_TABLE}', 'kafka')}"


def query_of(name: str, folder: Path, target: str = _BLACKHOLE) -> str:
    """Return a query that writes a table with these options, with its own tables and functions.

    Args:
        name: of the query.
        folder: that has the side input.
        target: the options of the table, of any connector without folders.
    """
    text = _FOLDERS.sub(f") WITH ({_BLACKHOLE})", text_of(name))
    files = {"connector": "filesystem", "path": str(side_input(folder)), "format": "csv"}
    text = _OLD_KEYS.sub(options_of(files), text)
    return text.replace(_JAVA, _PYTHON).replace(_BLACKHOLE, target)


def as_written(name: str, folder: Path) -> str:
    """Return a query as the benchmark wrote it, with paths in a folder."""
    text = text_of(name).replace("${FLINK_HOME}/data/side_input.txt", str(side_input(folder)))
    return text.replace("${NEXMARK_DIR}", str(folder)).replace("${SUBMIT_TIME}", "now")


def into_files(folder: Path) -> str:
    """Return q10 as the benchmark wrote it, but for markers of complete folders, which penstock refuses."""
    return _COMMITS.sub("", as_written("q10", folder)).replace("nexmark_q10", "nexmark_q10_files")


def folder_of_files(folder: Path) -> Path:
    """Return where `into_files` and `as_written` of q10 write their files."""
    return folder / "data" / "output" / "now" / "bid"


def side_input(folder: Path) -> Path:
    """Return the file of the side input in a folder. It is made when it is first asked for."""
    path = folder / "side_input.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{number},{number}\n" for number in range(SIDE_ROWS)))
    return path


def options_of(options: Mapping[str, str]) -> str:
    """Return options as WITH has them."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
