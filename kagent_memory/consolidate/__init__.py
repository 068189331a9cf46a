"""Facts and what is near them become changes: add, update, supersede, reinforce, merge."""

from .alike import identity_of, same_slot, slot_of, upserts
from .decide import Decision, Decisions
from .merge import MergedGroups, clusters, plan_merges
from .settle import Plan, checked, decisions, plan, settled, size_of

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
    "upserts",
]
