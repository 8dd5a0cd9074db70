"""The figures of docs/sql-judges.md and docs/sql.md, counted from the outcomes.

Invariant: the pages hold them between two comments, and `--figures` writes them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.judges.sql.corpus import MODES, SCRIPTS, recorded
from tests.judges.sql.outcomes import ROOT, Outcome, each_of

_BEGIN, _END = "<!-- figures: python -m tests.judges.sql --figures -->\n", "<!-- end of figures -->\n"
_COLUMNS = {
    Outcome.EQUAL: "equal",
    Outcome.REFUSED_BY_BOTH: "refused by both",
    Outcome.REFUSED: "refused by penstock alone",
    Outcome.LISTED: "different, and the script says why",
    Outcome.KINDER: "refused by Flink alone, and the script says why",
    Outcome.DIFFERENT: "different",
    Outcome.UNASKED: "not asked of Flink",
}


def counted(mode: str) -> Counter[Outcome]:
    """Return how many scripts have each outcome in a mode."""
    return Counter(outcome for _, outcome, _ in each_of(mode))


def pages() -> dict[Path, str]:
    """Return the text that stands in each page."""
    return {ROOT / "docs" / "sql-judges.md": _table(), ROOT / "docs" / "sql.md": _sentences()}


def with_figures(page: Path, text: str) -> str:
    """Return a page with its figures."""
    before, _, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert end, f"{page} has no room for the figures: {_BEGIN}{_END}"
    return f"{before}{_BEGIN}{text}{_END}{after}"


def write() -> None:
    """Write the figures into the pages."""
    for page, text in pages().items():
        page.write_text(with_figures(page, text))


def _table() -> str:
    shown = [each for each in Outcome if any(counted(mode)[each] for mode in MODES)]
    lines = [["mode", "scripts", *(_COLUMNS[each] for each in shown)], ["---"] * (len(shown) + 2)]
    for mode in reversed(MODES):
        counts = counted(mode)
        lines.append([mode, str(counts.total()), *(str(counts[each]) for each in shown)])
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines).replace(" --- ", "---")
    streams, batches = (sum("error" in each for each in recorded(mode).values()) for mode in reversed(MODES))
    flink = (
        f"Flink 2.3 refuses {streams} of the {len(SCRIPTS)} scripts as streams, and {batches} in batch mode."
    )
    return f"{flink}\n\n{table}"


def _sentences() -> str:
    lines = []
    for mode, how in (("streaming", "as streams"), ("batch", "in batch mode")):
        counts = counted(mode)
        served = counts[Outcome.EQUAL]
        of = counts.total() - counts[Outcome.REFUSED_BY_BOTH] - counts[Outcome.KINDER]
        lines.append(
            f"- **{served * 100 // max(of, 1)} % {how}**: {of} scripts have a table in Flink. Penstock "
            f"gives {served} the same one and refuses {counts[Outcome.REFUSED]}.{_listed(counts)}\n"
        )
    return "".join(lines)


def _listed(counts: Counter[Outcome]) -> str:
    one, more = counts[Outcome.LISTED], counts[Outcome.KINDER]
    text = f" {one} differ{'s' if one == 1 else ''} in a way that the pages of SQL name." if one else ""
    return text + (f" Flink alone refuses {more}." if more else "")


def missing_text() -> str:
    """Return what is wrong with the pages; "" if nothing."""
    wrong = [page for page, text in pages().items() if page.read_text() != with_figures(page, text)]
    if not wrong:
        return ""
    names = ", ".join(str(page.relative_to(ROOT)) for page in wrong)
    texts = "\n".join(pages()[page] for page in wrong)
    return f"{names}: run `python -m tests.judges.sql --figures`. It writes:\n{texts}"
