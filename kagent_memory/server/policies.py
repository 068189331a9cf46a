"""The page of policies: how memories age here, in words, and what a prune would erase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..retention.ageing import FADED_BELOW, FEW_DELIVERIES, UNIMPORTANT_BELOW
from ..settings import MemorySettings
from ..stores.values import Pruned, PruneReason
from .dependencies import Unbound, caller_of, memories_of
from .page_helpers import own_form, page
from .pages import scope_or_none

router = APIRouter(include_in_schema=False)

MOST_LISTED = 500
REASONS: Mapping[PruneReason, str] = {
    "expired": "Its time to live is over",
    "faded": "Its importance has faded",
    "unimportant": "Old, unimportant and hardly used",
    "capacity": "The least important where there are too many",
}


class Part(NamedTuple):
    """One part of how memories age: what a setting means when it is 0 or empty, and when it is not."""

    name: str
    setting: str
    unset: str
    set: str


PARTS = (
    Part("Time to live", "ttl_days", "for ever", "{} day{s}"),
    Part("… of a type", "ttl_days_by_type", "the same for all types", "{}"),
    Part("… with a tag", "ttl_days_by_tag", "the same for all tags", "{}"),
    Part(
        "Popularity",
        "popular_after",
        "every expired long-term memory lives on",
        "an expired long-term memory lives on if it was delivered {} time{s} or more",
    ),
    Part(
        "Decay",
        "half_life_days",
        "nothing fades",
        f"importance is halved every {{}} day{{s}} without a change or delivery; what falls below {FADED_BELOW} goes",
    ),
    Part(
        "Old and unimportant",
        "unimportant_after_days",
        "stays",
        f"goes after {{}} day{{s}} if delivered fewer than {FEW_DELIVERIES} times and below {UNIMPORTANT_BELOW} by "
        "the formula of importance",
    ),
    Part("Capacity", "max_memories", "no bound", "{} of one agent and user; of more, the least important go"),
    Part("Importance in ranking", "importance_boost", "no boost", "boosts with a weight of {}"),
    Part(
        "Short-term memories", "short_term_hours", "none; all is long-term at once", "{} hour{s}, in their session only"
    ),
    Part("… of one session", "short_term_per_session", "none", "{} at most"),
    Part("… long-term at once", "promote_importance", "always", "from an importance of {} on"),
    Part("Quarantine", "quarantine", "nothing waits", "new memories of these origins wait to be confirmed: {}"),
    Part("Summaries", "summarize_after_days", "none", "of old memories of one topic, after {} day{s}"),
    Part("Prune", "prune_every_hours", "never by itself", "every {} hour{s}"),
)


@router.get("/policies")
async def policies(request: Request) -> Response:
    """What is in effect; it is set where the server is started."""
    return _policies_page(request)


@router.post("/policies/look")
async def look(request: Request, caller: Unbound) -> Response:
    """A dry run of the prune, which looks at every scope."""
    await own_form(request)
    return _policies_page(request, await memories_of(request).prune(dry_run=True))


def _policies_page(request: Request, pruned: Pruned | None = None) -> Response:
    settings = memories_of(request).settings
    usual = MemorySettings(policy=settings.policy)
    parts = [[part, *(in_words(part, getattr(said, part.setting)) for said in (settings, usual))] for part in PARTS]
    values: dict[str, Any] = {"scope": scope_or_none(request), "settings": settings, "parts": parts, "reasons": REASONS}
    values |= {"pruned": pruned, "gone": pruned.gone[:MOST_LISTED] if pruned else ()}
    return page(request, "policies.html", {**values, "may_look": not caller_of(request).is_bound})


def in_words(part: Part, value: Any) -> str:
    """What a setting's value means."""
    if not value:
        return part.unset
    if isinstance(value, Mapping):
        named = cast("Mapping[str, int]", value)
        text = "; ".join(f"{name}: {in_words(PARTS[0], days)}" for name, days in named.items())
    else:
        text = (
            ", ".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else f"{value:,}".removesuffix(".0")
        )
    return part.set.format(text, s="" if value == 1 else "s")
