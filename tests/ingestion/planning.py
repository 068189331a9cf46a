"""Plan new facts as the worker does, without a store."""

from collections.abc import Sequence
from datetime import datetime

from kagent_memory.ingestion.consolidation.planner import Near, Plan, decisions, settled
from kagent_memory.models.llm import Llm
from kagent_memory.records import Memory


async def plan(
    new: Sequence[Memory], near: Near, *, llm: Llm | None = None, visible: int = 0, now: datetime
) -> Plan:
    """Return the plan with the decisions that the model makes."""
    return settled(new, near, await decisions(new, near, llm), visible=visible, now=now)
