"""Statements as the drivers take them: `:name` becomes `?`, and what a driver would get wrong is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ...errors import StoreError

_PIECE = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?(?:\*/|\Z)   # text, names, comments: passed on
    | :[A-Za-z_]\w* | ; | \w+ | [^'"\-/:;\w]+ | .""",  # noqa: E501
    re.VERBOSE | re.DOTALL,
)


class Statement(NamedTuple):
    """One statement for a driver.

    Attributes:
        text: with a plain `?` at each place, which every version of both drivers takes.
        names: of the values, in the order in which they are first named.
        places: which of the values goes to each `?`; None: each goes to its own.
    """

    text: str
    names: tuple[str, ...]
    places: tuple[int, ...] | None


def _pieces(sql: str) -> Iterator[str]:
    return (match[0] for match in _PIECE.finditer(sql))


@cache
def statement(sql: str) -> Statement:
    """The one statement in `sql`.

    Raises:
        StoreError: it holds RETURNING, which libsql runs again at a second fetch, or further
            statements, which it leaves out without a word.
    """
    parts: list[str] = []
    names: dict[str, int] = {}
    places: list[int] = []
    ended = False
    for piece in _pieces(sql):
        if ended and not (piece.isspace() or piece.startswith(("--", "/*"))):
            raise StoreError("More than one statement; libsql would run the first only.")
        if piece.casefold() == "returning":
            raise StoreError("RETURNING is not safe in a file: libsql may run the statement twice.")
        if piece[0] == ":" and len(piece) > 1:
            places.append(names.setdefault(piece[1:], len(names)))
            piece = "?"
        ended = ended or piece == ";"
        parts.append("" if piece == ";" else piece)
    repeated = len(places) > len(names)
    return Statement("".join(parts).strip(), tuple(names), tuple(places) if repeated else None)


def split(script: str) -> Sequence[str]:
    """The statements of a migration; none of ours holds a trigger, the one place for a `;` within a
    statement.
    """
    statements: list[list[str]] = [[]]
    for piece in _pieces(script):
        if piece == ";":
            statements.append([])
        elif not piece.startswith(("--", "/*")):
            statements[-1].append(piece)
    return [text for parts in statements if (text := "".join(parts).strip())]
