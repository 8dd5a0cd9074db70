"""What `penstock shadow` tells its user to do."""

from __future__ import annotations

from penstock.cli.shadow import _what_to_do
from penstock.observe.shadow_note import ShadowNote


def test_dead_letters_of_a_shadow_get_a_topic_of_their_own() -> None:
    note = ShadowNote("query", "app", "orders", 3, 5, "app-shadow", "beside", {})
    text = " ".join(_what_to_do(note, "/shadow"))
    assert "If its source has scan.dead-letter.topic, give it another topic" in text
    assert "it writes to beside in place of orders, under the prefix app-shadow" in text
    assert text.endswith("`penstock shadow compare --shadow-checkpoint /shadow`.")
