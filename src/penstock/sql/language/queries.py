"""The only interface to sqlglot: Flink's queries and expressions as its trees.

Runs on the driver. Invariant: every function is an `Anonymous` or one of the nodes below, so that no meaning
that sqlglot gives to a name of a function counts. tests/contract/test_sqlglot.py checks what this file relies
on.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from sqlglot import ErrorLevel, exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from penstock.errors import SqlError
from penstock.sql.language._precedence import IS_MARK, in_flinks_order
from penstock.sql.language.source import Offset, Source
from penstock.sql.language.tokens import Kind, tokenize

_UNKNOWN = "this part of the query cannot be read."
_EXPECTED = re.compile(r"^(?:Expected|Expecting) (.+?)(?: but got .*)?$", re.DOTALL)
_IN_WORDS = {"CTE to have alias": "the name of a CTE"}
"""What sqlglot expects, in words of SQL."""
_NO_JSON = "use JSON_STRING(ARRAY_AGG(x)), or a column of type ARRAY<ROW<...>> and the format json."
_UNREAD = {
    "MATCH_RECOGNIZE": "use LAG(...) OVER (...), ROW_NUMBER(), or a join on times.",
    "PIVOT": "write an aggregate with FILTER for each column.",
    "UNPIVOT": "write UNION ALL, or UNNEST of an ARRAY.",
    "ML_PREDICT": "models are not served. Use a Python function.",
    "ML_EVALUATE": "models are not served. Use a Python function.",
    "JSON_OBJECTAGG": _NO_JSON,
    "JSON_ARRAYAGG": _NO_JSON,
}
"""Parts of Flink's language that the parser may not read, and what to use instead."""


class CastTo(exp.Expression):
    """CAST or TRY_CAST: `text` is that of the type, `start` its offset."""

    arg_types: ClassVar = {"this": True, "text": True, "start": True, "is_try": False}


class IntervalOf(exp.Expression):
    """INTERVAL 'text' unit [TO unit]."""

    arg_types: ClassVar = {"text": True, "unit": True, "sign": False}


class TableArgument(exp.Expression):
    """TABLE name [PARTITION BY ...] as an argument of a table function; or a query with PARTITION BY."""

    arg_types: ClassVar = {"this": True, "partition_by": False}


class DescriptorOf(exp.Expression):
    """DESCRIPTOR(column)."""

    arg_types: ClassVar = {"expressions": True}


class NamedArgument(exp.Expression):
    """NAME => value."""

    arg_types: ClassVar = {"this": True, "expression": True}


class _Parser(parser.Parser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        key: value for key, value in parser.Parser.NO_PAREN_FUNCTION_PARSERS.items() if key == "CASE"
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "CAST": lambda self: self.flink_cast(is_try=False),
        "TRY_CAST": lambda self: self.flink_cast(is_try=True),
        "DESCRIPTOR": lambda self: DescriptorOf(expressions=self._parse_csv(self._parse_column)),
        "TIMESTAMPADD": lambda self: self.flink_unit("TIMESTAMPADD"),
        "TIMESTAMPDIFF": lambda self: self.flink_unit("TIMESTAMPDIFF"),
        "EXTRACT": lambda self: self.flink_extract(),
        "CEIL": lambda self: self.flink_words("CEIL", ("TO",)),
        "FLOOR": lambda self: self.flink_words("FLOOR", ("TO",)),
        "POSITION": lambda self: self.flink_words("POSITION", ("IN",)),
        "SUBSTRING": lambda self: self.flink_words("SUBSTRING", ("FROM", "FOR")),
        "TRIM": lambda self: self.flink_trim(),
        "OVERLAY": lambda self: self.flink_words("OVERLAY", ("PLACING", "FROM", "FOR")),
        "JSON_VALUE": lambda self: self.flink_json("JSON_VALUE"),
        "JSON_QUERY": lambda self: self.flink_json("JSON_QUERY"),
        "JSON_EXISTS": lambda self: self.flink_json("JSON_EXISTS"),
        "JSON_OBJECT": lambda self: self.flink_json_made("JSON_OBJECT"),
        "JSON_ARRAY": lambda self: self.flink_json_made("JSON_ARRAY"),
    }

    def flink_value(self) -> Any:
        return self.flink_needed(self._parse_disjunction())

    def flink_operand(self) -> Any:
        """Read an expression without comparisons, which has to be there."""
        return self.flink_needed(self._parse_bitwise())

    def flink_needed(self, found: Any) -> Any:
        """Return what was read. Refuse nothing, which sqlglot would leave in the tree."""
        if found is None:
            self.raise_error("Expecting a value")
        return found

    def flink_cast(self, *, is_try: bool) -> Any:
        this = self.flink_value()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expecting AS")
        first, depth = self._curr, 0
        last: Any = None
        while self._curr and not (depth == 0 and self._curr.token_type == TokenType.R_PAREN):
            depth += (self._curr.token_type == TokenType.L_PAREN) - (
                self._curr.token_type == TokenType.R_PAREN
            )
            last = self._curr
            self._advance()
        if last is None:
            self.raise_error("Expecting a type")
        return CastTo(this=this, text=self.sql[first.start : last.end + 1], start=first.start, is_try=is_try)

    def flink_word(self) -> str:
        word = self._advance_any(ignore_reserved=True)
        return str(word.text) if word else ""

    def flink_unit(self, name: str) -> Any:
        unit = self.flink_word()
        if not self._match(TokenType.COMMA):
            self.raise_error("Expecting ,")
        rest = self._parse_csv(self._parse_disjunction)
        return exp.Anonymous(this=name, expressions=[exp.var(unit), *rest])

    def flink_extract(self) -> Any:
        unit = self.flink_word()
        if not self._match(TokenType.FROM):
            self.raise_error("Expecting FROM")
        return exp.Anonymous(this="EXTRACT", expressions=[exp.var(unit), self.flink_value()])

    def flink_words(self, name: str, words: tuple[str, ...]) -> Any:
        """Read arguments with commas, or the words of the SQL standard, between them."""
        parse = self.flink_operand if "IN" in words else self.flink_value
        args = [parse()]
        said: list[str] = []
        while not self._match(TokenType.R_PAREN, advance=False):
            if self._match(TokenType.COMMA):
                args.append(parse())
                continue
            word = next((each for each in words if self._match_text_seq(each)), None)
            if word is None:
                self.raise_error(f"Expecting {' or '.join([*words, ')'])}")
            said.append(str(word))
            unit = word == "TO"
            args.append(exp.var(self.flink_word()) if unit else parse())
        return self.flink_marked("_".join([name, *said]), args)

    def flink_marked(self, name: str, args: list[Any]) -> Any:
        """Return a call whose name is ours, because words stand between its arguments."""
        found = exp.Anonymous(this=name, expressions=args)
        found.meta["words"] = True
        return found

    def flink_json(self, name: str) -> Any:
        """Read arguments, and then clauses as texts, e.g. 'NULL EMPTY'; the value of DEFAULT comes next."""
        args = self._parse_csv(self._parse_disjunction)
        while not self._match(TokenType.R_PAREN, advance=False):
            said = self.flink_word().upper()
            if not said:
                self.raise_error("Expecting )")
            if said == "RETURNING":
                args.append(exp.Literal.string(f"RETURNING {self.flink_word().upper()}"))
                continue
            value = [self.flink_value()] if said == "DEFAULT" else []
            words = [said]
            while not value and not (self._match_text_seq("ON") or self._match_text_seq("WRAPPER")):
                words.append(self.flink_word().upper())
                if not words[-1]:
                    self.raise_error("Expecting ON")
            if value and not self._match_text_seq("ON"):
                self.raise_error("Expecting ON")
            case = self.flink_word().upper() if self._prev.text.upper() == "ON" else "WRAPPER"
            args += [exp.Literal.string(f"{' '.join(words)} {case}"), *value]
        return exp.Anonymous(this=name, expressions=args)

    def flink_json_made(self, name: str) -> Any:
        """Read [KEY] name VALUE value, or values, and then NULL ON NULL or ABSENT ON NULL as a text."""
        args: list[Any] = []
        said = "NULL" if name == "JSON_OBJECT" else "ABSENT"
        while not self._match(TokenType.R_PAREN, advance=False):
            if name == "JSON_OBJECT":
                self._match_text_seq("KEY")
                args.append(self.flink_operand())
                if not (self._match_text_seq("VALUE") or self._match(TokenType.COLON)):
                    self.raise_error("Expecting VALUE")
            args.append(self.flink_value())
            found = next(
                (each for each in ("NULL", "ABSENT") if self._match_text_seq(each, "ON", "NULL")), ""
            )
            said = found or said
            if found or not self._match(TokenType.COMMA):
                break
        return exp.Anonymous(this=name, expressions=[exp.Literal.string(said), *args])

    def flink_trim(self) -> Any:
        side = next((each for each in ("BOTH", "LEADING", "TRAILING") if self._match_text_seq(each)), "")
        first = None if self._match(TokenType.FROM, advance=False) else self.flink_operand()
        if self._match(TokenType.FROM):
            args = [self.flink_operand(), *([first] if first is not None else [])]
            return self.flink_marked(f"TRIM_{side or 'BOTH'}", args)
        args = [first]
        while self._match(TokenType.COMMA):
            args.append(self.flink_operand())
        return exp.Anonymous(this="TRIM", expressions=args)

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        if not (self._match(TokenType.INTERVAL, advance=False) and self._next):
            return None
        sign = self._next.token_type == TokenType.DASH
        text = self._tokens[self._index + 2] if sign else self._next
        if text.token_type != TokenType.STRING:
            return None  # a column or function of the name INTERVAL
        self._advance(3 if sign else 2)
        unit = self.flink_interval_unit()
        if self._match_text_seq("TO"):
            unit = f"{unit} TO {self.flink_interval_unit()}"
        return IntervalOf(text=text.text, unit=unit, sign="-" if sign else "")

    def flink_interval_unit(self) -> str:
        unit = self.flink_word().upper().removesuffix("S")
        if unit not in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"):
            self.raise_error("Expecting the unit of an interval", self._prev)
        if self._match(TokenType.L_PAREN):
            self._parse_csv(self._parse_number)
            self._match_r_paren()
        return unit

    def _parse_lambda(self, alias: bool = False) -> Any:
        following = self._next.token_type if self._next else None
        if self._match(TokenType.TABLE, advance=False) and following != TokenType.L_PAREN:
            self._advance()
            return self.flink_table_argument()
        if self._curr and following == TokenType.FARROW:
            name = self.flink_word()
            self._advance()
            return NamedArgument(this=exp.var(name), expression=self.flink_needed(self._parse_lambda()))
        found = super()._parse_lambda(alias=alias)
        if isinstance(found, exp.Subquery) and self._match(TokenType.PARTITION_BY, advance=False):
            return self.flink_table_argument(found)
        return found

    def flink_table_argument(self, query: exp.Expr | None = None) -> Any:
        node = TableArgument(this=query or self._parse_table_parts())
        if self._match(TokenType.PARTITION_BY):
            wrapped = self._match(TokenType.L_PAREN)
            parse = functools.partial(self._parse_csv, self._parse_column)
            node.set("partition_by", parse() if wrapped else [self._parse_column()])
            if wrapped:
                self._match_r_paren()
        return node

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        """Return nothing before ARRAY[ and MAP[, which make values here.

        sqlglot would read their values as parts of a type, and then again: twice as often for each level.
        """
        kinds = (self._curr and self._curr.token_type, self._next and self._next.token_type)
        if kinds in ((TokenType.ARRAY, TokenType.L_BRACKET), (TokenType.MAP, TokenType.L_BRACKET)):
            return None
        return super()._parse_types(*args, **kwargs)

    def _parse_string_as_identifier(self) -> Any:
        """Return nothing: a text in quotes is not a name."""
        return None

    def _parse_id_var(self, any_token: bool = True, tokens: Any = None) -> Any:
        """Read a name, which is never a text or a number, also behind AS."""
        if self._curr and self._curr.token_type in (TokenType.STRING, TokenType.NUMBER):
            return None
        return super()._parse_id_var(any_token=any_token, tokens=tokens)

    def _parse_is(self, this: Any) -> Any:
        """Mark IS ... and IS NOT ..., because NOT x IS NULL has the same nodes as x IS NOT NULL."""
        found = super()._parse_is(this)
        if isinstance(found, (exp.Is, exp.Not)):
            found.meta[IS_MARK] = True
        return found

    def expression(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        """Note where CURRENT_TIMESTAMP or the like stands. sqlglot does not note it without brackets."""
        if type(instance) in self.NO_PAREN_FUNCTIONS.values() and self._prev:
            instance.meta["start"] = self._prev.start
        return super().expression(instance, *args, **kwargs)

    def _parse_paren(self) -> Any:
        """Mark brackets that were written: sqlglot puts its own around some conditions."""
        found = super()._parse_paren()
        if isinstance(found, exp.Paren):
            found.meta["written"] = True
        return found

    def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> Any:
        """Refuse a list in which nothing stands before or behind a comma."""

        def parsed() -> Any:
            item = parse_method()
            if item is None and self._match(sep, advance=False):
                self.raise_error("Expecting something before the comma", self._curr)
            return item

        found = super()._parse_csv(parsed, sep)
        if found and self._prev and self._prev.token_type == sep:
            self.raise_error("Expecting something behind the comma", self._prev)
        return found

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        """Mark a comma as CROSS JOIN, because `a, b` is one for Flink and `a JOIN b` is an error."""
        is_comma = self._match(TokenType.COMMA, advance=False)
        found = super()._parse_join(*args, **kwargs)
        if is_comma and isinstance(found, exp.Join):
            found.set("kind", "CROSS")
        return found

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        if self._match_pair(TokenType.TABLE, TokenType.L_PAREN):
            function = self._parse_function()
            self._match_r_paren()
            return self.expression(exp.Table(this=function, alias=self._parse_table_alias()))
        return super()._parse_table(*args, **kwargs)


class _Flink(Dialect):
    INDEX_OFFSET = 0
    STRICT_STRING_CONCAT = True

    class Tokenizer(tokens.Tokenizer):
        QUOTES: ClassVar = ["'"]
        IDENTIFIERS: ClassVar = ["`"]
        STRING_ESCAPES: ClassVar = ["'"]
        COMMENTS: ClassVar = ["--", ("/*", "*/")]
        COMMANDS: ClassVar[set[Any]] = set()
        KEYWORDS: ClassVar = {
            **{
                key: value
                for key, value in tokens.Tokenizer.KEYWORDS.items()
                if not key.startswith(("{", "/*+")) and key not in ("SESSION", "TABLE SAMPLE")
            },
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
        }

    Parser = _Parser


def read_query(text: str, source: Source, offset: int) -> exp.Expr:
    """Return the tree of a query. `meta["start"]` of a node counts from `offset`.

    Args:
        text: of the query, with hints replaced by spaces.
        source: the script, for messages.
        offset: of the text in the script.
    """
    word = re.match(r"\s*(FROM|TABLE)\b", text, re.IGNORECASE)
    if word is not None:
        raise source.error(
            f"a query that begins with {word[1].upper()} is not served. Write SELECT * FROM ...",
            offset + word.start(1),
        )
    tree = _read(text, source, offset, "_parse_statement")
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise source.error("expected a query.", offset)
    return tree


def read_expression(text: str, source: Source, offset: int) -> exp.Expr:
    """Return the tree of an expression; see `read_query`."""
    return _read(text, source, offset, "_parse_disjunction")


def start_of(node: exp.Expr) -> int | None:
    """Return the first offset that is known of a node or of what is in it."""
    starts = [each.meta["start"] for each in node.walk() if each.meta.get("start") is not None]
    return min(starts) if starts else None


@dataclass(frozen=True)
class QueryLocation:
    """Where a query or expression is: its script, and the offset there from which its own offsets count."""

    script: Source
    offset: int

    def of(self, node: exp.Expr) -> int:
        """Return the offset of a node in the script, or of the nearest part around it that has one."""
        found, parent = start_of(node), node.parent
        while found is None and parent is not None:
            found, parent = start_of(parent), parent.parent
        return Offset.of(self.script, self.offset + (found or 0))

    def error(self, node: exp.Expr, message: str) -> SqlError:
        """Return the error for a part of the query."""
        return self.script.error(message, self.of(node))

    def refuse(self, node: exp.Expr, message: str) -> NoReturn:
        """Raise the error for a part of the query."""
        raise self.error(node, message)


def is_without_brackets(node: exp.Expr, kinds: tuple[type, ...]) -> bool:
    """Return whether a node is of one of the kinds, and no brackets were written around it."""
    while isinstance(node, exp.Paren) and not node.meta.get("written"):
        node = node.this
    return isinstance(node.this if isinstance(node, exp.Not) else node, kinds)


def _read(text: str, source: Source, offset: int, method: str) -> exp.Expr:
    dialect = _Flink()
    try:
        found = dialect.tokenize(text)
        reader = _Parser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
        trees = reader._parse(getattr(_Parser, method), found, text)  # noqa: SLF001 - the contract test guards it
    except (ParseError, TokenError) as error:
        raise _shown(error, text, source, offset) from None
    except RecursionError:
        raise source.error("the query is nested too deeply. Divide it, e.g. with views.", offset) from None
    except Exception:  # noqa: BLE001 - sqlglot's parser fails in many ways on texts that are not SQL
        raise source.error(_UNKNOWN, offset) from None
    if len(trees) != 1 or trees[0] is None:
        raise source.error(_UNKNOWN, offset)
    return in_flinks_order(trees[0])


def _shown(error: Exception, text: str, source: Source, offset: int) -> Exception:
    tokens = tokenize(Source(text))
    for token, following in itertools.pairwise(tokens):
        if token.kind is Kind.WORD and token.value.upper() in _UNREAD and following.is_("("):
            name = token.value.upper()
            return source.error(f"{name} is not served: {_UNREAD[name]}", offset + token.start)
    details = getattr(error, "errors", None) or [{}]
    message = str(details[0].get("description") or "").split("\n")[0].rstrip(".")
    line, column = details[0].get("line"), details[0].get("col")
    start = _offset_of(text, line, column, details[0].get("highlight") or "") if line else 0
    expected = _EXPECTED.match(message)
    word = details[0].get("highlight") or ""
    got = word if word.startswith("'") else f"'{word}'"
    if "SENTINEL" in message:
        start, got = len(text), "the end"
    unexpected = f"did not expect {got} here." if word else _UNKNOWN
    said = f"expected {_wanted(expected[1])}, got {got}." if expected else unexpected
    return source.error(said, offset + start)


def _wanted(text: str) -> str:
    """Return what sqlglot expects: words and signs in quotes, descriptions as they are."""
    text = _IN_WORDS.get(text, text)
    return text if (" " in text and text.lower() == text) or text in _IN_WORDS.values() else f"'{text}'"


def _offset_of(text: str, line: int, column: int, highlight: str) -> int:
    """Return the offset of the token that sqlglot complains about. Its columns are those of a token's end."""
    beginning = sum(len(each) + 1 for each in text.split("\n")[: line - 1])
    return max(beginning, min(len(text), beginning + column - max(1, len(highlight))))
