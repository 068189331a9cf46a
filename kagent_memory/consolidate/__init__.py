"""Facts and what is near them become changes: add, update, supersede, reinforce, merge."""

from .alike import identity_of, near_identical, same_slot, upserts
from .decide import Decision, Decisions
from .merge import MergedGroups, clusters, plan_merges
from .settle import Plan, checked, plan

__all__ = [
    "Decision",
    "Decisions",
    "MergedGroups",
    "Plan",
    "checked",
    "clusters",
    "identity_of",
    "near_identical",
    "plan",
    "plan_merges",
    "same_slot",
    "upserts",
]
