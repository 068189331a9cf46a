"""Stand-ins for tests: an embedder that hashes words, an LLM that answers from a script, a clock
that is moved by hand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from ..checks import checked_time, faults
from ..errors import ModelError
from ..language.tokenizer import normalised
from ..models.llm import Answer

Scripted: TypeAlias = BaseModel | Mapping[str, Any] | str | Exception

_WORD = re.compile(r"\w+")
_PART_WEIGHT = 0.3


class HashEmbedder:
    """An embedder that hashes the words of a text and their trigrams.

    The same text always gives the same unit vector, for both kinds, and texts that share words or
    parts of words are near each other.

    Attributes:
        name: the model name it uses.
        calls: the (texts, kind) of every call.
    """

    def __init__(self, dimensions: int = 64, name: str = "hash") -> None:
        self.dimensions = dimensions
        self.name = name
        self.calls: list[tuple[tuple[str, ...], str]] = []

    async def embed(
        self, texts: Sequence[str], *, kind: Literal["document", "query"]
    ) -> npt.NDArray[np.float32]:
        """Return one unit vector per text: float32 of shape (n, dimensions)."""
        self.calls.append((tuple(texts), kind))
        rows = [self._vector(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    def _vector(self, text: str) -> npt.NDArray[np.float32]:
        vector = np.zeros(self.dimensions, dtype=np.float64)
        for feature, weight in _features(text):
            digest = hashlib.blake2b(feature.encode(), digest_size=9).digest()
            vector[int.from_bytes(digest[:8], "big") % self.dimensions] += (
                weight if digest[8] & 1 else -weight
            )
        if not vector.any():
            vector[0] = 1.0
        return (vector / np.linalg.norm(vector)).astype(np.float32)


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(normalised(text)):
        yield word, 1.0
        padded = f"<{word}>"
        for start in range(len(padded) - 2):
            yield "#" + padded[start : start + 3], _PART_WEIGHT


class ScriptedLlm:
    """A language model that answers from a script and records its prompts.

    Args:
        answers: a function of the prompt, which makes answers independent of the order of calls, or
            a list of answers. An answer is an object of the schema, a mapping or JSON text that
            fits it, or an exception to raise.
        name: the model name it uses.

    Attributes:
        prompts: all prompts in order.
    """

    def __init__(
        self, answers: Callable[[str], Scripted] | Sequence[Scripted], name: str = "scripted"
    ) -> None:
        self.name = name
        self.prompts: list[str] = []
        self.answers = answers

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the script's answer to the prompt.

        Raises:
            ModelError: the script has no more answers, or its answer does not fit the schema.
        """
        self.prompts.append(prompt)
        answer = self._next(prompt)
        if isinstance(answer, Exception):
            raise answer
        try:
            if isinstance(answer, str):
                return schema.model_validate_json(answer)
            return schema.model_validate(
                answer.model_dump() if isinstance(answer, BaseModel) else answer
            )
        except ValidationError as error:
            wrong = "; ".join(map(": ".join, faults(error)))
            raise ModelError(
                f"The script's answer does not fit {schema.__name__} ({wrong})."
            ) from error

    def _next(self, prompt: str) -> Scripted:
        if callable(self.answers):
            return self.answers(prompt)
        if len(self.prompts) > len(self.answers):
            raise ModelError(f"The script has {len(self.answers)} answers and was asked once more.")
        return self.answers[len(self.prompts) - 1]


class FrozenClock:
    """A clock for `clock=` that stands still until a test moves it.

    Expiry, retries and inactivity timers follow it.

    Args:
        now: the start time, with a time zone.

    Attributes:
        now: the current time.

    Raises:
        InvalidInput: the start time has no time zone.
    """

    def __init__(self, now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self.now = checked_time(now)

    def __call__(self) -> datetime:
        """Return the current time in aware UTC."""
        return self.now

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> datetime:
        """Move the clock forward and return the new time."""
        self.now += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self.now
