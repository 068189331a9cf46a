"""Open the user's embedder and check its answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..concurrency import batched, run_in_thread
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
"""A refused text with fewer estimated tokens is not split: no embedder has so low a limit."""
ROW_WEIGHT = 10  # the size of a vector, in characters that take as long to read
TINY = 1e-30  # stands in for the length of a zero vector
WORD_BREAK_CHARS = 100  # the longest way from the middle of a text to where it is split


class Embedder(Protocol):
    """An object that turns texts into vectors.

    Attributes:
        name: identifies the model, in at most 2,600 bytes; vectors of different names never mix.
    """

    @property
    def name(self) -> str:
        """Return the name of the model."""
        ...

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> npt.NDArray[np.float32]:
        """Return one vector per text: float32 of shape (n, d)."""
        ...


EmbedderChoice: TypeAlias = str | EmbeddingConfig | Mapping[str, Any] | Embedder | None
"""What a user may pass as embedder: a model name, kagent's configuration, or an object with
`embed`.
"""


def finite(rows: npt.NDArray[np.float64], name: str) -> Matrix:
    """Return the rows as float32, scaled to fit half precision (`records.scaled`).

    Raises:
        UnusableAnswer: a row is zero or not finite.
    """
    with np.errstate(over="ignore", under="ignore"):
        narrow = rows.astype(np.float32)
    if not (np.isfinite(narrow).all() and narrow.any(axis=1).all()):
        raise UnusableAnswer(f"{name} returned a vector of zeros, NaN or infinity; {ADVICE}.")
    return np.ascontiguousarray(scaled(rows))


class CheckedEmbedder(CheckedModel):
    """Embed in batches with any object that has `name` and `async embed(texts, *, kind)`.

    The settings give the batch size and the number of dimensions; longer vectors are truncated and
    normalised. See `CheckedModel` for time-outs and errors.
    """

    method, kind = "embed", "an embedder"

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Matrix:
        """Return one checked vector per text; without texts call nothing.

        Raises:
            ModelError: the object failed, took too long or gave an unusable answer.
            ConfigurationError: its `embed` is not async, or its vectors have fewer dimensions than
                the settings ask for.
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
        return await run_in_thread(ROW_WEIGHT * len(texts), self._fit, parts)

    def _fit(self, parts: Sequence[npt.NDArray[np.float64]]) -> Matrix:
        """Join the parts, truncate vectors to the dimensions of the settings and normalise them."""
        rows = np.concatenate(parts)
        width = rows.shape[1]
        dimensions = self.settings.dimensions or width
        if width < dimensions:
            raise ConfigurationError(
                f"{self.name} makes vectors of {width} dimensions, {dimensions} were asked for; "
                f"set dimensions to {width} or less, or leave it out."
            )
        full = finite(rows, self.name)
        if width == dimensions:
            return full
        head = full[:, :dimensions].astype(np.float64)
        lengths = np.linalg.norm(head, axis=1, keepdims=True)
        return finite(head / np.maximum(lengths, TINY), self.name)

    async def embed_each(
        self, texts: Sequence[str], *, kind: Kind, works: bool = False
    ) -> list[Matrix | None]:
        """Return the vector of each text, or None for a text that is refused even in small parts.

        A refused batch is split in two. So is a refused text, whose vector is then the mean of the
        vectors of its halves, weighted by length.

        Args:
            texts: any number of texts of any length.
            kind: "document" or "query".
            works: True if the embedder is known to accept texts.

        Raises:
            ModelError: the embedder is unavailable, gives unusable answers or refuses everything.
            ConfigurationError: as for `embed`.
        """
        try:
            return list(await self.embed(texts, kind=kind))
        except (ModelUnavailable, UnusableAnswer):
            raise
        except ModelError:
            if not works:
                # if the probe is refused too, the texts are not the cause
                await self.embed([PROBE], kind=kind)
        if middle := len(texts) // 2:
            parts = texts[:middle], texts[middle:]
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
        """Return the mean of the parts' vectors weighted by length; None if no part has one."""
        vectors = [
            (len(part), row.astype(np.float64))
            for part, row in zip(parts, rows, strict=True)
            if row is not None
        ]
        if not vectors:
            return None
        mean = np.sum([length * row / np.linalg.norm(row) for length, row in vectors], axis=0)
        return finite(np.atleast_2d(mean if mean.any() else vectors[0][1]), self.name)[0]


def _halves(text: str) -> tuple[str, str]:
    """Split a text near its middle, at a blank if there is one."""
    middle = len(text) // 2
    end = text.rfind(" ", max(1, middle - WORD_BREAK_CHARS), middle)
    if end < 1:
        end = middle
    return text[:end], text[end:]


def open_embedder(choice: Any, settings: MemorySettings) -> CheckedEmbedder | None:
    """Return the embedder for a model name, kagent's configuration or an embedder itself; for None,
    the embedder of the settings.

    It loads and calls no model, but may import fastembed (for a local model) or LiteLLM (for an
    uncommon provider), so call it in a thread.

    Raises:
        ConfigurationError: the choice is none of these, or its provider is unknown, has no
            embeddings or lacks a required value.
    """
    if choice is None:
        choice = settings.embedding
    if isinstance(choice, str | Mapping):
        choice = settings.updated({"embedding": choice}).embedding
    if not choice or isinstance(choice, CheckedEmbedder):
        return choice or None
    if isinstance(choice, EmbeddingConfig) and f"{choice.provider}/" in PREFIXES:
        choice = f"local/{choice.model}"
    if not isinstance(choice, str | EmbeddingConfig):
        return CheckedEmbedder(choice, settings)
    if isinstance(choice, str) and choice.startswith(PREFIXES):
        embedder = LocalEmbedder(choice)
    else:
        embedder = ProviderEmbedder(choice, settings.dimensions)
        check_provider(embedder.name)
    return CheckedEmbedder(embedder, settings, ours=True)
