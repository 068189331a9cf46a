"""Mask secrets in a text before any model, embedder, queue, log or disk sees it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias

from ..records import Filter, Memory
from . import patterns, secrets

Redactor: TypeAlias = Callable[[str], str]
KINDS = patterns.KINDS | secrets.KINDS

# Characters searched at once: a regular expression holds the interpreter lock while it runs.
WINDOW_CHARS = 16_384
# Characters after the window, for secrets that begin in it; only private keys can be longer.
_AFTER = 8_192
_BEFORE = 512  # characters before the window, for the name of a secret
# A mask may expose the edge of a secret next to it; rounds are limited, because a hostile text can
# chain many secrets.
_ROUNDS = 8
# Full-width ASCII, which Japanese and Chinese keyboards write.
_FULL_WIDTH = {0xFF01 + offset: 0x21 + offset for offset in range(94)}
_ZERO_WIDTH = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+")
_FEW_ROUNDS = 3  # for long texts


def redact(text: str) -> str:
    """Replace every secret in a text by `[secret: <kind>]`.

    Secrets are recognized by their shape (a GitHub token, a private key block), by the text before
    them (`password=`, `Authorization:`, the password in a URL) or by their check digit (a credit
    card number). Masking a masked text changes nothing. The time taken is linear in the length of
    the text.
    """
    return _default().redact(text)


@lru_cache(maxsize=4_096)
def masked_id(id: str) -> str:
    """Mask the secrets in an identifier; equal identifiers give equal results.

    A hash of the whole identifier follows the mask, so that two sessions named by two secrets stay
    apart. The hash is slow on purpose, so that a short password cannot be guessed from it.
    """
    masked = redact(id)
    if masked == id:
        return id
    digest = hashlib.pbkdf2_hmac("sha256", id.encode(errors="replace"), b"kagent-memory", 2_000, 12)
    return f"{masked} {digest.hex()}"


def masked_filter(filter: Filter) -> Filter:
    """Return a filter with its session id masked, as those of memories are."""
    id = filter.session_id
    return filter if id is None else replace(filter, session_id=masked_id(id))


def texts_of(memory: Memory) -> Iterator[str]:
    """Yield all texts of a memory that somebody wrote, in which secrets are looked for."""
    yield from filter(None, (memory.content, memory.subject, memory.attribute, memory.author))
    yield from (*memory.topics, *memory.tags)
    # in JSON, since a secret may be recognized by the name before it
    yield json.dumps(memory.metadata, ensure_ascii=False)


def redactor(secrets_file: str | Path) -> Redactor:
    """Return a `redact` that also masks the secrets of a TOML file like `redaction/vendors.toml`.

    Raises:
        ConfigurationError: the file cannot be read as such a table.
    """
    shapes = patterns.read_table(secrets_file, "secret", patterns.Shape, "secrets_file")
    return _Secrets(shapes).redact


class _Secrets:
    """All known kinds of secrets, built in and configured."""

    def __init__(self, more: Sequence[patterns.Shape] = ()) -> None:
        self._shapes = patterns.Shapes(more)
        kinds = KINDS | {shape.kind for shape in more}
        self._mask = re.compile(
            r"\[secret: (" + "|".join(sorted(map(re.escape, kinds), key=len, reverse=True)) + r")\]"
        )

    def redact(self, text: str) -> str:
        for _ in range(_ROUNDS if len(text) <= WINDOW_CHARS else _FEW_ROUNDS):
            masked = patterns.masked(text, self._united(text), "secret")
            if masked == text:
                break
            text = masked
        return text

    def _spans(self, text: str) -> Iterator[patterns.Span]:
        """Yield the spans of secrets in no order; a long text is read window by window."""
        yield from patterns.private_keys(text)
        for start in range(0, len(text), WINDOW_CHARS):
            first = max(0, start - _BEFORE)
            window = text[first : start + WINDOW_CHARS + _AFTER]
            for part in (self._shapes, secrets):
                for begin, end, kind in part.spans(window):
                    if start <= begin + first < start + WINDOW_CHARS:
                        yield begin + first, end + first, kind

    def _hidden(self, text: str) -> Iterator[patterns.Span]:
        """Yield the spans of secrets that are broken up by invisible characters."""
        indexes: list[int] = []
        end = 0
        for match in _ZERO_WIDTH.finditer(text):
            indexes += range(end, match.start())
            end = match.end()
        indexes += range(end, len(text))
        for start, end, kind in self._spans(_ZERO_WIDTH.sub("", text)):
            yield indexes[start], indexes[end - 1] + 1, kind

    def _united(self, text: str) -> list[patterns.Span]:
        """Return the spans of secrets and earlier masks in order; overlapping ones become one."""
        masks = [(*match.span(), match.group(1)) for match in self._mask.finditer(text)]
        inside = {index for start, end, _ in masks for index in range(start + 1, end)}
        plain = text if text.isascii() else text.translate(_FULL_WIDTH)
        spans = [span for span in self._spans(plain) if span[0] not in inside]
        if not text.isascii() and _ZERO_WIDTH.search(text):
            spans += [span for span in self._hidden(plain) if span[0] not in inside]
        return patterns.united((*masks, *spans))


@cache
def _default() -> _Secrets:
    return _Secrets()
