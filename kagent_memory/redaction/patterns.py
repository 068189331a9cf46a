"""Secrets that are known by their shape: what they begin with and how they go on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter

from ..errors import ConfigurationError

Span = tuple[int, int, str]

# Two parts joined by a dot may fail late; they begin where no dash stands before, so that no text is read twice.
_SEGMENTED: tuple[tuple[str, str, str], ...] = (
    ("json web token", "eyJ", r"[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{8,}+(?:\.[A-Za-z0-9_\-]*+){0,3}"),
    ("mapbox token", "sk.eyJ", r"[A-Za-z0-9_\-]{20,}+\.[A-Za-z0-9_\-]{20,}"),
)

_BODY = r"[^\-]*+(?:-(?!----)[^\-]*+)*+"
_LINE = r"(?:(?:\s|\\+[nrt])*+[A-Za-z0-9+/=]{16,}+)*+(?:(?:\s|\\+[nrt])*+[A-Za-z0-9+/]{1,15}={1,2})?"
_PRIVATE_KEY = re.compile(
    r"-----BEGIN ((?:[A-Z0-9]+ ){0,3})PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_BODY}-----END [A-Z0-9 ]{{0,40}}-----|{_LINE})"
)

# Shapes that have no fixed beginning: kind, what they hold somewhere, the whole.
_INNER: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("azure client secret", "Q~", re.compile(r"(?<![A-Za-z0-9_~.])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.\-]{31,}")),
    ("telegram bot token", ":AA", re.compile(r"(?<![A-Za-z0-9])\d{8,10}:AA[A-Za-z0-9_\-]{32,}")),
    (
        "discord bot token",
        ".",
        re.compile(
            r"(?<![A-Za-z0-9_\-.])[MNO][A-Za-z0-9_\-]{22,27}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,}+(?![A-Za-z0-9.])"
        ),
    ),
    ("mailchimp key", "-us", re.compile(r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}(?![A-Za-z0-9])")),
    (
        "terraform cloud token",
        ".atlasv1.",
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-]{50,}"),
    ),
    ("airtable token", "pat", re.compile(r"(?<![A-Za-z0-9])pat[A-Za-z0-9]{14}\.[0-9a-f]{64}[A-Za-z0-9]*")),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a vendor's secrets look like; see vendors.toml."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: str
    starts: tuple[str, ...]
    then: str


_KIND = re.compile(r"[a-z0-9][a-z0-9 .\-]{0,63}")


_EDGE = "[A-Za-z0-9]"
_KEY_BEGINS = "-----BEGIN "


def _has_edge(start: str) -> bool:
    return start[0] not in "?&" and start != _KEY_BEGINS


def _any_of(starts: Sequence[str]) -> str:
    """An expression that finds the first of these that fits; at most places it has to try but one letter of each."""
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
        raise ValueError(f"unknown key {', '.join(map(repr, unknown))}; entries are written [[{key}]]")
    if not table.get(key):
        raise ValueError(f"it has no [[{key}]] entry")
    return table[key]


def shapes_of(text: str, name: str) -> tuple[Shape, ...]:
    """The shapes that a table holds, in the form of vendors.toml.

    Raises:
        ConfigurationError: it cannot be read as one.
    """
    try:
        shapes = TypeAdapter(list[Shape]).validate_python(entries_of(text, "secret"))
        for shape in shapes:
            if not _KIND.fullmatch(shape.kind) or not all(map(len, shape.starts)):
                raise ValueError(
                    f"kind {shape.kind!r} must be lower-case letters, digits and spaces, and no start may be empty"
                )
            if not shape.starts or any(_rule(start, shape.then).match(start) for start in shape.starts):
                raise ValueError(f"{shape.kind} has no starts, or its `then` matches the empty string")
    except (ValueError, TypeError, re.error) as error:  # what pydantic and tomllib raise are ValueErrors
        reason = " ".join(str(error).split())[:300]
        raise ConfigurationError(f"{name} is not a table of secrets in the format of vendors.toml: {reason}.") from None
    return tuple(shapes)


VENDORS = shapes_of(Path(__file__).with_name("vendors.toml").read_text("utf-8"), "vendors.toml")
KINDS = frozenset(kind for kind, *_ in (*_SEGMENTED, *_INNER)) | {
    *(shape.kind for shape in VENDORS),
    "private key",
    "openssh private key",
    "pgp private key",
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
        self._rules[_KEY_BEGINS] = (("private key", _PRIVATE_KEY),)
        starts = sorted(self._rules, key=len, reverse=True)
        every, free = map(_any_of, (starts, [one for one in starts if not _has_edge(one)]))
        # the edge is looked at first: at most places nothing else need be
        self._anchors = re.compile(f"(?<!{_EDGE})(?:{every})|{free}")

    def _add(self, start: str, kind: str, rule: re.Pattern[str]) -> None:
        self._rules[start] = (*self._rules.get(start, ()), (kind, rule))

    def spans(self, text: str) -> Iterator[Span]:
        """Where secrets of a known shape stand, in order, without overlaps."""
        spans: list[Span] = []
        at = 0
        while anchor := self._anchors.search(text, at):
            at = anchor.start() + 1
            for kind, rule in self._rules[anchor.group()]:
                if match := rule.match(text, anchor.start()):
                    spans.append((match.start(), match.end(), _key_kind(match) if rule is _PRIVATE_KEY else kind))
                    at = match.end()
                    break
        rules = ((kind, rule) for kind, held, rule in _INNER if held in text)
        spans += ((match.start(), match.end(), kind) for kind, rule in rules for match in rule.finditer(text))
        end = 0
        for span in sorted(spans, key=lambda span: (span[0], -span[1])):
            if span[0] >= end:
                yield span
                end = span[1]


def private_keys(text: str) -> Iterator[Span]:
    """Where blocks of private keys stand, the only secrets that are longer than a window."""
    at = text.find(_KEY_BEGINS)
    while at >= 0:
        match = _PRIVATE_KEY.match(text, at)
        if match:
            yield match.start(), match.end(), _key_kind(match)
        at = text.find(_KEY_BEGINS, match.end() if match else at + 1)


def _key_kind(match: re.Match[str]) -> str:
    label = match.group(1).split(" ")[0].lower()
    return f"{label} private key" if label in ("openssh", "pgp") else "private key"
