"""Recognize secrets by their shape: a known beginning and the characters that follow."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..checks import described
from ..errors import ConfigurationError

Entry = TypeVar("Entry")
Span: TypeAlias = tuple[int, int, str]

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
    """Return the spans in order; overlapping ones become one, of the kind that begins first."""
    merged: list[Span] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            first, last, earlier_kind = merged[-1]
            merged[-1] = (first, max(last, end), earlier_kind)
        else:
            merged.append((start, end, kind))
    return merged


def masked(text: str, spans: Iterable[Span], label: str) -> str:
    """Replace each span of the text, as `united` returns them, by `[label: kind]`."""
    pieces: list[str] = []
    position = 0
    for start, end, kind in spans:
        pieces += text[position:start], f"[{label}: {kind}]"
        position = end
    return "".join((*pieces, text[position:]))


def read_table(file: str | Path, key: str, kind: type[Entry], setting: str) -> list[Entry]:
    """Return the `[[key]]` entries of a TOML file that holds nothing else.

    Raises:
        ConfigurationError: it cannot be read as such a table; the message names the setting.
    """
    try:
        table = tomllib.loads(Path(file).read_text("utf-8"))
        if set(table) != {key}:
            raise ValueError(f"it holds {', '.join(table) or 'nothing'}")
        if not isinstance(table[key], list) or not table[key]:
            raise ValueError("it holds no entry")
        entry = TypeAdapter(kind)
        return [entry.validate_python(row) for row in table[key]]
    except ValidationError as error:  # the message of pydantic would quote the file
        reason = described(error)
    except (OSError, ValueError, re.error) as error:
        reason = str(error)
    raise ConfigurationError(
        f"{setting}: {file} is not a table of [[{key}]] entries: {' '.join(reason.split())[:300]}."
    )


_EDGE = "[A-Za-z0-9]"


def _has_edge(start: str) -> bool:
    return start[0] not in "?&"


Kind: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9 ._\-]{0,63}$")]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a vendor's secrets; see vendors.toml."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Kind
    starts: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    then: str

    def __post_init__(self) -> None:
        if any(self.rule(start).fullmatch(start) for start in self.starts):
            raise ValueError(f"the `then` of {self.kind} matches the empty string")

    def rule(self, start: str) -> re.Pattern[str]:
        """Return the expression for the secrets that begin with `start`."""
        edge = f"(?<!{_EDGE})" if _has_edge(start) else ""
        return re.compile(f"{edge}{re.escape(start)}(?:{self.then})")


@dataclass(frozen=True, slots=True)
class Unanchored:
    """The shape of secrets without a fixed beginning; see unanchored.toml."""

    kind: Kind
    holds: tuple[str, ...]
    pattern: re.Pattern[str]
    any_case: bool = False
    made: bool = False


_HERE = Path(__file__).parent
VENDORS = read_table(_HERE / "vendors.toml", "secret", Shape, "secrets")
UNANCHORED = read_table(_HERE / "unanchored.toml", "secret", Unanchored, "secrets")
KINDS = {
    *(shape.kind for shape in (*VENDORS, *UNANCHORED)),
    "private key",
    *(f"{label} private key" for label in _NAMED_KEYS),
}


def _any_of(starts: Sequence[str]) -> str:
    """Return an expression that matches the first of these beginnings that fits.

    Alternatives are grouped by their first character, so that most positions fail at once.
    """
    rests: dict[str, list[str]] = {}
    for start in starts:
        rests.setdefault(start[0], []).append(re.escape(start[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in rests.items())


class Shapes:
    """All shapes, compiled to search a text for."""

    def __init__(self, more: Sequence[Shape] = ()) -> None:
        self._rules: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
        for shape in (*VENDORS, *more):
            for start in shape.starts:
                self._rules.setdefault(start, []).append((shape.kind, shape.rule(start)))
        starts = sorted(self._rules, key=len, reverse=True)
        every_start, free_start = map(
            _any_of, (starts, [start for start in starts if not _has_edge(start)])
        )
        # the edge comes first: it rules out most positions
        self._anchors = re.compile(f"(?<!{_EDGE})(?:{every_start})|{free_start}")

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the spans of secrets of a known shape, in no order; they may overlap."""
        at = 0
        while anchor := self._anchors.search(text, at):
            at = anchor.start() + 1
            for kind, rule in self._rules[anchor.group()]:
                if match := rule.match(text, anchor.start()):
                    yield *match.span(), kind
                    at = match.end()
                    break


def private_keys(text: str) -> Iterator[Span]:
    """Yield the spans of private key blocks, the only secrets that may exceed a window."""
    for match in _PRIVATE_KEY.finditer(text):
        label = match.group(1).split(" ")[0].lower()
        yield (
            *match.span(),
            f"{label} private key" if label in _NAMED_KEYS else "private key",
        )
