"""`sasl.jaas.config` as Java reads it, and never a password in an error."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OptionError
from penstock.security.jaas import parse_jaas_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def quoted(text: str) -> str:
    """A text as a Java programmer writes it between quotes."""
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escape)
    return f'"{text}"'


@given(st.text(), st.text())
def test_any_user_name_and_password_survive_quoting(username: str, password: str) -> None:
    module = parse_jaas_config(f"{PLAIN} required username={quoted(username)} password={quoted(password)};")
    assert module.class_name == PLAIN
    assert module.simple_name == "PlainLoginModule"
    assert module.options == (("username", username), ("password", password))


@given(st.text(), st.text())
def test_the_backslashes_of_flinks_documents_are_taken_off(username: str, password: str) -> None:
    plain = f"{PLAIN} required username={quoted(username)} password={quoted(password)};"
    doubled = plain.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas_config(doubled) == parse_jaas_config(plain)


@given(st.text())
def test_any_text_is_parsed_or_refused_without_being_shown(text: str) -> None:
    horse = "correct-horse"
    for config in (text, f"{PLAIN} required password={text}{horse}", f'{PLAIN} required a="{horse}"{text}'):
        assert horse not in shown(config)


def shown(config: str) -> str:
    """All that can be seen of a configuration that was given."""
    try:
        return repr(parse_jaas_config(config))
    except OptionError as error:
        return f"{error} {error!r} {error.facts} {pickle.dumps(error)!r}"


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (f"{PLAIN} required;", ()),
        (f"{PLAIN} REQUIRED user=alice;", (("user", "alice"),)),
        (f"{PLAIN} required user='it\"s' ;", (("user", 'it"s'),)),
        (f'{PLAIN}\n  required\n  user="a" // the user\n  /* and\n password */ password="b";\n',
         (("user", "a"), ("password", "b"))),
        (f'{PLAIN} required user="\\101\\7x\\t\\z";', (("user", "A\x07x\tz"),)),
        (f'{PLAIN} required "user"="a";', (("user", "a"),)),
        (f'{PLAIN} required user = "a;b=c//d";', (("user", "a;b=c//d"),)),
        (f'{PLAIN} required user="";', (("user", ""),)),
    ],
)  # fmt: skip
def test_the_grammar_is_javas(config: str, options: tuple[tuple[str, str], ...]) -> None:
    assert parse_jaas_config(config).options == options


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("", "does not end with a semicolon"),
        (f'{PLAIN} required user="a"', "does not end with a semicolon"),
        (f"{PLAIN} required; {PLAIN} required;", "holds more than one login module"),
        (";", "does not begin with the class of a login module"),
        (f'"{PLAIN}" required;', "does not begin with the class of a login module"),
        (f"{PLAIN};", "has none of required, requisite, sufficient, optional after the login module"),
        (f'{PLAIN} user="a";', "has none of required"),
        (f"{PLAIN} required user;", 'has an option that is not name="value"'),
        (f"{PLAIN} required user=;", 'has an option that is not name="value"'),
        (f'{PLAIN} required user "a";', 'has an option that is not name="value"'),
        (f'{PLAIN} required user="a" user="b";', "gives one option twice"),
        (f'{PLAIN} required user="a;', "has a character outside of quotes that does not belong there"),
        (f"{PLAIN} required user=1234;", "has a character outside of quotes that does not belong there"),
        (f'{PLAIN} required user="a\nb";', "or an open quote"),
    ],
)
def test_what_java_would_refuse_is_refused(config: str, what: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_jaas_config(config)
    assert what in str(caught.value)
    assert str(caught.value).startswith("Option 'sasl.jaas.config' ")
    assert 'required username="..." password="...";' in str(caught.value)
