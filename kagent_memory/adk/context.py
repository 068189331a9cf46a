"""From an agent's context to its memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.adk.agents.context import Context

from ..memories.tool_answers import Found, affordable, of_hit
from ..records import Scope
from .service import KagentMemoryService

if TYPE_CHECKING:
    from ..memories import Memories


def service_of(
    context: Context, explicit: KagentMemoryService | None = None
) -> KagentMemoryService | None:
    """Return the given service, else the run's; None for a service of others.

    AgentTool gives its runs a throw-away service of ADK's.
    """
    service = explicit or context.get_invocation_context().memory_service
    return service if isinstance(service, KagentMemoryService) else None


@dataclass(frozen=True, slots=True)
class Run:
    """A run of an agent, and the memory that it uses."""

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

    async def find(self, query: str, **options: Any) -> list[Found]:
        """Return the memories that answer a query, as a model reads them.

        Args:
            query: what for.
            **options: further arguments of `Memories.recall`; a memory that alone is longer than
                `budget_tokens` is cut.
        """
        session = self.context.session
        reading, own = self.service.scopes(session.app_name, session.user_id)
        recalled = await self.memories.recall(reading, query, session_id=session.id, **options)
        found = [of_hit(hit, shared=hit.scope != own) for hit in recalled]
        return affordable(found, options.get("budget_tokens"), query)
