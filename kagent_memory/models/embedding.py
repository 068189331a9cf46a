"""Embedders: whatever the user chose becomes one whose answers are checked."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..errors import ConfigurationError, ModelError, ModelUnavailable, UnusableAnswer
from ..language.tokenizer import estimated_tokens
from ..records import scaled
from ..settings import MemorySettings
from .calls import MAX_RETRIES, CheckedModel, check_provider
from .onnx import PREFIXES, LocalEmbedder
from .provider_embedder import EmbeddingConfig, ProviderEmbedder

__all__ = ["CheckedEmbedder", "Embedder", "EmbedderChoice", "EmbeddingConfig", "open_embedder"]

logger = logging.getLogger(__name__)

Kind: TypeAlias = Literal["document", "query"]
Matrix: TypeAlias = npt.NDArray[np.float32]
ADVICE = (
    "check that it names an embedding model and that its server works, or choose another embedder"
)
PROBE = "kagent_memory: the quick brown fox remembers."
MIN_HALVED_TOKENS = 64
"""A text of fewer estimated tokens is too long for no embedder: its refusal is final."""
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


def batches(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return the texts in their order, at most `size` at a time."""
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def matrix(answer: Any, count: int, name: str) -> Matrix:
    """Return an embedder's answer as float32 (count, d): arrays, nested lists and other floats are
    accepted.

    Raises:
        UnusableAnswer: another number of rows, ragged rows, no numbers, NaN, infinity, or a row of
            zeros.
    """
    try:
        rows = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UnusableAnswer(f"{name} did not return a 2-D array of numbers; {ADVICE}.") from error
    if rows.ndim != 2 or rows.shape[0] != count or rows.shape[1] == 0:
        raise UnusableAnswer(
            f"{name} returned an array of shape {rows.shape} for {count} texts; {ADVICE}."
        )
    return finite(rows, name)


def finite(rows: npt.NDArray[np.float64], name: str) -> Matrix:
    """Return the rows as float32, of a size that half precision keeps too (`records.scaled`).

    Raises:
        UnusableAnswer: a row is not finite, or is zero, as float32: no model answers that.
    """
    with np.errstate(over="ignore", under="ignore"):
        narrow = rows.astype(np.float32)
    if not bool(np.isfinite(narrow).all()):
        raise UnusableAnswer(f"{name} returned a vector with NaN or infinity; {ADVICE}.")
    if not bool(narrow.any(axis=1).all()):
        raise UnusableAnswer(f"{name} returned a vector of zeros; {ADVICE}.")
    return np.ascontiguousarray(scaled(rows))


def fitted(rows: Matrix, dimensions: int | None, name: str) -> Matrix:
    """Return the rows in the wanted width: longer ones are cut and brought to length 1; None leaves
    them as they are.

    Raises:
        ConfigurationError: they are shorter than wanted.
        UnusableAnswer: what is left after the cut is zero.
    """
    width = rows.shape[1]
    if dimensions is None or width == dimensions:
        return rows
    if width < dimensions:
        raise ConfigurationError(
            f"{name} makes vectors of {width} dimensions, {dimensions} were asked for; "
            f"set dimensions to {width} or less, or leave it out."
        )
    cut = rows[:, :dimensions].astype(np.float64)
    lengths = np.linalg.norm(cut, axis=1, keepdims=True)
    if not bool(lengths.all()):
        raise UnusableAnswer(
            f"{name} returned a vector that is zero in its first {dimensions} dimensions; {ADVICE}."
        )
    return finite(cut / lengths, name)


class CheckedEmbedder(CheckedModel):
    """Embeds with any object with `name` and `async embed(texts, *, kind)`, in batches, in order.

    Args:
        inner: see `CheckedModel`.
        settings: the batch size, the dimensions and the time-out of one attempt. Longer vectors are
            cut and brought to length 1.
        retries, ours: see `CheckedModel`.
    """

    method, kind = "embed", "an embedder"

    def __init__(
        self, inner: Any, settings: MemorySettings, *, retries: int = 0, ours: bool = False
    ) -> None:
        super().__init__(
            inner, timeout_seconds=settings.model_timeout_seconds, retries=retries, ours=ours
        )
        self._dimensions = settings.dimensions
        self._batch_size = settings.batch_size

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Matrix:
        """Return one checked row per text; no texts make no call.

        Raises:
            ModelError: the object failed, took too long, or answered what cannot be used.
            ConfigurationError: its `embed` is not async, or its vectors are shorter than the
                dimensions asked for.
        """
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        parts = [
            matrix(await self.call(list(batch), kind=kind), len(batch), self.name)
            for batch in batches(texts, self._batch_size)
        ]
        if len({part.shape[1] for part in parts}) > 1:
            raise UnusableAnswer(f"{self.name} returned vectors of different widths; {ADVICE}.")
        return fitted(np.concatenate(parts), self._dimensions, self.name)

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
    """Return both halves of a text, parted at white space where there is some near its middle."""
    middle = len(text) // 2
    near = range(max(1, middle - WORD_BREAK_CHARS), min(middle + WORD_BREAK_CHARS, len(text) - 1))
    spaces = [place for place in near if text[place].isspace()]
    place = min(spaces, key=lambda place: abs(place - middle), default=middle)
    return text[:place], text[place:]


def open_embedder(choice: Any, settings: MemorySettings) -> Embedder | None:
    """Return the embedder of a choice: None, a model name, kagent's configuration, or any embedder.

    No model is loaded or called. The name of an uncommon provider imports LiteLLM: call this in a
    thread.

    Raises:
        ConfigurationError: the choice is of no known kind, its provider is unknown, has no
            embeddings, or lacks what it needs.
    """
    if choice is None or choice == "" or isinstance(choice, CheckedEmbedder):
        return choice or None
    if isinstance(choice, str) and choice.lstrip().startswith("{"):
        try:
            choice = json.loads(choice)
        except ValueError as error:
            raise ConfigurationError(
                "The embedding configuration looks like JSON but is not valid."
            ) from error
    if isinstance(choice, Mapping):
        choice = EmbeddingConfig.parsed(cast("Mapping[str, Any]", choice))
    if isinstance(choice, EmbeddingConfig) and f"{choice.provider}/" in PREFIXES:
        choice = f"local/{choice.model}"
    if isinstance(choice, str) and choice.startswith(PREFIXES):
        return CheckedEmbedder(LocalEmbedder(choice), settings, ours=True)
    if isinstance(choice, (str, EmbeddingConfig)):
        seconds = settings.model_timeout_seconds
        embedder = ProviderEmbedder(choice, dimensions=settings.dimensions, timeout_seconds=seconds)
        check_provider(embedder.name)
        return CheckedEmbedder(embedder, settings, retries=MAX_RETRIES, ours=True)
    return CheckedEmbedder(choice, settings)
