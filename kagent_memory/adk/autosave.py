"""Auto-save: decide when a session is saved, and do so in hooks that never break a run."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Annotated

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.sessions.session import Session
from pydantic import Field

from ..memories.tool_answers import report
from .arguments import Positive, check_fields
from .converter import MEMORY_TOOLS, UNSPOKEN_TOOLS, is_user_turn, live_events
from .service import KagentMemoryService
from .sessions import mode_of, reach_back, recordable, since

log = logging.getLogger("kagent_memory")
SAVE_SECONDS = 4.0
Count = Annotated[int, Field(ge=1)] | None
COMPACTION_CHECK_SECONDS = (0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 32)  # between checks, after a run


@dataclass(frozen=True, slots=True)
class AutoSave:
    """The policy of auto-save; each condition alone suffices.

    Attributes:
        every_turns: save after this many user turns; None: never by turns.
        every_tool_calls: save after this many calls of tools other than memory's; None: never by
            calls.
        session_end: save when the session ends: its live connection closes, or nobody speaks for
            `inactivity_minutes`.
        inactivity_minutes: minutes of silence that end a session; the timer is stored in the queue,
            so it survives a restart. None: no timer.
        enabled: False saves nothing and keeps the rest of the policy.
        compaction: save ADK's summary when it compacts the session, in place of the events that it
            covers and without a model.

    Raises:
        ConfigurationError: a field is invalid.
    """

    every_turns: Count = 5
    every_tool_calls: Count = None
    session_end: bool = True
    inactivity_minutes: Positive | None = 15
    compaction: bool = False
    enabled: bool = True
    __post_init__ = check_fields


# -- the decision -------------------------------------------------------------------------------


class Progress:
    """The progress of one policy through one session in this process.

    Hooks fire again when an invocation is resumed, and sessions may be loaded truncated, so the
    turns and calls since the last hook are added up here. The events that a session has at first
    count as saved.

    Attributes:
        counts: its turns and calls so far.
        seen_id: the id of the last event when a hook fired last.
        saved_id: the id of the last saved event.
        armed_id: the id of the last event that waits for the session's end.
        compacted_until: the end of the last compaction saved without a model, in epoch seconds.
    """

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.seen_id = self.saved_id = self.armed_id = ""
        self.compacted_until = 0.0

    def advance(self, policy: AutoSave, invocation_id: str, events: list[Event]) -> bool:
        """Count the turns and calls of an invocation; return True if the session reached a
        threshold of the policy.
        """
        previous, unseen = self.counts, since(self.seen_id, events)
        if len(unseen) == len(events):  # the first hook here, or the session was truncated
            unseen = [event for event in events if event.invocation_id == invocation_id]
            if not self.seen_id:
                previous = _count(
                    [event for event in events if event.invocation_id != invocation_id]
                )
        self.counts = previous + _count(unseen)
        self.seen_id = events[-1].id if events else ""
        thresholds = ("turns", policy.every_turns), ("calls", policy.every_tool_calls)
        return any(
            threshold and self.counts[name] // threshold > previous[name] // threshold
            for name, threshold in thresholds
        )


def _count(events: Sequence[Event]) -> Counter[str]:
    """Count the user's turns and the calls of tools other than memory's."""
    turns = {event.invocation_id for event in events if is_user_turn(event)}
    calls = [
        call
        for event in events
        for call in event.get_function_calls()
        if call.name not in MEMORY_TOOLS | UNSPOKEN_TOOLS
    ]
    return Counter(turns=len(turns), calls=len(calls))


# -- the hooks ----------------------------------------------------------------------------------


async def save_if_due(context: InvocationContext, policy: AutoSave) -> None:
    """Save what is due after an invocation, and arm the session's timer.

    It never raises and returns within `SAVE_SECONDS`; work that has begun goes on in the
    background. A run off the record is not saved.
    """
    service = context.memory_service
    if not (
        isinstance(service, KagentMemoryService) and policy.enabled and mode_of(context) == "on"
    ):
        return
    try:
        work = service.availability.guard(_save(context, service, policy), finish=True)
        await asyncio.wait_for(work, SAVE_SECONDS)
    except TimeoutError:
        log.warning(
            "auto-save: memory did not answer within %s s; it continues in the background",
            SAVE_SECONDS,
        )
    except Exception as error:
        report("auto-save", error)


async def _save(context: InvocationContext, service: KagentMemoryService, policy: AutoSave) -> None:
    session = context.session
    progress = service.state(session).progress.setdefault(policy, Progress())
    events = list(session.events)  # a copy: later turns append to the live list
    due = progress.advance(policy, context.invocation_id, events)
    minutes = policy.inactivity_minutes if context.live_request_queue is None else 0
    if not policy.session_end:
        minutes = None
    if policy.compaction and not due:
        await _save_compacted(service, session, progress)
    if due or minutes is not None:
        new = since(progress.saved_id if due else progress.armed_id, events)
        await service.remember(
            session.model_copy(update={"events": events if reach_back(new) else new}),
            llm=model_of(context.agent),
            save=due,
            end_after_minutes=minutes,
            compaction=policy.compaction,
        )
    if due:
        progress.saved_id = progress.seen_id
    if minutes is not None:
        progress.armed_id = progress.seen_id
    if policy.compaction and context.events_compaction_config is not None:
        _await_compaction(service, session, progress, len(events))


async def _save_compacted(
    service: KagentMemoryService, session: Session, progress: Progress
) -> None:
    """Save only the compactions of a session, which needs no model."""
    events = recordable(session.events, session.state)
    compactions = [event.actions.compaction for event in live_events(events)]
    ranges = [(each.start_timestamp, each.end_timestamp) for each in filter(None, compactions)]
    until = max((end for _, end in ranges), default=0.0)
    if until > progress.compacted_until:
        covered = [
            event
            for event in events
            if event.actions.compaction
            or any(start <= event.timestamp <= end for start, end in ranges)
        ]
        await service.remember(session.model_copy(update={"events": covered}), compaction=True)
        progress.compacted_until = until


def _await_compaction(
    service: KagentMemoryService, session: Session, progress: Progress, event_count: int
) -> None:
    """Save the compaction that ADK makes after the last hook of a run.

    Args:
        service: the run's service, which checks at once when it is drained or closed.
        session: the live session, to which ADK adds the compaction.
        progress: the progress of the session.
        event_count: the number of events that the hook saw.
    """
    context = copy_context()  # the run's, with its tenant

    async def check() -> bool:
        if not any(event.actions.compaction for event in session.events[event_count:]):
            return False
        try:
            work = _save_compacted(service, session, progress)
            await service.availability.guard(work, finish=True)
        except Exception as error:
            report("auto-save", error)
            return False
        return True

    async def poll() -> None:
        try:
            for seconds in COMPACTION_CHECK_SECONDS:
                await asyncio.sleep(seconds)
                if await check():
                    return
        except asyncio.CancelledError:  # the loop of the run ends
            await check()
            raise

    polling = asyncio.create_task(poll(), name="kagent-memory-compaction")
    service.compaction_checks[polling] = lambda: asyncio.create_task(
        check(), context=context.copy()
    )
    polling.add_done_callback(service.compaction_checks.pop)


def model_of(agent: object) -> BaseLlm | None:
    """Return the model of an agent, or of the first agent below it that has one."""
    if isinstance(agent, LlmAgent):
        try:
            return agent.canonical_model
        except Exception as error:  # a name that ADK's registry cannot make
            report("auto-save's model", error)
            return None
    children = agent.sub_agents if isinstance(agent, BaseAgent) else []
    return next(filter(None, map(model_of, children)), None)


@dataclass(frozen=True, slots=True)
class AutoSaveCallback:
    """An after-agent callback that saves sessions by a policy.

    ADK 2.x skips the callback of a root agent that transfers to another; it does not skip
    `MemoryPlugin`.
    """

    policy: AutoSave

    async def __call__(self, callback_context: CallbackContext) -> None:
        """Save what is due; never raise."""
        await save_if_due(callback_context.get_invocation_context(), self.policy)


auto_save_session_to_memory_callback = AutoSaveCallback(AutoSave())
"""Save the session every 5 user turns and at its end; never raise."""
