"""What an embedder answered is checked, brought to its width, and put in one form: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from ...errors import ConfigurationError, UnusableAnswer
from ...records import is_easy, scaled

Matrix: TypeAlias = npt.NDArray[np.float32]
ADVICE = "check that it names an embedding model and that its server works, or choose another embedder"


def batches(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    """The texts in their order, at most `size` at a time."""
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def empty() -> Matrix:
    """The answer to no texts."""
    return np.zeros((0, 0), dtype=np.float32)


def matrix(answer: Any, count: int, name: str) -> Matrix:
    """An embedder's answer as float32 (count, d): arrays, nested lists and other floats are accepted.

    Raises:
        UnusableAnswer: another number of rows, ragged rows, no numbers, NaN, infinity, or a row of zeros.
    """
    if _is_matrix(answer, count) and is_easy(answer):
        return np.array(answer, order="C")
    try:
        rows = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UnusableAnswer(f"{name} did not return a 2-D array of numbers; {ADVICE}.") from error
    if rows.ndim != 2 or rows.shape[0] != count or rows.shape[1] == 0:
        raise UnusableAnswer(f"{name} returned an array of shape {rows.shape} for {count} texts; {ADVICE}.")
    return finite(rows, name)


def _is_matrix(answer: Any, count: int) -> TypeGuard[Matrix]:
    shape = getattr(answer, "shape", ())
    return getattr(answer, "dtype", None) == np.float32 and len(shape) == 2 and shape[0] == count and shape[1] > 0


def finite(rows: npt.NDArray[np.float64], name: str) -> Matrix:
    """The rows as float32, of a size that half precision keeps too (`records.scaled`).

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


def joined(parts: Sequence[Matrix], name: str) -> Matrix:
    """The answers to several batches as one.

    Raises:
        UnusableAnswer: two batches came in different widths.
    """
    if len({part.shape[1] for part in parts}) > 1:
        raise UnusableAnswer(f"{name} returned vectors of different widths; {ADVICE}.")
    return np.concatenate(list(parts))


def fitted(rows: Matrix, dimensions: int | None, name: str) -> Matrix:
    """The rows in the wanted width: longer ones are cut and brought to length 1; None leaves them as they are.

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
        raise UnusableAnswer(f"{name} returned a vector that is zero in its first {dimensions} dimensions; {ADVICE}.")
    return finite(cut / lengths, name)
