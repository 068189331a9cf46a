"""Decisions that only a person makes, by ADK's tool confirmation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.agents.context import Context

from ..errors import InvalidInput
from ..memories.tool_answers import Found
from ..models.prompts.fence import memory_line
from .event_converter import CONFIRMATION

ASKED = {
    "status": "confirmation required",
    "message": "Nothing was changed yet: the user is asked.",
}
DECLINED = {"status": "declined", "message": "Nothing was changed: the user did not agree."}


def ask_person(context: Context, question: str, memories: Sequence[Found]) -> dict[str, Any] | None:
    """Ask a person about memories; return the tool's answer, or None once they agreed to exactly
    this.

    Raises:
        InvalidInput: what they agreed to was something else.
    """
    lines = [
        f"{memory_line(one.text, at=one.at, origin=one.origin)} ({one.fields['id']})"
        for one in memories
    ]
    hint = "\n".join([question, *lines])
    if not context.tool_confirmation:
        context.request_confirmation(hint=hint)
        context.actions.skip_summarization = True
        return ASKED
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
    answered = {response.id for response in responses if response.name == CONFIRMATION}
    for event in events:
        # a call that a model made up is not among these
        asked = answered & (event.long_running_tool_ids or set())
        for call in event.get_function_calls():
            args = call.args or {}
            if call.id in asked and args["originalFunctionCall"]["id"] == context.function_call_id:
                return args["toolConfirmation"].get("hint")
    return None
