"""Any embedder, called in batches within bounds; its answers checked, brought to their width and
put in one form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ...errors import ConfigurationError, UnusableAnswer
from ...records import scaled
from ...settings import MemorySettings
from ..calls import CheckedModel

Matrix: TypeAlias = npt.NDArray[np.float32]
ADVICE = (
    "check that it names an embedding model and that its server works, or choose another embedder"
)


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

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> Matrix:
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
