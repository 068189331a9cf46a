"""What prefetch put before the model: it leaves no event, yet must never be learnt again."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from cachetools import LRUCache
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.session import Session

from ..records import current_tenant

MAX_SESSIONS = 10_000
MAX_TEXTS = 200
Key = tuple[str | None, str, str, str]
State = TypeVar("State")


def session_key(session: Session) -> Key:
    """Which session of which tenant this is, whatever object stands for it."""
    return current_tenant(), session.app_name, session.user_id, session.id


class PerService(Generic[State]):
    """What this process keeps beside each memory service, as long as there is that service.

    Args:
        make: makes it when it is first asked for.
    """

    def __init__(self, make: Callable[[], State]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._states: weakref.WeakKeyDictionary[BaseMemoryService, State] = weakref.WeakKeyDictionary()

    def of(self, service: BaseMemoryService) -> State:
        """That of this service."""
        with self._lock:
            if service not in self._states:
                self._states[service] = self._make()
            return self._states[service]


class Injected:
    """The texts put before a model in each of the last sessions of this process, newest last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts = LRUCache[Key, tuple[str, ...]](MAX_SESSIONS)

    def add(self, session: Session, texts: Iterable[str]) -> None:
        """Notes texts that were put before a model in this session."""
        key = session_key(session)
        with self._lock:
            joined = dict.fromkeys([*self._texts.get(key, ()), *texts])
            self._texts[key] = tuple(joined)[-MAX_TEXTS:]

    def of(self, session: Session) -> tuple[str, ...]:
        """What was put before a model in this session."""
        with self._lock:
            return self._texts.get(session_key(session), ())
