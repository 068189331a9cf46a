"""Auto-save: when a session is saved by itself. The decision is pure; the hooks around it break no
run.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cachetools import LRUCache
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.sessions.session import Session

from ..errors import ConfigurationError
from ..memories.tool_answers import report
from .arguments import checked_whole
from .event_converter import MEMORY_TOOLS, UNSPOKEN_TOOLS, live_events, user_turns
from .service import KagentMemoryService
from .sessions import Key, PerService, mode_of, recorded, session_key

log = logging.getLogger("kagent_memory")
SAVE_SECONDS = 4.0
REMEMBERED = 10_000
Mark: TypeAlias = tuple[int, str]
"""A place in a session: behind so many of its events, the last of which has this id."""
NOTHING: Mark = (0, "")
# seconds between looks for a compaction after a run
COMPACTION_LOOKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class AutoSave:
    """Policy of when a session saves itself; any one condition is enough, once per crossing.

    Attributes:
        every_turns: user turns; None: never by turns.
        every_tool_calls: calls of tools other than memory's; None: never by calls.
        session_end: when the session ends: its live connection closes, or nobody spoke for
            `inactivity_minutes`.
        inactivity_minutes: of silence, after which a session has ended; the timer is kept in the
            queue, so that it survives a restart. None: no timer.
        enabled: False saves nothing, and keeps the rest of the policy for when it is True.
        compaction: when ADK has compacted the session's events: its summary is saved in place of
            what it covers, without a model.

    Raises:
        ConfigurationError: a number does not fit.
    """

    every_turns: int | None = 5
    every_tool_calls: int | None = None
    session_end: bool = True
    inactivity_minutes: float | None = 15
    compaction: bool = False
    enabled: bool = True

    def __post_init__(self) -> None:
        for name in ("every_turns", "every_tool_calls"):
            checked_whole(f"AutoSave({name}=…)", getattr(self, name), least=1)
        if self.inactivity_minutes is not None and self.inactivity_minutes <= 0:
            raise ConfigurationError(
                "AutoSave(inactivity_minutes=…) must be more than 0, or None for no timer."
            )

    @property
    def end_after_minutes(self) -> float | None:
        """The timer that every turn arms."""
        return self.inactivity_minutes if self.session_end else None


# -- the decision -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """Count the turns, tool calls and compactions of a session.

    Attributes:
        compacted_until: the latest end of a compaction, epoch seconds.
    """

    turns: int = 0
    tool_calls: int = 0
    compacted_until: float = 0.0

    @classmethod
    def of(cls, events: Sequence[Event]) -> Progress:
        """Return how far these events have come."""
        calls = [call.name for event in events for call in event.get_function_calls()]
        ends = [
            event.actions.compaction.end_timestamp for event in events if event.actions.compaction
        ]
        counted = sum(name not in MEMORY_TOOLS | UNSPOKEN_TOOLS for name in calls)
        return cls(user_turns(events), counted, max(ends, default=0.0))


def due(policy: AutoSave, before: Progress, now: Progress) -> bool:
    """Return True if a session's turns or tool calls crossed a threshold of the policy."""
    return _crossed(policy.every_turns, before.turns, now.turns) or _crossed(
        policy.every_tool_calls, before.tool_calls, now.tool_calls
    )


def _crossed(every: int | None, before: int, now: int) -> bool:
    return every is not None and now // every > before // every


def compacted(policy: AutoSave, before: Progress, now: Progress) -> bool:
    """Return True if ADK compacted the session and the policy asks for it."""
    return policy.compaction and now.compacted_until > before.compacted_until


def end_of(events: Sequence[Event]) -> Mark:
    """Return the mark at the end of these events."""
    return (len(events), events[-1].id) if events else NOTHING


def behind(events: Sequence[Event], mark: Mark) -> int:
    """Return the number of events before a mark; 0 where the session shows others, as a truncated
    one does.
    """
    count, event_id = mark
    return count if 0 < count <= len(events) and events[count - 1].id == event_id else 0


def unread(events: Sequence[Event], mark: Mark) -> Sequence[Event]:
    """Return the events behind a mark, with all of the invocation that it lies in.

    All events are returned where one behind the mark changes others: a rewind, or a compaction.
    """
    start = behind(events, mark)
    new = (event.actions for event in events[start:])
    if start == 0 or any(
        actions.rewind_before_invocation_id or actions.compaction for actions in new
    ):
        return events
    running = events[start - 1].invocation_id
    while start and events[start - 1].invocation_id == running:
        start -= 1
    return events[start:]


@dataclass(slots=True)
class Course:
    """Progress of one session as this process saw it.

    Hooks fire again when an invocation is resumed, and sessions may be loaded truncated: so counts
    are kept here, and what a session shows beyond them (turns of another process, or before a
    restart) counts as seen before. Only events behind the last mark are looked at.

    Attributes:
        mark: the end of what was looked at.
        saved, armed: the end of what was queued, at once and for the session's end.
    """

    seen: Progress = Progress()
    invocation_id: str = ""
    mark: Mark = NOTHING
    saved: Mark = NOTHING
    armed: Mark = NOTHING

    def step(self, invocation_id: str, events: Sequence[Event]) -> tuple[Progress, Progress]:
        """Return how far the session was when last looked at, and how far it is now."""
        start, before = behind(events, self.mark), self.seen
        new = shown = Progress.of(events[start:])
        if start == 0:
            own = [event for event in events if event.invocation_id == invocation_id]
            new = Progress.of(own) if invocation_id != self.invocation_id else Progress()
            turns, calls = (
                max(before.turns, shown.turns - new.turns),
                shown.tool_calls - new.tool_calls,
            )
            before = Progress(turns, max(before.tool_calls, calls), before.compacted_until)
        until = max(before.compacted_until, shown.compacted_until)
        self.seen = Progress(before.turns + new.turns, before.tool_calls + new.tool_calls, until)
        self.invocation_id, self.mark = invocation_id, end_of(events)
        return before, self.seen


class _Courses:
    """The courses of the last sessions, each for one policy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._courses = LRUCache[tuple[Key, AutoSave], Course](REMEMBERED)

    def of(self, session: Session, policy: AutoSave) -> Course:
        with self._lock:
            return self._courses.setdefault((session_key(session), policy), Course())


_courses = PerService(_Courses)


# -- the hooks ----------------------------------------------------------------------------------


async def save_if_due(context: InvocationContext, policy: AutoSave) -> None:
    """After an invocation: saves what is due and arms the session's timer. It raises nothing and
    takes no longer than some seconds; what was begun is finished in the background. A run off the
    record is not saved.
    """
    service = context.memory_service
    if service is None or not policy.enabled or mode_of(context) != "on":
        return
    try:
        work = _save(context, service, policy)
        if isinstance(service, KagentMemoryService):
            work = service.availability.guard(work, finish=True)
        await asyncio.wait_for(work, SAVE_SECONDS)
    except TimeoutError:
        log.warning(
            "auto-save: memory did not answer within %s s; it continues in the background",
            SAVE_SECONDS,
        )
    except Exception as error:
        report("auto-save", error)


async def _save(context: InvocationContext, service: BaseMemoryService, policy: AutoSave) -> None:
    session, course = context.session, _courses.of(service).of(context.session, policy)
    events = list(session.events)  # a copy: later turns append to the live list
    before, now = course.step(context.invocation_id, events)
    save = due(policy, before, now)
    if not isinstance(service, KagentMemoryService):
        if save or compacted(policy, before, now):
            shown = recorded(events, session.state)
            await service.add_session_to_memory(session.model_copy(update={"events": shown}))
        return
    ended = policy.session_end and context.live_request_queue is not None
    minutes = 0 if ended else policy.end_after_minutes
    if compacted(policy, before, now) and not save:
        await save_compacted(service, session, since=before.compacted_until)
    if save or minutes is not None:
        new = unread(events, course.saved if save else course.armed)
        await service.remember(
            session.model_copy(update={"events": list(new)}),
            llm=model_at_hand(context.agent),
            save=save,
            end_after_minutes=minutes,
            compaction=policy.compaction,
        )
        course.saved = end_of(events) if save else course.saved
        course.armed = end_of(events) if minutes is not None else course.armed
    if policy.compaction and context.events_compaction_config is not None:
        _awaited.of(service).start(service, session, since=now.compacted_until)


async def save_compacted(service: KagentMemoryService, session: Session, *, since: float) -> None:
    """Save what ADK compacted of a session behind `since`, and nothing else: that needs no
    model.
    """
    found = (event.actions.compaction for event in live_events(session.events))
    ranges = [
        (one.start_timestamp, one.end_timestamp)
        for one in found
        if one and one.end_timestamp > since
    ]

    def is_covered(event: Event) -> bool:
        own = event.actions.compaction
        return (
            own.end_timestamp > since
            if own
            else any(start <= event.timestamp <= end for start, end in ranges)
        )

    if ranges:
        covered = [event for event in recorded(session.events, session.state) if is_covered(event)]
        await service.remember(session.model_copy(update={"events": covered}), compaction=True)


class _Awaited:
    """Sessions that ADK may compact once the last hook of a run has returned."""

    def __init__(self) -> None:
        self._waiting: dict[Key, tuple[Session, float, asyncio.Task[None]]] = {}

    def start(self, service: KagentMemoryService, session: Session, *, since: float) -> None:
        """Look at a session for some time, and save its next compaction."""
        key = session_key(session)
        if key in self._waiting:
            self._waiting.pop(key)[-1].cancel()
        task = asyncio.create_task(
            self._look(service, session, since), name="kagent-memory-compaction"
        )
        self._waiting[key] = session, since, task

    async def settle(self, service: KagentMemoryService) -> None:
        """Save what was compacted by now, and wait no longer."""
        while self._waiting:
            session, since, task = self._waiting.popitem()[1]
            task.cancel()
            await _reported(save_compacted(service, session, since=since))

    async def _look(self, service: KagentMemoryService, session: Session, since: float) -> None:
        for seconds in COMPACTION_LOOKS:
            await asyncio.sleep(seconds)
            if Progress.of(session.events).compacted_until > since:
                break
        self._waiting.pop(session_key(session), None)
        await _reported(save_compacted(service, session, since=since))


async def _reported(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception as error:
        report("auto-save", error)


_awaited = PerService(_Awaited)


async def settle_compactions(service: KagentMemoryService) -> None:
    """Save what ADK compacted of the service's sessions since their last hooks."""
    await _awaited.of(service).settle(service)


def model_at_hand(agent: object) -> BaseLlm | None:
    """The model of an agent, else of the first agent below it that has one."""
    if isinstance(agent, LlmAgent):
        try:
            return agent.canonical_model
        except Exception as error:  # a name that ADK's registry cannot make
            report("auto-save's model", error)
            return None
    below = agent.sub_agents if isinstance(agent, BaseAgent) else []
    return next(filter(None, map(model_at_hand, below)), None)


class AutoSaveCallback:
    """An after-agent callback that saves sessions by a policy.

    On ADK 2.x the callback of a root agent is skipped when it transfers to another; `MemoryPlugin`
    is not.
    """

    def __init__(self, policy: AutoSave) -> None:
        self.policy = policy

    async def __call__(self, callback_context: CallbackContext) -> None:
        """Save what is due; it never raises."""
        await save_if_due(callback_context.get_invocation_context(), self.policy)


auto_save_session_to_memory_callback = AutoSaveCallback(AutoSave())
"""Saves the session every 5 user turns and at its end; it never raises."""
