"""The published site: each release keeps its pages, and a link that leads nowhere is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.site.links import broken_links, unlinked_pages
from tests.site.versions import publish


def site(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "index.html").write_text(text)
    return folder


def pages(published: Path) -> dict[str, str]:
    return {str(each.relative_to(published).parent): each.read_text() for each in published.glob("*/*.html")}


def test_a_release_is_put_beside_the_older_ones(tmp_path: Path) -> None:
    published = tmp_path / "published"
    assert publish(site(tmp_path / "a", "first"), published, "0.9.0") == ["0.9.0"]
    assert publish(site(tmp_path / "b", "second"), published, "0.10.0") == ["0.10.0", "0.9.0"]
    assert pages(published) == {"0.9.0": "first", "0.10.0": "second", "latest": "second"}
    assert json.loads((published / "versions.json").read_text()) == [
        {"version": "0.10.0", "title": "0.10.0", "aliases": ["latest"]},
        {"version": "0.9.0", "title": "0.9.0", "aliases": []},
    ]
    assert "latest/index.html" in (published / "index.html").read_text()


def test_a_fix_of_an_older_release_does_not_become_the_latest(tmp_path: Path) -> None:
    published = tmp_path / "published"
    publish(site(tmp_path / "a", "new"), published, "1.0.0")
    publish(site(tmp_path / "b", "fix"), published, "0.9.1")
    assert pages(published) == {"1.0.0": "new", "0.9.1": "fix", "latest": "new"}


def test_the_pages_of_a_release_can_be_made_again(tmp_path: Path) -> None:
    published = tmp_path / "published"
    publish(site(tmp_path / "a", "wrong"), published, "1.0.0")
    (published / "1.0.0" / "gone.html").touch()
    publish(site(tmp_path / "b", "right"), published, "1.0.0")
    assert pages(published) == {"1.0.0": "right", "latest": "right"}


@pytest.mark.parametrize("version", ["", "latest", "1.0.0rc1", "../1.0"])
def test_only_a_release_is_published(tmp_path: Path, version: str) -> None:
    with pytest.raises(ValueError, match="expected a version"):
        publish(site(tmp_path / "a", "x"), tmp_path / "published", version)
    assert not (tmp_path / "published").exists()


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    html = site(
        tmp_path / "html", '<h2 id="here"></h2><a href="sub/b.html#there">b</a><a href="#here">here</a>'
    )
    (html / "sub").mkdir()
    (html / "sub" / "b.html").write_text(
        '<h1 id="there"></h1><a href="../index.html#gone">1</a><a href="c.html">2</a><img src="../d.png">'
        '<a href="https://example.org/x">3</a><a href="../../0.9.0/index.html">4</a>'
    )
    assert broken_links(html) == [
        "sub/b.html: ../d.png",
        "sub/b.html: ../index.html#gone",
        "sub/b.html: c.html",
    ]


def test_a_page_that_no_text_names_is_found(tmp_path: Path) -> None:
    html = site(tmp_path / "html", '<nav><a href="b.html"></a></nav><article><a href="c.html"></a></article>')
    for name in "bc":
        (html / f"{name}.html").write_text('<article><a href="index.html"></a></article>')
    assert unlinked_pages(html) == ["b.html"]
