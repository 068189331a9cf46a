"""Statements as the driver takes them: `:name` becomes `?1`, and what the driver would get wrong is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ...errors import StoreError

_PIECE = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?(?:\*/|\Z)   # text, names, comments: passed on
    | :[A-Za-z_]\w* | ; | \w+ | [^'"\-/:;\w]+ | .""",
    re.VERBOSE | re.DOTALL,
)


class Statement(NamedTuple):
    """One statement with numbered places, and the names of the values that go there, in their order."""

    text: str
    names: tuple[str, ...]


def _pieces(sql: str) -> Iterator[str]:
    return (match[0] for match in _PIECE.finditer(sql))


@cache
def statement(sql: str) -> Statement:
    """The one statement in `sql`, with `:name` places numbered.

    Raises:
        StoreError: it holds RETURNING, which the driver runs again at a second fetch, or further statements, which
            the driver leaves out without a word.
    """
    parts: list[str] = []
    names: dict[str, int] = {}
    ended = False
    for piece in _pieces(sql):
        if ended and not (piece.isspace() or piece.startswith(("--", "/*"))):
            raise StoreError("More than one statement; libSQL would run the first only.")
        if piece.casefold() == "returning":
            raise StoreError("RETURNING is not safe on libSQL: the driver may run the statement twice.")
        if piece[0] == ":" and len(piece) > 1:
            piece = f"?{names.setdefault(piece[1:], len(names) + 1)}"
        ended = ended or piece == ";"
        parts.append("" if piece == ";" else piece)
    return Statement("".join(parts).strip(), tuple(names))


def split(script: str) -> Sequence[str]:
    """The statements of a migration; none of ours holds a trigger, the one place for a `;` within a statement."""
    statements: list[list[str]] = [[]]
    for piece in _pieces(script):
        if piece == ";":
            statements.append([])
        elif not piece.startswith(("--", "/*")):
            statements[-1].append(piece)
    return [text for parts in statements if (text := "".join(parts).strip())]
