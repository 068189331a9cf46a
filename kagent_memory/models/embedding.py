"""Embedders: whatever the user chose becomes one whose answers are checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..concurrency import batched
from ..errors import ConfigurationError, ModelError, ModelUnavailable, UnusableAnswer
from ..language.tokenizer import estimated_tokens
from ..records import scaled
from ..settings import EmbeddingConfig, MemorySettings
from .calls import CheckedModel, check_provider
from .local import PREFIXES, LocalEmbedder
from .provider_embedder import ProviderEmbedder

logger = logging.getLogger(__name__)

Kind: TypeAlias = Literal["document", "query"]
Matrix: TypeAlias = npt.NDArray[np.float32]
ADVICE = (
    "check that it names an embedding model and that its server works, or choose another embedder"
)
PROBE = "kagent_memory: the quick brown fox remembers."
MIN_HALVED_TOKENS = 64
"""A text of fewer estimated tokens is too long for no embedder: its refusal is final."""
TINY = 1e-30  # the length that a vector of zeros is taken to have
WORD_BREAK_CHARS = 100  # how far from the middle of a text a half may end


class Embedder(Protocol):
    """Turns texts into vectors. Any object of this shape will do.

    Attributes:
        name: says which model this is; vectors of two names never mix.
    """

    @property
    def name(self) -> str:
        """Return which model this is."""
        ...

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> npt.NDArray[np.float32]:
        """Return one row per text, float32 (n, d)."""
        ...


EmbedderChoice: TypeAlias = str | EmbeddingConfig | Mapping[str, Any] | Embedder | None
"""What makes an embedder: a model name, kagent's configuration of one, or an object with
`embed`.
"""


def finite(rows: npt.NDArray[np.float64], name: str) -> Matrix:
    """Return the rows as float32, of a size that half precision keeps too (`records.scaled`).

    Raises:
        UnusableAnswer: a row is not finite, or is zero, as float32: no model answers that.
    """
    with np.errstate(over="ignore", under="ignore"):
        narrow = rows.astype(np.float32)
    if not bool(np.isfinite(narrow).all() and narrow.any(axis=1).all()):
        raise UnusableAnswer(f"{name} returned a vector of zeros, NaN or infinity; {ADVICE}.")
    return np.ascontiguousarray(scaled(rows))


class CheckedEmbedder(CheckedModel):
    """Embeds with any object with `name` and `async embed(texts, *, kind)`, in batches, in order;
    see `CheckedModel`.

    The settings say how large a batch is, and how many dimensions are wanted: longer vectors are
    cut and brought to length 1.
    """

    method, kind = "embed", "an embedder"

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Matrix:
        """Return one checked row per text; no texts make no call.

        Raises:
            ModelError: the object failed, took too long, or answered what cannot be used.
            ConfigurationError: its `embed` is not async, or its vectors are shorter than the
                dimensions asked for.
        """
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        parts: list[npt.NDArray[np.float64]] = []
        for batch in batched(texts, self.settings.batch_size):
            answer = await self.call([*batch], kind=kind)
            try:
                part = np.asarray(answer, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise UnusableAnswer(
                    f"{self.name} did not return a 2-D array of numbers; {ADVICE}."
                ) from error
            if part.ndim != 2 or len(part) != len(batch) or not part.shape[1]:
                raise UnusableAnswer(
                    f"{self.name} returned an array of shape {part.shape} for {len(batch)} texts; "
                    f"{ADVICE}."
                )
            parts.append(part)
        if len({part.shape[1] for part in parts}) > 1:
            raise UnusableAnswer(f"{self.name} returned vectors of different widths; {ADVICE}.")
        return self._fitted(np.concatenate(parts))

    def _fitted(self, rows: npt.NDArray[np.float64]) -> Matrix:
        """Return the rows in the wanted width: longer ones are cut and brought to length 1."""
        width = rows.shape[1]
        wanted = self.settings.dimensions or width
        if width < wanted:
            raise ConfigurationError(
                f"{self.name} makes vectors of {width} dimensions, {wanted} were asked for; "
                f"set dimensions to {width} or less, or leave it out."
            )
        whole = finite(rows, self.name)
        if width == wanted:
            return whole
        cut = whole[:, :wanted].astype(np.float64)
        return finite(cut / np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), TINY), self.name)

    async def embed_each(
        self, texts: Sequence[str], *, kind: Kind, works: bool = False
    ) -> list[Matrix | None]:
        """Return the vector of each text; None for one that is refused however short its parts are.

        A batch that is refused is embedded in two, and so is a text: its vector is the mean of its
        halves', weighted by length.

        Args:
            texts: in any number and of any length.
            kind: what they are.
            works: the embedder is known to accept some texts.

        Raises:
            ModelError: the embedder is away, answers what cannot be used, or refuses everything.
            ConfigurationError: as `embed`.
        """
        try:
            return list(await self.embed(texts, kind=kind))
        except (ModelUnavailable, UnusableAnswer):
            raise
        except ModelError:
            if not works:
                await self.embed([PROBE], kind=kind)  # refused too: the texts are not the cause
        if len(texts) > 1:
            middle = len(texts) // 2
            parts = (texts[:middle], texts[middle:])
            return [
                row for part in parts for row in await self.embed_each(part, kind=kind, works=True)
            ]
        [text] = texts
        if estimated_tokens(text) < MIN_HALVED_TOKENS:
            logger.warning("%s refuses a text of %d characters.", self.name, len(text))
            return [None]
        halves = _halves(text)
        return [self._pooled(halves, await self.embed_each(halves, kind=kind, works=True))]

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
        return finite(np.atleast_2d(mean if mean.any() else known[0][1]), self.name)[0]


def _halves(text: str) -> tuple[str, str]:
    """Return both halves of a text, parted at the last blank of the first if there is one near."""
    middle = len(text) // 2
    place = text.rfind(" ", max(1, middle - WORD_BREAK_CHARS), middle)
    return (text[:place], text[place:]) if place > 0 else (text[:middle], text[middle:])


def open_embedder(choice: Any, settings: MemorySettings) -> Embedder | None:
    """Return the embedder of a choice: None, a model name, kagent's configuration, or any embedder.

    No model is loaded or called. The name of a local model imports fastembed, and that of an
    uncommon provider LiteLLM: call this in a thread.

    Raises:
        ConfigurationError: the choice is of no known kind, its provider is unknown, has no
            embeddings, or lacks what it needs.
    """
    if choice is None or isinstance(choice, str | Mapping):
        choice = settings.updated({"embedding": choice}).embedding
    if isinstance(choice, EmbeddingConfig) and f"{choice.provider}/" in PREFIXES:
        choice = f"local/{choice.model}"
    if isinstance(choice, str) and choice.startswith(PREFIXES):
        return CheckedEmbedder(LocalEmbedder(choice), settings, ours=True)
    if choice and isinstance(choice, str | EmbeddingConfig):
        embedder = ProviderEmbedder(choice, settings.dimensions)
        check_provider(embedder.name)
        return CheckedEmbedder(embedder, settings, ours=True)
    if not choice or isinstance(choice, CheckedEmbedder):
        return choice or None
    return CheckedEmbedder(choice, settings)
