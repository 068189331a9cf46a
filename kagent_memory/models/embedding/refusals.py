"""Embedding what an embedder refuses to take whole: a batch text by text, a text in halves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...errors import ModelError, ModelUnavailable, UnusableAnswer
from ...language.tokenizer import estimated_tokens
from .checked_embedder import Matrix, finite, matrix

if TYPE_CHECKING:
    from . import Embedder

logger = logging.getLogger(__name__)

PROBE = "kagent_memory: the quick brown fox remembers."
MIN_HALVED_TOKENS = 64
"""A text of fewer estimated tokens is too long for no embedder: its refusal is final."""
WORD_BREAK_CHARS = 100  # how far from the middle of a text a half may end


class RefusalHandler:
    """Embeds texts one by one, or in halves, where an embedder refuses them together or whole.

    The vector of a text that is embedded in halves is the mean of theirs, weighted by length.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    async def embed(
        self, texts: Sequence[str], *, kind: Literal["document", "query"]
    ) -> list[Matrix | None]:
        """Return the vector of each text; None for one that is refused however short its parts are.

        Raises:
            ModelError: the embedder is away, answers what cannot be used, or refuses everything.
            ConfigurationError: as the embedder's `embed`.
        """
        try:
            return list(await self._rows(texts, kind))
        except (ModelUnavailable, UnusableAnswer):
            raise
        except ModelError:
            await self._rows([PROBE], kind)  # refused too: the texts are not the cause
            return await self._after_refusal(texts, kind)

    async def _after_refusal(
        self, texts: Sequence[str], kind: Literal["document", "query"]
    ) -> list[Matrix | None]:
        """Embed texts that were refused together: each half of them by itself, or a single one in
        halves.
        """
        if len(texts) > 1:
            middle = len(texts) // 2
            return [
                *await self._bisected(texts[:middle], kind),
                *await self._bisected(texts[middle:], kind),
            ]
        [text] = texts
        if estimated_tokens(text) < MIN_HALVED_TOKENS:
            logger.warning("%s refuses a text of %d characters.", self.embedder.name, len(text))
            return [None]
        halves = _halves(text)
        return [self._pooled(halves, await self._bisected(halves, kind))]

    async def _bisected(
        self, texts: Sequence[str], kind: Literal["document", "query"]
    ) -> list[Matrix | None]:
        try:
            return list(await self._rows(texts, kind))
        except (ModelUnavailable, UnusableAnswer):
            raise
        except ModelError:
            return await self._after_refusal(texts, kind)

    async def _rows(self, texts: Sequence[str], kind: Literal["document", "query"]) -> Matrix:
        rows = np.asarray(await self.embedder.embed(texts, kind=kind))
        return matrix(rows, len(texts), f"The embedder {self.embedder.name!r}")

    def _pooled(self, parts: Sequence[str], rows: Sequence[Matrix | None]) -> Matrix | None:
        """Return the mean of the parts' vectors, weighted by length; None where none has one."""
        known = [
            (len(part), row.astype(np.float64))
            for part, row in zip(parts, rows, strict=True)
            if row is not None
        ]
        if not known:
            return None
        mean = np.sum([length * row / np.linalg.norm(row) for length, row in known], axis=0)
        return finite(np.atleast_2d(mean if mean.any() else known[0][1]), self.embedder.name)[0]


def _halves(text: str) -> tuple[str, str]:
    """Return both halves of a text, parted at white space where there is some near its middle."""
    middle = len(text) // 2
    near = range(max(1, middle - WORD_BREAK_CHARS), min(middle + WORD_BREAK_CHARS, len(text) - 1))
    spaces = [place for place in near if text[place].isspace()]
    place = min(spaces, key=lambda place: abs(place - middle), default=middle)
    return text[:place], text[place:]
