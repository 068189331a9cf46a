"""One search: what its caller asks for, and what is known of it on the way."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from ..records import EVERYTHING, Filter, Scope, Vector
from ..stores.base import EmbeddingSpace
from .question import Question, is_small

if TYPE_CHECKING:
    from .scopes import ManyViews

ExternalVector: TypeAlias = tuple[EmbeddingSpace, Vector]
LEG, SHORTLIST = 200, 60
HITS_SEEN = 3  # for each hit that is asked for
MODEL_SHARE = 0.6  # of what is left of the rest, to each model that helps a search
SEARCH_SHARE = 0.25  # of the whole time: the search's own, however many models hang before it


@dataclass(slots=True, kw_only=True)
class Search:
    """One search: what its caller asks for, and what is known of it on the way.

    Attributes:
        scopes: whose memories.
        text: the query as asked, without secrets.
        now: the time that is asked about.
        limit: how many hits at most.
        min_score: floor on the full query's cosine for what only the vectors found.
        floor: the relevance below which nothing is answered.
        explain: tell what found a hit, and what was left out.
        history: the last user turns, oldest first.
        external_vector: the query's vector, brought by the caller.
        budget_tokens: how much text at most.
        as_of: search the scopes as they were then.
        session_id: the session whose short-term memories are searched too.
        models_until: when no model is waited for any longer; None: no limit.
        view: the scopes as they are searched.
        question: what is searched for.
        added: what a model made of it, searched beside it.
        terms: what is searched by, in the end.
        added_terms: those that only `added` holds.
        respelt: terms that no memory holds, and those that were searched instead.
        dated: the memories of the times that the query names.
        preferences: the memories that state a preference.
        date_only: the query asks for those and nothing else.
        trust: how far the embedder knows the query's script.
        degraded: what went without a model, and why.
    """

    scopes: Sequence[Scope]
    text: str
    now: datetime
    limit: int = 5
    min_score: float = 0.0
    floor: float = 0.0
    filter: Filter = EVERYTHING
    explain: bool = False
    history: Sequence[str] = ()
    external_vector: ExternalVector | None = None
    budget_tokens: int | None = None
    as_of: datetime | None = None
    session_id: str | None = None
    models_until: float | None = None
    view: ManyViews = field(init=False)
    question: Question = field(init=False)
    added: Question | None = None
    terms: Sequence[str] = ()
    added_terms: frozenset[str] = frozenset()
    respelt: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    dated: frozenset[str] = frozenset()
    preferences: frozenset[str] = frozenset()
    date_only: bool = False
    trust: float = 1.0
    degraded: list[str] = field(default_factory=list[str])

    @property
    def leg(self) -> int:
        """Return how many candidates to ask of the text leg, and of the vector leg."""
        return max(LEG, HITS_SEEN * self.limit)

    @property
    def shortlist(self) -> int:
        """Return of how many candidates, the best, to look up the neighbours."""
        return max(SHORTLIST, HITS_SEEN * self.limit)

    @property
    def names(self) -> Sequence[frozenset[str]]:
        """Return the terms of each identifier and name; all of them of a query of stop words."""
        return [frozenset(self.terms)] if is_small(self.terms) else self.question.names

    def seconds(self, most: float) -> float:
        """Return how long a model may take: `most`, or the greater part of what is left."""
        if self.models_until is None:
            return most
        return min(most, MODEL_SHARE * max(0.0, self.models_until - time.monotonic()))


def models_until(seconds: float | None) -> float | None:
    """Return when models no longer help a search whose caller waits so long from now."""
    return None if seconds is None else time.monotonic() + (1 - SEARCH_SHARE) * seconds
