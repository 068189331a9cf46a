"""Whatever a tool or a client put into an event, as JSON and a database carry it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from ..records import DEEPEST, MAX_KEY_BYTES

MOST_VALUES = 100_000  # in one answer; a few shared lists can stand for billions
MOST_BITS = 10_000  # of a whole number; longer ones Python refuses to write
CUT = "…"


def plain(value: object) -> tuple[Any, bool]:
    """The value made of texts, numbers, lists and mappings alone, and whether that is all of it.

    What holds itself, lies more than 100 levels deep or comes after the 100,000th value is cut; bytes are told by
    their number.
    """
    copy = _Copy()
    return copy.of(value), copy.whole


def storable_id(id: str) -> str:
    """The id itself, or one made of it where it is too long for a database or no valid text."""
    text = str(id or "")
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= MAX_KEY_BYTES and "\0" not in text and raw.decode("utf-8", "replace") == text:
        return text
    return f"odd-{hashlib.blake2b(raw, digest_size=16).hexdigest()}"


class _Copy:
    def __init__(self) -> None:
        self.whole = True
        self._left = MOST_VALUES
        self._open: set[int] = set()

    def of(self, value: object) -> Any:
        self._left -= 1
        if value is None or isinstance(value, (str, bool, float)):
            return value
        if isinstance(value, int):
            return int(value) if value.bit_length() < MOST_BITS else hex(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"<{len(cast('bytes', value))} bytes>"
        if isinstance(value, BaseModel):
            # What a model holds, not what it makes of that: it may hold itself.
            value = {name: getattr(value, name, None) for name in type(value).model_fields} | (value.model_extra or {})
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            return self._within(cast("Iterable[Any]", value))
        return _said(value)

    def _within(self, values: Iterable[Any]) -> Any:
        place = id(values)
        if place in self._open or len(self._open) >= DEEPEST or self._left < 0:
            self.whole = False
            return CUT
        self._open.add(place)
        try:
            if not isinstance(values, Mapping):
                return [self.of(value) for value in self._affordable(values)]
            matches: dict[str, Any] = {}
            for key, value in self._affordable(cast("Mapping[Any, Any]", values).items()):
                name = key if isinstance(key, str) else _said(key)
                while name in matches:
                    name = f"{name} ({len(matches)})"
                matches[name] = self.of(value)
            return matches
        finally:
            self._open.discard(place)

    def _affordable(self, values: Iterable[Any]) -> Iterable[Any]:
        for value in values:
            if self._left < 0:
                self.whole = False
                return
            yield value


def _said(value: object) -> str:
    """What an object says of itself, or its kind when it fails to."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
