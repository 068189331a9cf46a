"""Load the word lists of `language/data`: TOML files of white-space-separated words."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

_DATA = Path(__file__).with_name("data")


@cache
def table(name: str) -> Mapping[str, Any]:
    """Return the table of `data/<name>.toml`."""
    return tomllib.loads((_DATA / f"{name}.toml").read_text("utf-8"))


@cache
def all_words(name: str) -> frozenset[str]:
    """Return the words of every list in `data/<name>.toml`."""
    return frozenset(word for text in table(name).values() for word in text.split())


def months(*languages: str) -> Mapping[str, int]:
    """Return the names of months in these languages, each with its number from 1 to 12."""
    return {
        name: number
        for language in languages
        for number, names in enumerate(table("calendar")[language]["months"].split("|"), 1)
        for name in names.split()
    }


def weekdays(*languages: str) -> frozenset[str]:
    """Return the names of the days of the week in these languages."""
    return frozenset(
        name for language in languages for name in table("calendar")[language]["weekdays"].split()
    )


QUERY_WORDS: Final = {name: tuple(text.split()) for name, text in table("query_words").items()}
"""The lists of words that queries are read with."""
