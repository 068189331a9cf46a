"""Reach an agent's memories from its context, and ask a person about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.adk.agents.context import Context

from ..errors import InvalidInput
from ..memories.tool_answers import affordable
from ..models.prompts.fence import Entry, memory_line, of_hit
from ..records import Scope
from .converter import CONFIRMATION
from .service import KagentMemoryService

if TYPE_CHECKING:
    from ..memories import Memories

PENDING = {
    "status": "confirmation required",
    "message": "Nothing was changed yet: the user has been asked.",
}
DECLINED = {"status": "declined", "message": "Nothing was changed: the user did not agree."}


def service_of(
    context: Context, explicit: KagentMemoryService | None = None
) -> KagentMemoryService | None:
    """Return the given service, or else the run's; None if that is not ours.

    AgentTool gives its runs a temporary service of ADK's own.
    """
    service = explicit or context.get_invocation_context().memory_service
    return service if isinstance(service, KagentMemoryService) else None


@dataclass(frozen=True, slots=True)
class Run:
    """A run of an agent with its memory."""

    service: KagentMemoryService
    context: Context

    @property
    def memories(self) -> Memories:
        """Return the verbs."""
        return self.service.memories

    @property
    def scope(self) -> Scope:
        """Return the scope that the run writes to."""
        return self.service.scope(self.context.session.app_name, self.context.session.user_id)

    async def find(self, query: str, *, budget_tokens: int, **options: Any) -> list[Entry]:
        """Return the memories that answer a query, as entries for a model.

        Args:
            query: the query.
            budget_tokens: the most tokens of all memories together; a single longer memory is cut.
            **options: further arguments of `Memories.recall`.
        """
        session = self.context.session
        scopes, own = self.service.scopes(session.app_name, session.user_id)
        recall = await self.memories.recall(
            scopes, query, session_id=session.id, budget_tokens=budget_tokens, **options
        )
        return await affordable([of_hit(hit, own) for hit in recall], budget_tokens, query)


def ask_person(context: Context, question: str, memories: Sequence[Entry]) -> dict[str, Any] | None:
    """Ask a person about memories; return the tool's answer, or None once they agreed to
    exactly this question.

    Raises:
        InvalidInput: they agreed to something else.
    """
    lines = [f"{memory_line(memory)} ({memory['id']})" for memory in memories]
    hint = "\n".join([question, *lines])
    if not context.tool_confirmation:
        context.request_confirmation(hint=hint)
        context.actions.skip_summarization = True
        return PENDING
    if not context.tool_confirmation.confirmed:
        return DECLINED
    if hint != _confirmed_hint(context):
        raise InvalidInput(
            "Nothing was changed: it is not what the user was shown. Call the tool again."
        )
    return None


def _confirmed_hint(context: Context) -> str | None:
    """Return the text that a person confirmed for this call, or None if ADK did not ask for one."""
    events = context.session.events
    last = next((event for event in reversed(events) if event.author == "user"), None)
    responses = last.get_function_responses() if last else []
    response_ids = {response.id for response in responses if response.name == CONFIRMATION}
    for event in events:
        # not an id that a model made up
        call_ids = response_ids & (event.long_running_tool_ids or set())
        for call in event.get_function_calls():
            args = call.args or {}
            if (
                call.id in call_ids
                and args["originalFunctionCall"]["id"] == context.function_call_id
            ):
                return args["toolConfirmation"].get("hint")
    return None
