"""Off the record: runs and sessions that memory does not keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

MemoryMode: TypeAlias = Literal["on", "read", "off"]
MEMORY_KEY = "memory"  # in a run's custom_metadata and in a session's state


def mode_of(context: InvocationContext) -> MemoryMode:
    """Return what memory may do in a run: the stricter of its run config and its session's state."""
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
        if not _is_compaction(event) and (mode != "on" or _mode_in(event.custom_metadata) != "on")
    }
    if not hidden:
        return list(events)
    times = [event.timestamp for event in events if event.invocation_id in hidden]
    return [event for event in events if event.invocation_id not in hidden and not _covers_any(event, times)]


def _state_modes(events: Sequence[Event], state: Mapping[str, Any] | None) -> list[MemoryMode]:
    """Return the session's mode after each event; what stood before the first change is its opposite."""
    deltas = [event.actions.state_delta if event.actions else {} for event in events]
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


def _is_compaction(event: Event) -> bool:
    return bool(event.actions and event.actions.compaction)


def _covers_any(event: Event, times: Sequence[float]) -> bool:
    compaction = event.actions.compaction if event.actions else None
    if compaction is None:
        return False
    return any(compaction.start_timestamp <= at <= compaction.end_timestamp for at in times)


def _mode_in(values: Mapping[str, Any] | None) -> MemoryMode:
    value = values.get(MEMORY_KEY) if values else None
    if value == "off":
        return "off"
    return "read" if value == "read" else "on"
