"""Sessions: which of their events memory may record, and their state in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

if TYPE_CHECKING:
    from .autosave import AutoSave, Progress
    from .prefetch import Prefetch

MemoryMode: TypeAlias = Literal["on", "read", "off"]
MAX_RECALLED = 200  # texts, the last ones
MEMORY_KEY = "memory"  # in a run's custom_metadata and in a session's state


def mode_of(context: InvocationContext) -> MemoryMode:
    """Return what memory may do in a run: the stricter of its run config and its session's
    state.
    """
    config = context.run_config
    modes = {_mode_in(config and config.custom_metadata), _mode_in(context.session.state)}
    return "off" if "off" in modes else "read" if "read" in modes else "on"


def recordable(events: Sequence[Event], state: Mapping[str, Any]) -> list[Event]:
    """Return the events that may be saved.

    An invocation with any event off the record is left out as a whole, and so is a compaction that
    covers one, since its summary repeats it.

    Args:
        events: events of one session, oldest first; ADK notes on each the metadata of its run.
        state: the current state of the session.
    """
    changes = [delta for event in events if MEMORY_KEY in (delta := event.actions.state_delta)]
    mode = _mode_in(state)
    if changes:  # before the first change the mode was the opposite
        mode = "off" if _mode_in(changes[0]) == "on" else "on"
    hidden = set[str]()
    for event in events:
        if MEMORY_KEY in event.actions.state_delta:
            mode = _mode_in(event.actions.state_delta)
        if not event.actions.compaction and {mode, _mode_in(event.custom_metadata)} != {"on"}:
            hidden.add(event.invocation_id)
    times = [event.timestamp for event in events if event.invocation_id in hidden]
    return [
        event
        for event in events
        if event.invocation_id not in hidden
        and not (
            (compaction := event.actions.compaction)
            and any(compaction.start_timestamp <= at <= compaction.end_timestamp for at in times)
        )
    ]


def since(event_id: str, events: Sequence[Event]) -> Sequence[Event]:
    """Return the events after the one with this id, from the end; all if there is none."""
    return [*takewhile(lambda event: event.id != event_id, reversed(events))][::-1]


def reach_back(events: Iterable[Event]) -> bool:
    """Return True if one of these events rewinds or compacts earlier ones."""
    return any(
        event.actions.rewind_before_invocation_id or event.actions.compaction for event in events
    )


def _mode_in(values: Mapping[str, Any] | None) -> MemoryMode:
    value = values.get(MEMORY_KEY) if values else None
    return value if value in ("off", "read") else "on"


class SessionState:
    """The state of one session in this process.

    Attributes:
        converted: the ids of events that became messages.
        mark: the ids of the first events, which need no second look in a copy of the session that
            begins with them: each is ingested or holds nothing to remember, and the last is
            ingested. A server's sessions have no mark.
        recalled: the last texts that memory put before the model.
        progress: for each policy of auto-save, its progress through the session.
        prefetched: for each policy of prefetch, the last invocation that searched and the block
            that it put before the model.
    """

    def __init__(self) -> None:
        self.converted = set[str]()
        self.mark: tuple[str, ...] = ()
        self.recalled: tuple[str, ...] = ()
        self.progress: dict[AutoSave, Progress] = {}
        self.prefetched: dict[Prefetch, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def add_recalled(self, texts: Iterable[str]) -> None:
        """Add texts that were put before the model; safe in any thread."""
        with self._lock:
            self.recalled = tuple(dict.fromkeys([*self.recalled, *texts]))[-MAX_RECALLED:]
