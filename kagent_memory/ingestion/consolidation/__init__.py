"""Facts and what is near them become changes: add, update, supersede, reinforce, merge."""

from .llm_decisions import Decision, Decisions
from .merging import MergedGroups, clusters, plan_merges
from .planner import Plan, checked, decisions, plan, settled, size_of
from .similarity import identity_of, same_slot, slot_of

__all__ = [
    "Decision",
    "Decisions",
    "MergedGroups",
    "Plan",
    "checked",
    "clusters",
    "decisions",
    "identity_of",
    "plan",
    "plan_merges",
    "same_slot",
    "settled",
    "size_of",
    "slot_of",
]
