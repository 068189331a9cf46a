"""Memories that were opened, in process or on a server, and are to be closed."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Any, Self

from ..records import Mode
from ..settings import MemorySettings
from .api import MemoryApi
from .arguments import checked_arguments


class OpenedMemories(MemoryApi):
    """The verbs of memories that were opened, here or on a server, and are to be closed."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in MemoryApi.__abstractmethods__:
            owner = next(base for base in cls.__mro__ if name in vars(base))
            if owner is cls or not issubclass(owner, OpenedMemories):
                setattr(cls, name, checked_arguments(getattr(MemoryApi, name), getattr(cls, name)))

    @property
    @abstractmethod
    def settings(self) -> MemorySettings:
        """The settings in force."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The URI without password and query."""

    @property
    @abstractmethod
    def mode(self) -> Mode:
        """What reads will use when all is well."""

    @abstractmethod
    async def close(self) -> None:
        """Lets queued work end for some seconds, then stops; what is left stays queued. Closing twice is harmless."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
