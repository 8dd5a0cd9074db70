"""The table of rights in the docs is the table that the tests on the broker use."""

from __future__ import annotations

from pathlib import Path

from penstock.doctor.rights import NEEDED

DOCS = Path(__file__).parents[3] / "docs" / "rights.md"


def rights_table() -> str:
    names = {"topic": "*topic*", "group": "*group*", "prefix": "*prefix*"}
    names |= {"log": "*decision log*", "dead_letters": "*topic of dead letters*"}
    names |= {"source": "*source topic*", "target": "*target topic*", "shadow": "*topic of the shadow*"}
    names |= {"shadow_log": "*decision log of the shadow*"}
    lines = ["| operation | rights |", "|---|---|"]
    for needed in NEEDED:
        shown = "; ".join(
            f"`{right.operation}` on the {right.resource.value} {right.name.format(**names)}".rstrip()
            for right in needed.rights
        )
        lines.append(f"| {needed.operation} | {shown} |")
    return "\n".join(lines)


def test_the_docs_show_the_rights_that_are_tested() -> None:
    assert rights_table() in DOCS.read_text()


def test_each_operation_has_its_own_key_and_needs_a_right() -> None:
    assert len({needed.key for needed in NEEDED}) == len(NEEDED)
    assert all(needed.rights for needed in NEEDED)
