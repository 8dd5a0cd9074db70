"""Read a script: its statements, one after another.

Runs on the driver. Invariant: the whole script is read before its first statement runs. A text is either
read or refused with line and column, never with a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.sql.language._refused import STATEMENTS as REFUSED
from penstock.sql.language._tables import alter_table, create_table, options_list
from penstock.sql.language._types import parse_type
from penstock.sql.language.cursor import Cursor
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.source import Source
from penstock.sql.language.statements import (
    AlterTable,
    CreateDatabase,
    CreateFunction,
    CreateView,
    Describe,
    DescribeJob,
    Drop,
    Explain,
    Insert,
    OnConflict,
    Options,
    ResetOption,
    Select,
    SetOption,
    Show,
    Statement,
    StatementSet,
    StopJob,
    Use,
)
from penstock.sql.language.tokens import Kind, tokenize

_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "(", "TABLE", "FROM")
_PYTHON_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_SHOW_ALONE = ("TABLES", "VIEWS", "DATABASES", "CATALOGS", "FUNCTIONS", "USER FUNCTIONS", "MODULES", "JOBS")
_SHOW_CURRENT = ("CURRENT CATALOG", "CURRENT DATABASE")
_SHOW_NAMED = ("CREATE TABLE", "CREATE VIEW")
_ON_CONFLICT, _ACTIONS = "ON CONFLICT DO", ("NOTHING", "ERROR", "DEDUPLICATE")
_JOB = "the id or name of a job in quotes"
_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")


@dataclass(frozen=True)
class ParsedStatement:
    """A statement, its text, and the offset of its first character."""

    statement: Statement
    text: str
    offset: int


def parse_script(text: str) -> list[ParsedStatement]:
    """Return the statements of a script, which `;` divides.

    Raises:
        SqlError: the message has line, column, the line of the script, and what was expected.
    """
    source = Source(text)
    cursor = Cursor(source, tokenize(source))
    found: list[ParsedStatement] = []
    while True:
        while cursor.take(";"):
            pass
        if cursor.at_end():
            return found
        start = cursor.token.start
        statement = _statement(cursor)
        if not cursor.at_end() and not cursor.at(";"):
            cursor.fail([";"])
        found.append(ParsedStatement(statement, text[start : cursor.token.start].rstrip(), start))


def parse_statement(text: str) -> Statement:
    """Return the only statement of a text.

    Raises:
        SqlError: see `parse_script`; or there is not exactly one statement.
    """
    found = parse_script(text)
    if len(found) != 1:
        offset = found[1].offset if found else 0
        raise Source(text).error(f"expected one statement, got {len(found)}.", offset)
    return found[0].statement


def parse_flink_type(text: str, source: Source | None = None, offset: int = 0) -> FlinkType:
    """Return a type, such as that of a CAST.

    Args:
        text: of the type.
        source: the script that errors show; None for `text` itself.
        offset: of the type in the script.

    Raises:
        SqlError: the text is not a type.
    """
    own = Source(text)
    cursor = Cursor(source or own, [each.moved(offset) for each in tokenize(own)])
    found = parse_type(cursor)
    if not cursor.at_end():
        cursor.fail(["the end of the type"])
    return found


def _statement(cursor: Cursor) -> Statement:
    token = cursor.token
    word = token.value.upper() if token.kind in (Kind.WORD, Kind.SYMBOL) else ""
    if word in _QUERY_WORDS:
        return Select(cursor.fragment("a query"))
    _refuse_unserved(cursor)
    handler = _HANDLERS.get(word)
    if handler is None:
        cursor.fail(["SELECT", "INSERT", *(each for each in _HANDLERS if each not in ("INSERT", "DESC"))])
    cursor.advance()
    return handler(cursor)


def _refuse_unserved(cursor: Cursor) -> None:
    for words, instead in REFUSED.items():
        if cursor.at(words) and not (words == "SOURCE" and cursor.ahead(1).is_(".")):
            cursor.refuse(f"{words} is not served: {instead}")


def _create(cursor: Cursor) -> Statement:
    if cursor.at("OR REPLACE"):
        cursor.refuse("OR REPLACE is not served. Drop the object first, or write IF NOT EXISTS.")
    temporary = cursor.take("TEMPORARY")
    for words in ("SYSTEM FUNCTION", "MATERIALIZED TABLE"):
        if cursor.at(words):
            cursor.refuse(f"CREATE {words} is not served: {REFUSED[f'CREATE {words}']}")
    kind = next((each for each in _CREATED if cursor.take(each)), None)
    if kind is None:
        cursor.fail([*_CREATED, *([] if temporary else ["TEMPORARY"])])
    return _CREATED[kind](cursor, temporary, cursor.take("IF NOT EXISTS"))


def _create_view(cursor: Cursor, temporary: bool, if_not_exists: bool) -> CreateView:
    name = cursor.name("the name of the view")
    columns = cursor.listed(lambda: cursor.identifier("a column")) if cursor.at("(") else ()
    twice = next((each for each in columns if columns.count(each) > 1), None)
    if twice is not None:
        raise cursor.source.error(f"CREATE VIEW names the column '{twice}' twice.", name.offset)
    comment = cursor.text("a comment in quotes") if cursor.take("COMMENT") else None
    cursor.expect("AS")
    return CreateView(name, cursor.fragment("a query"), columns, comment, temporary, if_not_exists)


def _create_function(cursor: Cursor, temporary: bool, if_not_exists: bool) -> CreateFunction:
    name = cursor.name("the name of the function")
    cursor.expect("AS")
    token = cursor.token
    path = cursor.text("the function in quotes, such as 'module.function'")
    if not cursor.take("LANGUAGE PYTHON"):
        cursor.refuse("only LANGUAGE PYTHON is served, because Spark cannot call Flink's Java functions.")
    if not _PYTHON_PATH.fullmatch(path):
        cursor.refuse("expected a Python function as 'module.function'.", token)
    is_deterministic = bool(cursor.take("DETERMINISTIC"))
    if not is_deterministic:
        cursor.take("NOT DETERMINISTIC")  # the default
    return CreateFunction(name, path, temporary, if_not_exists, is_deterministic)


def _create_database(cursor: Cursor, temporary: bool, if_not_exists: bool) -> CreateDatabase:
    if temporary:
        cursor.refuse("a database cannot be TEMPORARY.")
    name = cursor.name("the name of the database")
    comment = cursor.text("a comment in quotes") if cursor.take("COMMENT") else None
    if cursor.take("WITH"):
        cursor.refuse("a database of a session has no options. Leave WITH out.")
    return CreateDatabase(name, if_not_exists, comment)


_CREATED: dict[str, Callable[[Cursor, bool, bool], Statement]] = {
    "TABLE": create_table,
    "VIEW": _create_view,
    "FUNCTION": _create_function,
    "DATABASE": _create_database,
}


def _insert(cursor: Cursor) -> Insert:
    overwrite = cursor.take("OVERWRITE")
    if not overwrite and not cursor.take("INTO"):
        cursor.fail(["INTO", "OVERWRITE"])
    cursor.take("TABLE")
    name = cursor.name("the name of a table")
    hints = _option_hints(cursor) if cursor.token.kind is Kind.HINT else ()
    if cursor.at("PARTITION"):
        cursor.refuse("PARTITION (...) of INSERT is not served. Select the values as columns.")
    columns: tuple[str, ...] = ()
    if cursor.at("(") and not any(cursor.ahead(1).is_(word) for word in _QUERY_WORDS):
        columns = cursor.listed(lambda: cursor.identifier("a column"))
    twice = next((each for each in columns if columns.count(each) > 1), None)
    if twice is not None:
        raise cursor.source.error(f"INSERT names the column '{twice}' twice.", name.offset)
    if not any(cursor.at(word) for word in _QUERY_WORDS):
        cursor.fail(["SELECT", "VALUES", "WITH"])
    query = cursor.fragment("a query", lambda: cursor.at(_ON_CONFLICT))
    return Insert(name, query, columns, overwrite, hints, _on_conflict(cursor))


def _on_conflict(cursor: Cursor) -> OnConflict | None:
    offset = cursor.token.start
    if not cursor.take(_ON_CONFLICT):
        return None
    action = next((each for each in _ACTIONS if cursor.take(each)), None)
    return cursor.fail(_ACTIONS) if action is None else OnConflict(action, offset)


def _option_hints(cursor: Cursor) -> Options:
    token = cursor.advance()
    return parse_option_hint(token.value, cursor.source, token.start)


def parse_option_hint(text: str, source: Source, offset: int, name: str = "OPTIONS") -> Options:
    """Return the options of a hint such as `/*+ OPTIONS('key' = 'value') */`; `name` is its name.

    Raises:
        SqlError: it is another hint, or its options cannot be read.
    """
    inner = Source(f"   {text[3:-2]}")
    cursor = Cursor(source, [each.moved(offset) for each in tokenize(inner)])
    cursor.expect(name)
    found = options_list(cursor)
    if not cursor.at_end():
        cursor.fail(["the end of the hint"])
    return found


def _execute(cursor: Cursor) -> Statement:
    if cursor.take("STATEMENT SET"):
        cursor.expect("BEGIN")
        return _inserts(cursor)
    if cursor.take("INSERT"):
        return _insert(cursor)
    return (
        Select(cursor.fragment("a query"))
        if cursor.at("SELECT")
        else cursor.fail(["STATEMENT SET", "INSERT"])
    )


def _begin(cursor: Cursor) -> StatementSet:
    cursor.expect("STATEMENT SET")
    cursor.expect(";")
    return _inserts(cursor)


def _inserts(cursor: Cursor) -> StatementSet:
    found: list[Insert] = []
    while not cursor.take("END"):
        if not cursor.take("INSERT"):
            cursor.fail(["INSERT", "END"])
        found.append(_insert(cursor))
        cursor.expect(";")
    if not found:
        cursor.refuse("a statement set has at least one INSERT.")
    return StatementSet(tuple(found))


def _key(cursor: Cursor) -> str:
    """Read an option in quotes, or as the older SQL client took it: words, points and hyphens."""
    if cursor.token.kind is Kind.TEXT:
        return cursor.advance().value
    first, last = cursor.token, None
    while cursor.token.kind in (Kind.WORD, Kind.NUMBER) or cursor.at(".") or cursor.at("-"):
        last = cursor.advance()
    if last is None:
        cursor.fail(["an option in quotes, such as 'pipeline.name'"])
    return cursor.source.text[first.start : last.stop]


def _set(cursor: Cursor) -> SetOption:
    offset = cursor.token.start
    if cursor.at_end() or cursor.at(";"):
        return SetOption()
    key = _key(cursor)
    cursor.expect("=")
    if cursor.token.kind is Kind.TEXT:
        return SetOption(key, cursor.advance().value, offset)
    return SetOption(key, cursor.fragment("a value in quotes").text.strip(), offset)


def _reset(cursor: Cursor) -> ResetOption:
    offset = cursor.token.start
    if cursor.at_end() or cursor.at(";"):
        return ResetOption()
    return ResetOption(_key(cursor), offset)


def _show(cursor: Cursor) -> Show:
    for words in _SHOW_NAMED:
        if cursor.take(words):
            return Show(words, cursor.name("a name"))
    for words in _SHOW_CURRENT:
        if cursor.take(words):
            return Show(words)
    if cursor.take("COLUMNS"):
        if not (cursor.take("FROM") or cursor.take("IN")):
            cursor.fail(["FROM", "IN"])
        return Show("COLUMNS", cursor.name("the name of a table"), _like_text(cursor))
    for words in _SHOW_ALONE:
        if cursor.take(words):
            name = cursor.name("the name of a database") if cursor.take("FROM") or cursor.take("IN") else None
            return Show(words, name, _like_text(cursor))
    return cursor.fail([*_SHOW_ALONE, *_SHOW_CURRENT, *_SHOW_NAMED, "COLUMNS"])


def _like_text(cursor: Cursor) -> str | None:
    return cursor.text("a pattern in quotes") if cursor.take("LIKE") else None


def _describe(cursor: Cursor) -> Describe | DescribeJob:
    if cursor.at("JOB") and cursor.ahead(1).kind is Kind.TEXT:
        cursor.take("JOB")
        return DescribeJob(offset=cursor.token.start, job=cursor.text(_JOB))
    for word in ("CATALOG", "DATABASE", "FUNCTION", "MODEL"):
        if cursor.at(word) and cursor.ahead(1).kind in (Kind.WORD, Kind.QUOTED_NAME, Kind.TEXT):
            cursor.refuse(f"DESCRIBE {word} is not served. DESCRIBE shows tables and views.")
    cursor.take("EXTENDED")
    return Describe(cursor.name("the name of a table or view"))


def _stop(cursor: Cursor) -> StopJob:
    cursor.expect("JOB")
    offset, job = cursor.token.start, cursor.text(_JOB)
    with_savepoint = cursor.take("WITH SAVEPOINT")
    if cursor.at("WITH DRAIN"):
        cursor.refuse(
            "WITH DRAIN is not served: Spark cannot send the last watermark that closes all windows in "
            "Flink. Leave WITH DRAIN out. The job then stops after its batch, and open windows wait in the "
            "checkpoint."
        )
    return StopJob(job, with_savepoint, offset)


def _explain(cursor: Cursor) -> Explain:
    details: list[str] = []
    if not cursor.take("PLAN FOR"):
        while word := next((each for each in _DETAILS if cursor.take(each)), None):
            details.append(word)
            cursor.take(",")
    explained: Statement
    if cursor.take("STATEMENT SET"):
        cursor.expect("BEGIN")
        explained = _inserts(cursor)
    else:
        explained = _statement(cursor)
    if not isinstance(explained, (Select, Insert, StatementSet)):
        cursor.refuse("EXPLAIN takes a query, an INSERT or a STATEMENT SET.")
    return Explain(explained, tuple(details))


def _drop(cursor: Cursor) -> Drop:
    temporary = cursor.take("TEMPORARY")
    kind = next((each for each in _CREATED if cursor.take(each)), None)
    if kind is None:
        cursor.fail([*_CREATED])
    if_exists = cursor.take("IF EXISTS")
    found = Drop(kind, cursor.name("a name"), if_exists, temporary)
    if kind == "DATABASE":
        cursor.take("RESTRICT") or cursor.take("CASCADE")
    return found


def _use(cursor: Cursor) -> Use:
    return Use(cursor.name("the name of a database"))


def _alter(cursor: Cursor) -> AlterTable:
    cursor.expect("TABLE")
    return alter_table(cursor)


_HANDLERS: dict[str, Callable[[Cursor], Statement]] = {
    "CREATE": _create,
    "INSERT": _insert,
    "EXECUTE": _execute,
    "BEGIN": _begin,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "EXPLAIN": _explain,
    "STOP": _stop,
    "DROP": _drop,
    "USE": _use,
    "ALTER": _alter,
}
