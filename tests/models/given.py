"""An object of a user that serves as any kind of model."""

from __future__ import annotations

from typing import Any


class Given:
    """Answers this, or raises it, whatever is asked."""

    name = "given"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def embed(self, *_: Any, **__: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    complete = rerank = embed
