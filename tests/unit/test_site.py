"""The site has each page once in its menu, and pages are written as its builder reads them.

tests/page/test_site.py builds it, which needs MkDocs.
"""

from __future__ import annotations

import re
from collections import Counter

from tests.site import llms
from tests.site.markdown import for_python_markdown
from tests.site.menu import entries
from tests.site.stage import decisions_page, sources

PAGES = sources()
BULLETS = """\
A list:
- one
  goes on
  - below

  A paragraph of one.
1. two
   ```
   code
   ```

end | of | it

- | not | a table
"""


def test_each_page_is_in_the_menu_once() -> None:
    counted = Counter(each.path for each in entries())
    assert set(counted) == {*PAGES.values(), "decisions/index.md"}
    assert [path for path, count in counted.items() if count > 1] == []


def test_the_menu_tells_four_kinds_of_pages_apart() -> None:
    parts = list(dict.fromkeys(each.part for each in entries()))
    assert parts == ["Home", "Tutorials", "How-to", "Reference", "Explanations", "Contribute"]


def test_lists_are_written_for_python_markdown() -> None:
    assert for_python_markdown(BULLETS) == (
        "A list:\n\n- one\n    goes on\n    - below\n\n    A paragraph of one.\n"
        "1. two\n    ```\n    code\n    ```\n"
        "\nend | of | it\n\n- | not | a table\n"
    )


def test_bars_in_the_code_of_a_table_have_no_backslash() -> None:
    assert for_python_markdown("| `a \\| b` | c |\n") == "| `a | b` | c |\n"


def test_code_keeps_its_text() -> None:
    block = "```\n- a\n   b\n| `x \\| y` |\n```\n"
    assert for_python_markdown(block) == block


def test_the_file_for_language_models_lists_each_page() -> None:
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\.html\): \S", llms.index(), re.MULTILINE)
    assert [f"{each}.md" for each in listed] == [each.path for each in entries()]
    assert len(llms.full()) > 100_000


def test_the_repository_has_the_same_list_with_links_to_its_own_files() -> None:
    here = llms.FILE.read_text(encoding="utf-8")
    assert here == llms.index(llms.of_repository), "run `make docs`"
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): ", here, re.MULTILINE)
    assert len(links) == len(entries())
    assert [each for each in links if not (llms.FILE.parent / each).exists()] == []


def test_the_file_for_language_models_says_what_each_page_is_in_a_sentence() -> None:
    said = re.findall(r"^- \[[^\]]+\]\([^)]+\.html\): (.*)$", llms.index(), re.MULTILINE)
    assert len(said) == len(entries())
    assert [each for each in said if re.search(r"\]\(|```|^\d+\.|^\||::|\bimport ", each)] == []
    assert [each for each in said if len(each.split()) < 4 and not each.startswith("`penstock.")] == []
    assert [each for each in said if not each.endswith(".") or len(each) > 300] == []


def test_the_list_of_decisions_has_all() -> None:
    assert decisions_page(PAGES).count("\n- [") >= 14
