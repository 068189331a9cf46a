"""Plan new facts as the worker does, without a store."""

from collections.abc import Sequence
from datetime import datetime

from kagent_memory.ingestion.planner import MIN_REPLACED, Plan, decide
from kagent_memory.models.llm import Llm
from kagent_memory.records import Memory
from kagent_memory.retrieval.similar import Near


async def plan(
    new: Sequence[Memory],
    neighbours: Near,
    *,
    llm: Llm | None = None,
    visible: int = 0,
    now: datetime,
) -> Plan:
    """Return the plan with the model's decisions."""
    result = Plan(now=now, replaceable=max(MIN_REPLACED, visible // 10))
    result.take(new, neighbours, await decide(new, neighbours, llm))
    return result
