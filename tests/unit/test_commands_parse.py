"""Each command that a page or a message shows is one that the command line takes.

The commands are only parsed. A command in a block of code, and one in a message, must be complete. A text may
also name a command without any option, as a name: then the command must exist.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from penstock.cli.app import app
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.errors import BatchOrderError, TransactionsInDoubtError
from penstock.options.by_hand import ByHand
from penstock.security.settings import SecuritySettings
from penstock.sink.exactly_once._finish import lost_error
from penstock.sink.exactly_once._replay import check_replay, drain_error
from penstock.sink.exactly_once._target_topics import gone_error
from penstock.sink.exactly_once.committable import Committable
from penstock.sink.exactly_once.decision import (
    BATCH_WRITE_PREFIX,
    NAMED_WRITE_PREFIX,
    DecidedTransaction,
    Decision,
    DecisionStatus,
    Outcome,
)
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings
from penstock.sink.exactly_once.mandate import Mandate, known_batch
from penstock.sink.exactly_once.names import TransactionNames, how_to_end

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
HOLE = "1"
"""What a value stands for that a message fills in: a name and a number."""
MENTIONS = {
    "src/penstock/sink/exactly_once/_prefix_users.py",  # somebody may have run it
    "src/penstock/sink/exactly_once/_replay.py",
    "src/penstock/doctor/rights.py",  # a table of commands and the rights that they need
}
"""Files with messages that name a command. They do not ask to run it."""
ONE_OF = {
    ("lag",): ("--checkpoint", "--group"),
    ("top",): ("--checkpoint", "--group", "--url"),
    ("transactions", "abort"): ("--prefix", "--transactional-id"),
}
"""Options of which a command needs one. The command itself says so, not its parser."""
CLUSTERS = ("-b", "--bootstrap-server", "--name", "--command-config", "--properties")
"""A checkpoint does not say which cluster its query reads, so a command has to."""
_ParseError: Any = next(each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException")
NOT_A_COMMAND = ("penstock", "tuned")
"""The name of a case in docs/performance.md."""
_FILE = re.compile(r"^FILE$|\.(properties|sql|db)$")
_INLINE = re.compile(r"`(penstock(?:\s[^`]*)?)`")


@dataclass(frozen=True)
class Shown:
    """A command that a text shows."""

    where: str
    words: tuple[str, ...]
    must_be_complete: bool


@cache
def _root() -> Any:
    return get_command(app)


def fault_of(words: Sequence[str]) -> str | None:
    """Return why the command line does not take these words; None if it does."""
    command: Any = _root()
    rest = list(words[1:])
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in command.commands:
            return f"there is no command {name!r}"
        command = command.commands[name]
    if hasattr(command, "commands"):
        return None if rest in ([], ["--help"], ["--version"]) else f"expected a command, got {rest}"
    if rest == ["--help"]:
        return None
    there = [__file__ if _FILE.search(word) else word for word in rest]  # files of an example are not here
    try:
        command.make_context(words[0], there)
    except _ParseError as error:
        return str(error.format_message())
    command_name = tuple(words[1 : len(words) - len(rest)])
    needed = [ONE_OF.get(command_name, ())]
    if "--checkpoint" in rest and command_name in ONE_OF:
        needed.append(CLUSTERS)
    missing = [each for each in needed if each and not set(each) & set(rest)]
    return f"expected one of {missing[0]}" if missing else None


def is_only_a_name(words: Sequence[str]) -> bool:
    """Return whether nothing but a command is named, without an option or an argument."""
    command: Any = _root()
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return False
    return True


def commands_in_line(line: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands of penstock in a line for a shell."""
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set("|&;<>()"):
            words.append(word)
            continue
        if words[:1] == ["penstock"]:
            yield tuple(words)
        # What comes after > and < is a file, which is not a command of penstock.
        words = []


def blocks_of(text: str) -> Iterator[str]:
    """Yield the lines of blocks of code, with continued lines joined."""
    is_fenced = False
    for line in text.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            yield line.strip()


def shown_in_page(page: Path) -> Iterator[Shown]:
    text = page.read_text(encoding="utf-8")
    where = str(page.relative_to(ROOT))
    for line in blocks_of(text):
        if line.startswith(("$ ", "penstock ")) or "| penstock " in line:
            yield from (Shown(where, words, must_be_complete=True) for words in commands_in_line(line))
    for command in _INLINE.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield from (
            Shown(where, words, must_be_complete=not is_only_a_name(words))
            for words in commands_in_line(" ".join(command.split()))
            if words != NOT_A_COMMAND
        )


def _text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            HOLE if isinstance(each, ast.FormattedValue) else _text_of(each) or "" for each in node.values
        )
    return None


def shown_in_code(text: str, where: str) -> Iterator[Shown]:
    tree = ast.parse(text)
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        told = None if id(node) in parts else _text_of(node)
        for command in _INLINE.findall(told or ""):
            for words in commands_in_line(" ".join(command.split())):
                is_mention = id(node) in docstrings or where in MENTIONS or len(words) == 1
                yield Shown(where, words, must_be_complete=not (is_mention and is_only_a_name(words)))


@cache
def shown_in_source() -> list[Shown]:
    return [
        shown
        for file in sorted((ROOT / "src").rglob("*.py"))
        if "penstock " in (text := file.read_text(encoding="utf-8"))
        for shown in shown_in_code(text, str(file.relative_to(ROOT)))
    ]


def faults(shown: Sequence[Shown]) -> list[str]:
    return [
        f"{each.where}: {shlex.join(each.words)}: {fault}"
        for each in shown
        if each.must_be_complete and (fault := fault_of(each.words)) is not None
    ]


def test_the_commands_of_the_pages_parse() -> None:
    shown = [each for page in PAGES for each in shown_in_page(page)]
    assert len([each for each in shown if each.must_be_complete]) > 30
    assert faults(shown) == []


def test_the_commands_in_messages_parse() -> None:
    assert len(shown_in_source()) > 30
    assert faults(shown_in_source()) == []


def composed_by(by_hand: ByHand) -> Iterator[str]:
    """Yield messages whose commands are put together."""
    names = TransactionNames("orders", by_hand=by_hand)
    committable = Committable(TransactionIdentity("orders-0-0", 1, 1), 0, 2, str(RecordDigest(2, 5)))
    lost = DecidedTransaction(committable, Outcome.LOST)
    for query in ("7f4e", f"{BATCH_WRITE_PREFIX}w", f"{NAMED_WRITE_PREFIX}load-1"):
        decision = Decision(query, 3, DecisionStatus.LOST, 1, 2, (lost,))
        yield drain_error(decision, "doubt", names).message
        yield gone_error(decision, "topic gone", names).message
        if query != "7f4e":
            yield lost_error(decision, names).message
        with pytest.raises(TransactionsInDoubtError) as in_doubt:
            check_replay(decision, [], names)
        yield in_doubt.value.message
    session = ProducerSession(lost.committable.identity)
    known = {"7f4e": known_batch(Decision("7f4e", 3, DecisionStatus.LOST, 1, 2, (lost,)))}
    mandate = Mandate("orders", session, TransactionProtocol.V2, 60_000, known, by_hand)
    with pytest.raises(BatchOrderError) as out_of_order:
        mandate.plan("7f4e", 4, 0)
    yield out_of_order.value.message
    yield how_to_end("orders-0-0", by_hand)
    yield how_to_end("orders-continuous-0-1", by_hand)
    yield how_to_end("billing of \u00e4 7", by_hand)


@pytest.mark.parametrize(
    "by_hand", [ByHand(), ByHand("b1:9092,b2:9092"), ByHand("b:1", has_login=True, log_topic="log")], ids=str
)
def test_composed_commands_parse_and_name_cluster_prefix_login_and_log(by_hand: ByHand) -> None:
    for message in composed_by(by_hand):
        commands = [words for found in _INLINE.findall(message) for words in commands_in_line(found)]
        assert len(commands) == (2 if "continuous query" in message else 1)
        for command in commands:
            _check_composed(command, by_hand)


def _check_composed(command: tuple[str, ...], by_hand: ByHand) -> None:
    assert fault_of(command) is None
    options = {name: value for name, value in pairwise(command) if name.startswith("--")}
    assert options["--bootstrap-server"] == (by_hand.servers or "HOST:PORT")
    assert options.get("--command-config") == ("FILE" if by_hand.has_login else None)
    assert command[-1] == "--yes"
    if "--prefix" in options:
        assert options["--prefix"] in ("orders", "orders-continuous")
        assert options.get("--log-topic") == by_hand.log_topic


def test_the_settings_of_a_query_say_what_its_commands_need() -> None:
    security = SecuritySettings(protocol="SSL")
    connection = ConnectionSettings(("b1:9092", "b2:9092"), "client", security)
    names = ExactlyOnceSettings(connection, "orders", "log").names
    assert names.by_hand == ByHand("b1:9092,b2:9092", has_login=True, log_topic="log")


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("penstock transactions abort --query 1 --resolution take-as-written", "--prefix"),
        ("penstock transactions abort --query 1 --resolution take-as-written --prefix p", None),
        ("penstock transactions recover --yes", "--prefix"),
        ("penstock transactions recover --prefix p --now", "--now"),
        ("penstock transaction list", "no command 'transaction'"),
        ("penstock cat", "Missing argument"),
        ("penstock lag --watch often", "number"),
        ("penstock cat orders --properties not-here.properties", None),
    ],
)
def test_a_wrong_command_is_found(command: str, fault: str | None) -> None:
    said = fault_of(command.split())
    assert (said is None) if fault is None else (said is not None and fault in said)


def test_commands_are_found_wherever_they_stand() -> None:
    code = (
        'def f(n):\n    "Run `penstock cat`."\n'
        '    raise E(f"Run `penstock broker stop "\n        f"--name {n}`, or `penstock cat`.")'
    )
    assert [(each.words, each.must_be_complete) for each in shown_in_code(code, "x.py")] == [
        (("penstock", "cat"), False),
        (("penstock", "broker", "stop", "--name", HOLE), True),
        (("penstock", "cat"), True),
    ]
    line = "$ penstock cat a --json > f  # all of it; penstock lag\n"
    assert list(commands_in_line(line)) == [("penstock", "cat", "a", "--json")]
    assert list(commands_in_line("echo 'a b' | penstock produce t && penstock topics list")) == [
        ("penstock", "produce", "t"),
        ("penstock", "topics", "list"),
    ]


def test_make_has_the_targets_that_pages_name() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (str(page.relative_to(ROOT)), target)
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for line in [*blocks_of(text), *re.findall(r"`([^`\n]*)`", text)]
        for target in re.findall(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*make ([a-z-]+)", line)
    }
    assert len(named) > 8
    assert sorted(each for each in named if each[1] not in targets) == []
