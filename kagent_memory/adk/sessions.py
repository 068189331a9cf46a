"""Sessions: whether memory keeps them, and what this process keeps beside them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from cachetools import LRUCache
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.session import Session

from ..records import current_tenant

MemoryMode: TypeAlias = Literal["on", "read", "off"]
MEMORY_KEY = "memory"  # in a run's custom_metadata and in a session's state


def mode_of(context: InvocationContext) -> MemoryMode:
    """Return what memory may do in a run: the stricter of its run config and its session's
    state.
    """
    config = context.run_config
    modes = {_mode_in(config.custom_metadata if config else None), _mode_in(context.session.state)}
    return "off" if "off" in modes else "read" if "read" in modes else "on"


def recorded(events: Sequence[Event], state: Mapping[str, Any] | None = None) -> list[Event]:
    """Return the events that may be saved.

    An invocation is left out as a whole when any of its events is off the record, and so is a
    compaction that covers one: its summary repeats it.

    Args:
        events: of one session, oldest first; ADK notes on each how its run was marked.
        state: the session's state as it is now.
    """
    modes = _state_modes(events, state)
    hidden = {
        event.invocation_id
        for event, mode in zip(events, modes, strict=True)
        if not event.actions.compaction
        and (mode != "on" or _mode_in(event.custom_metadata) != "on")
    }
    if not hidden:
        return list(events)
    times = [event.timestamp for event in events if event.invocation_id in hidden]
    return [
        event
        for event in events
        if event.invocation_id not in hidden and not _covers_any(event, times)
    ]


def _state_modes(events: Sequence[Event], state: Mapping[str, Any] | None) -> list[MemoryMode]:
    """Return the session's mode after each event; what stood before the first change is its
    opposite.
    """
    deltas = [event.actions.state_delta for event in events]
    first = next((delta for delta in deltas if MEMORY_KEY in delta), None)
    mode: MemoryMode = _mode_in(state)
    if first is not None:
        mode = "off" if _mode_in(first) == "on" else "on"
    modes: list[MemoryMode] = []
    for delta in deltas:
        if MEMORY_KEY in delta:
            mode = _mode_in(delta)
        modes.append(mode)
    return modes


def _covers_any(event: Event, times: Sequence[float]) -> bool:
    compaction = event.actions.compaction
    return bool(compaction) and any(
        compaction.start_timestamp <= at <= compaction.end_timestamp for at in times
    )


def _mode_in(values: Mapping[str, Any] | None) -> MemoryMode:
    value = values.get(MEMORY_KEY) if values else None
    if value == "off":
        return "off"
    return "read" if value == "read" else "on"


MAX_SESSIONS = 10_000
MAX_TEXTS = 200
Key = tuple[str | None, str, str, str]
State = TypeVar("State")


def session_key(session: Session) -> Key:
    """Return a key of the session and its tenant, the same for every object that stands for it."""
    return current_tenant(), session.app_name, session.user_id, session.id


class PerService(Generic[State]):
    """State of this process for each memory service, dropped with the service.

    Args:
        make: makes it when it is first asked for.
    """

    def __init__(self, make: Callable[[], State]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._states: weakref.WeakKeyDictionary[BaseMemoryService, State] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, service: BaseMemoryService) -> State:
        """Return the state of this service."""
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
        """Note texts that were put before a model in this session."""
        key = session_key(session)
        with self._lock:
            joined = dict.fromkeys([*self._texts.get(key, ()), *texts])
            self._texts[key] = tuple(joined)[-MAX_TEXTS:]

    def of(self, session: Session) -> tuple[str, ...]:
        """Return the texts that were put before a model in this session."""
        with self._lock:
            return self._texts.get(session_key(session), ())
