"""Functions for CREATE FUNCTION ... LANGUAGE PYTHON in tests."""

from __future__ import annotations


def shout(text: str) -> str:
    return f"{text.upper()}!"
