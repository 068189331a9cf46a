"""Secrets out of a text, before any model, embedder, queue, log or disk sees it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias

from . import patterns, secrets

Redactor: TypeAlias = Callable[[str], str]
KINDS = patterns.KINDS | secrets.KINDS

# characters read at once: within one search of an expression no other thread has its turn
_WINDOW = 16_384
# beyond them, for what begins in them; the longest secrets but private keys are shorter
_AFTER = 8_192
_BEFORE = 512  # and before them, for what names a secret
# a mask may lay bare the edge of a secret glued to it; hostile chains of those must not cost for
# ever
_ROUNDS = 8
# Japanese and Chinese keyboards write those too
_FULL_WIDTH = {0xFF01 + offset: 0x21 + offset for offset in range(94)}
_ZERO_WIDTH = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+")
_FEW_ROUNDS = 3  # for a long text


def redact(text: str) -> str:
    """Return the text with every secret it is known to hold replaced by `[secret: <kind>]`.

    Secrets are known by their shape (a GitHub token, a private key block), by what stands beside
    them (`password=`, `Authorization:`, the password in a URL), or by their check digit (a credit
    card number). Masking what is masked changes nothing. Takes time linear in the length of the
    text.
    """
    return _known().redact(text)


@lru_cache(maxsize=4_096)
def masked_id(id: str) -> str:
    """Return an identifier without secrets, the same for the same identifier.

    A hash of the whole follows the mask, so that two sessions named by two secrets stay two. It is
    slow to compute, so that a short password cannot be guessed from it.
    """
    masked = redact(id)
    if masked == id:
        return id
    digest = hashlib.pbkdf2_hmac("sha256", id.encode(errors="replace"), b"kagent-memory", 2_000, 12)
    return f"{masked} {digest.hex()}"


def redactor(secrets_file: str | Path) -> Redactor:
    """`redact` that knows further vendors' secrets, from a TOML file in the form of
    `redaction/vendors.toml`.

    Raises:
        ConfigurationError: the file cannot be read as such a table.
    """
    shapes = patterns.read_table(secrets_file, "secret", patterns.Shape, "secrets_file")
    return _Secrets(shapes).redact


class _Secrets:
    """All that is known of secrets."""

    def __init__(self, more: Sequence[patterns.Shape] = ()) -> None:
        self._shapes = patterns.Shapes(more)
        kinds = KINDS | {shape.kind for shape in more}
        self._mask = re.compile(
            r"\[secret: (" + "|".join(sorted(map(re.escape, kinds), key=len, reverse=True)) + r")\]"
        )

    def redact(self, text: str) -> str:
        for _ in range(_ROUNDS if len(text) <= _WINDOW else _FEW_ROUNDS):
            masked = patterns.masked(text, self._united(text), "secret")
            if masked == text:
                break
            text = masked
        return text

    def _found(self, text: str) -> Iterator[patterns.Span]:
        """Yield where secrets stand, in no order; a long text is read window by window."""
        yield from patterns.private_keys(text)
        for start in range(0, len(text), _WINDOW):
            first = max(0, start - _BEFORE)
            window = text[first : start + _WINDOW + _AFTER]
            for part in (self._shapes, secrets):
                for begin, end, kind in part.spans(window):
                    if start <= begin + first < start + _WINDOW:
                        yield begin + first, end + first, kind

    def _hidden(self, text: str) -> Iterator[patterns.Span]:
        """Yield where secrets stand that invisible characters interrupt."""
        places: list[int] = []
        at = 0
        for match in _ZERO_WIDTH.finditer(text):
            places += range(at, match.start())
            at = match.end()
        places += range(at, len(text))
        for start, end, kind in self._found(_ZERO_WIDTH.sub("", text)):
            yield places[start], places[end - 1] + 1, kind

    def _united(self, text: str) -> list[patterns.Span]:
        """Return where secrets and earlier masks stand, in order; what overlaps is one."""
        masks = [(*match.span(), match.group(1)) for match in self._mask.finditer(text)]
        inside = {place for start, end, _ in masks for place in range(start + 1, end)}
        plain = text if text.isascii() else text.translate(_FULL_WIDTH)
        spans = [span for span in self._found(plain) if span[0] not in inside]
        if not text.isascii() and _ZERO_WIDTH.search(text):
            spans += [span for span in self._hidden(plain) if span[0] not in inside]
        return patterns.united((*masks, *spans))


@cache
def _known() -> _Secrets:
    return _Secrets()
