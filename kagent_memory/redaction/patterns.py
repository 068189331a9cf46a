"""Secrets that are known by their shape: what they begin with and how they go on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter

from ..errors import ConfigurationError

Span = tuple[int, int, str]

# Two parts joined by a dot may fail late; they begin where no dash stands before, so that no text
# is read twice.
_SEGMENTED: tuple[tuple[str, str, str], ...] = (
    (
        "json web token",
        "eyJ",
        r"[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{8,}+(?:\.[A-Za-z0-9_\-]*+){0,3}",
    ),
    ("mapbox token", "sk.eyJ", r"[A-Za-z0-9_\-]{20,}+\.[A-Za-z0-9_\-]{20,}"),
)

_NAMED_KEYS = ("openssh", "pgp")
_BODY = r"[^\-]*+(?:-(?!----)[^\-]*+)*+"
_LINE = (
    r"(?:(?:\s|\\+[nrt])*+[A-Za-z0-9+/=]{16,}+)*+(?:(?:\s|\\+[nrt])*+[A-Za-z0-9+/]{1,15}={1,2})?"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN ((?:[A-Z0-9]+ ){0,3})PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_BODY}-----END [A-Z0-9 ]{{0,40}}-----|{_LINE})"
)


def united(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order; those that overlap become one, of the kind that begins first."""
    kept: list[Span] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if kept and start < kept[-1][1]:
            first, last, known = kept[-1]
            kept[-1] = (first, max(last, end), known)
        else:
            kept.append((start, end, kind))
    return kept


def masked(text: str, spans: Iterable[Span], what: str) -> str:
    """Return the text with `[what: kind]` in place of each span; the spans are those of
    `united`.
    """
    pieces: list[str] = []
    at = 0
    for start, end, kind in spans:
        pieces += text[at:start], f"[{what}: {kind}]"
        at = end
    return "".join((*pieces, text[at:]))


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of a vendor's secrets; see vendors.toml."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: str
    starts: tuple[str, ...]
    then: str


_KIND = re.compile(r"[a-z0-9][a-z0-9 .\-]{0,63}")


_EDGE = "[A-Za-z0-9]"


def _has_edge(start: str) -> bool:
    return start[0] not in "?&"


def _any_of(starts: Sequence[str]) -> str:
    """Return an expression that finds the first of these that fits; at most places it has to try
    but one.
    """
    rests: dict[str, list[str]] = {}
    for start in starts:
        rests.setdefault(start[0], []).append(re.escape(start[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in rests.items())


def _rule(start: str, then: str, before: str = _EDGE) -> re.Pattern[str]:
    edge = f"(?<!{before})" if _has_edge(start) else ""
    return re.compile(f"{edge}{re.escape(start)}(?:{then})")


def entries_of(text: str, key: str) -> object:
    """Return the `[[key]]` entries of a TOML table that holds nothing else.

    Raises:
        ValueError: it has other keys, or no entry.
    """
    table = tomllib.loads(text)
    if unknown := sorted(set(table) - {key}):
        raise ValueError(
            f"unknown key {', '.join(map(repr, unknown))}; entries are written [[{key}]]"
        )
    if not table.get(key):
        raise ValueError(f"it has no [[{key}]] entry")
    return table[key]


def shapes_of(text: str, name: str) -> tuple[Shape, ...]:
    """Return the shapes that a table holds, in the form of vendors.toml.

    Raises:
        ConfigurationError: it cannot be read as one.
    """
    try:
        shapes = TypeAdapter(list[Shape]).validate_python(entries_of(text, "secret"))
        for shape in shapes:
            if not _KIND.fullmatch(shape.kind) or not all(map(len, shape.starts)):
                raise ValueError(
                    f"kind {shape.kind!r} must be lower-case letters, digits and spaces, and no "
                    "start may be empty"
                )
            if not shape.starts or any(
                _rule(start, shape.then).match(start) for start in shape.starts
            ):
                raise ValueError(
                    f"{shape.kind} has no starts, or its `then` matches the empty string"
                )
    except (
        ValueError,
        TypeError,
        re.error,
    ) as error:  # what pydantic and tomllib raise are ValueErrors
        reason = " ".join(str(error).split())[:300]
        raise ConfigurationError(
            f"{name} is not a table of secrets in the format of vendors.toml: {reason}."
        ) from None
    return tuple(shapes)


@dataclass(frozen=True, slots=True)
class Unanchored:
    """Shape of secrets without a fixed beginning; see unanchored.toml."""

    kind: str
    holds: str
    pattern: re.Pattern[str]


VENDORS = shapes_of(Path(__file__).with_name("vendors.toml").read_text("utf-8"), "vendors.toml")
UNANCHORED = TypeAdapter(list[Unanchored]).validate_python(
    entries_of(Path(__file__).with_name("unanchored.toml").read_text("utf-8"), "secret")
)
KINDS = frozenset(kind for kind, *_ in _SEGMENTED) | {
    *(shape.kind for shape in (*VENDORS, *UNANCHORED)),
    "private key",
    *(f"{label} private key" for label in _NAMED_KEYS),
}


class Shapes:
    """The tables of shapes, ready to read a text with."""

    def __init__(self, more: Sequence[Shape] = ()) -> None:
        self._rules: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {}
        for shape in (*VENDORS, *more):
            for start in shape.starts:
                self._add(start, shape.kind, _rule(start, shape.then))
        for kind, start, then in _SEGMENTED:
            self._add(start, kind, _rule(start, then, before=r"[A-Za-z0-9_\-]"))
        starts = sorted(self._rules, key=len, reverse=True)
        every, free = map(_any_of, (starts, [one for one in starts if not _has_edge(one)]))
        # the edge is looked at first: at most places nothing else need be
        self._anchors = re.compile(f"(?<!{_EDGE})(?:{every})|{free}")

    def _add(self, start: str, kind: str, rule: re.Pattern[str]) -> None:
        self._rules[start] = (*self._rules.get(start, ()), (kind, rule))

    def spans(self, text: str) -> Iterator[Span]:
        """Yield where secrets of a known shape stand, in no order; they may overlap."""
        at = 0
        while anchor := self._anchors.search(text, at):
            at = anchor.start() + 1
            for kind, rule in self._rules[anchor.group()]:
                if match := rule.match(text, anchor.start()):
                    yield *match.span(), kind
                    at = match.end()
                    break
        for shape in UNANCHORED:
            if shape.holds in text:
                yield from ((*match.span(), shape.kind) for match in shape.pattern.finditer(text))


def private_keys(text: str) -> Iterator[Span]:
    """Yield where blocks of private keys stand, the only secrets that are longer than a window."""
    for match in _PRIVATE_KEY.finditer(text):
        label = match.group(1).split(" ")[0].lower()
        yield (
            *match.span(),
            f"{label} private key" if label in _NAMED_KEYS else "private key",
        )
