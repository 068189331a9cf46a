"""Auto-save: when a session is saved by itself. The decision is pure; the hooks around it break no run."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from cachetools import LRUCache
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.base_llm import BaseLlm

from ..errors import ConfigurationError
from ..memories.tool_answers import report
from .event_converter import MEMORY_TOOLS, UNSPOKEN_TOOLS, live_events, user_turns
from .injected import Key, PerService, session_key
from .off_record import mode_of, recorded
from .service import KagentMemoryService
from .validation import checked_policy

log = logging.getLogger("kagent_memory")
SAVE_SECONDS = 4.0
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class AutoSave:
    """When a session is saved by itself; any of these will do, each once per crossing.

    Attributes:
        every_turns: user turns; None: never by turns.
        every_tool_calls: calls of tools other than memory's; None: never by calls.
        session_end: when the session ends: its live connection closes, or nobody spoke for `inactivity_minutes`.
        inactivity_minutes: of silence, after which a session has ended; the timer is kept in the queue, so that it
            survives a restart. None: no timer.
        enabled: False saves nothing, and keeps the rest of the policy for when it is True.
        compaction: when ADK has compacted the session's events; its summaries are used, a model gets only the rest.

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
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise ConfigurationError(f"AutoSave({name}=…) must be a whole number from 1 on, or None for never.")
        if not isinstance(self.enabled, bool):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
            raise ConfigurationError("AutoSave(enabled=…) must be True or False.")
        if self.inactivity_minutes is not None and self.inactivity_minutes <= 0:
            raise ConfigurationError("AutoSave(inactivity_minutes=…) must be more than 0, or None for no timer.")

    @classmethod
    def checked(cls, given: object) -> AutoSave | None:
        """A caller's `auto_save=`: a policy, or None for never.

        Raises:
            ConfigurationError: it is something else.
        """
        return checked_policy("auto_save", given, cls, "never")

    @property
    def end_after_minutes(self) -> float | None:
        """The timer that every turn arms."""
        return self.inactivity_minutes if self.session_end else None


# -- the decision -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a session has come.

    Attributes:
        compacted_until: the latest end of a compaction, epoch seconds.
    """

    turns: int = 0
    tool_calls: int = 0
    compacted_until: float = 0.0

    def __add__(self, other: Progress) -> Progress:
        until = max(self.compacted_until, other.compacted_until)
        return Progress(self.turns + other.turns, self.tool_calls + other.tool_calls, until)

    def at_least(self, other: Progress) -> Progress:
        """The further of both, count by count."""
        until = max(self.compacted_until, other.compacted_until)
        return Progress(max(self.turns, other.turns), max(self.tool_calls, other.tool_calls), until)


def progress(events: Iterable[Event]) -> Progress:
    """How far these events have come."""
    seen = list(events)
    calls = [call.name for event in seen for call in event.get_function_calls()]
    ends = [event.actions.compaction.end_timestamp for event in seen if event.actions and event.actions.compaction]
    return Progress(
        turns=user_turns(seen),
        tool_calls=sum(name not in MEMORY_TOOLS | UNSPOKEN_TOOLS for name in calls),
        compacted_until=max(ends, default=0.0),
    )


def due(policy: AutoSave, before: Progress, now: Progress) -> bool:
    """Whether a threshold of the policy was crossed between the two."""
    return (
        _crossed(policy.every_turns, before.turns, now.turns)
        or _crossed(policy.every_tool_calls, before.tool_calls, now.tool_calls)
        or (policy.compaction and now.compacted_until > before.compacted_until)
    )


def _crossed(every: int | None, before: int, now: int) -> bool:
    return every is not None and now // every > before // every


@dataclass(slots=True)
class _Course:
    """What this process saw of a session: `settled` through earlier invocations, `share` of the current one."""

    settled: Progress = Progress()
    invocation_id: str = ""
    share: Progress = Progress()


@dataclass
class Courses:
    """Tells how far sessions came since they were last looked at.

    Hooks fire again when an invocation is resumed, and sessions may be loaded truncated: so counts are kept here, and
    what a session shows beyond them (turns of another process, or before a restart) counts as seen before.
    """

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _courses: LRUCache[tuple[Key, AutoSave], _Course] = field(default_factory=lambda: LRUCache(REMEMBERED))

    def step(
        self, session: Key, policy: AutoSave, invocation_id: str, events: Sequence[Event]
    ) -> tuple[Progress, Progress]:
        """How far the session was when last looked at, and how far it is now."""
        live = live_events(events)
        share = progress(event for event in live if event.invocation_id == invocation_id)
        rest = progress(event for event in live if event.invocation_id != invocation_id)
        counted = replace(rest, compacted_until=0.0)
        with self._lock:
            course = self._courses.setdefault((session, policy), _Course(settled=counted))
            if course.invocation_id != invocation_id:
                course.settled, course.share = course.settled + course.share, Progress()
                course.invocation_id = invocation_id
            course.settled = course.settled.at_least(counted)
            before = course.settled + course.share
            course.share = share + Progress(compacted_until=rest.compacted_until)
            return before, course.settled + course.share


_courses = PerService(Courses)


# -- the hooks ----------------------------------------------------------------------------------


async def save_if_due(context: InvocationContext, policy: AutoSave) -> None:
    """After an invocation: saves what is due and arms the session's timer. It raises nothing and takes no longer
    than some seconds; what was begun is finished in the background. A run off the record is not saved.
    """
    service = context.memory_service
    if service is None or not policy.enabled or mode_of(context) != "on":
        return
    try:
        await asyncio.wait_for(_save(context, service, policy), SAVE_SECONDS)
    except TimeoutError:
        log.warning("auto-save: memory did not answer within %s s; it continues in the background", SAVE_SECONDS)
    except Exception as error:
        report("auto-save", error)


async def _save(context: InvocationContext, service: BaseMemoryService, policy: AutoSave) -> None:
    session = context.session
    events = recorded(session.events, session.state)  # a copy: later turns append to the live list
    before, now = _courses.of(service).step(session_key(session), policy, context.invocation_id, events)
    save = due(policy, before, now)
    snapshot = session.model_copy(update={"events": events})
    if not isinstance(service, KagentMemoryService):
        if save:
            await service.add_session_to_memory(snapshot)
        return
    ended = policy.session_end and context.live_request_queue is not None
    minutes = 0 if ended else policy.end_after_minutes
    if save or minutes is not None:
        await service.remember(
            snapshot,
            llm=model_at_hand(context.agent),
            save=save,
            end_after_minutes=minutes,
            compaction=policy.compaction,
        )


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

    On ADK 2.x the callback of a root agent is skipped when it transfers to another; `MemoryPlugin` is not.
    """

    def __init__(self, policy: AutoSave) -> None:
        self.policy = policy

    async def __call__(self, callback_context: CallbackContext) -> None:
        """Saves what is due; it never raises."""
        await save_if_due(callback_context.get_invocation_context(), self.policy)


async def auto_save_session_to_memory_callback(callback_context: CallbackContext) -> None:
    """An after-agent callback that saves the session every 5 user turns and at its end; it never raises."""
    await save_if_due(callback_context.get_invocation_context(), AutoSave())
