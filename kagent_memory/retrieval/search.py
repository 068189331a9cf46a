"""One search, and the models that help it within a time limit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pydantic import BaseModel

from ..errors import ModelError
from ..language.follow_ups import EARLIER_TURNS
from ..language.tokenizer import is_small
from ..models.llm import Llm
from ..models.prompts import filled, prompt
from ..models.prompts.escaping import escaped, unescaped
from ..records import EVERYTHING, Filter, Scope, Vector
from ..stores.columns import NO_ROWS, Rows
from ..stores.spaces import EmbeddingSpace
from .question import Question

if TYPE_CHECKING:
    from .views import ManyViews

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")
ExternalVector: TypeAlias = tuple[EmbeddingSpace | None, Vector]
LEG = 200
SHORTLIST = 60
CANDIDATES_PER_HIT = 3
MODEL_SHARE = 0.6  # of the time left for models: the most that the next one may take
SEARCH_SHARE = 0.25  # of the caller's time: kept for the search itself, not for models
SLOW_SECONDS = 1.0  # a failure that comes sooner costs nobody anything
MAX_FAILURES = 3
PAUSE_SECONDS = 30.0
MAX_REWRITE_CHARS = 2_000


@dataclass(slots=True, kw_only=True)
class Search:
    """One search: the caller's request, and the findings that its steps leave for later ones.

    Attributes:
        scopes: the scopes to search.
        text: the query without secrets.
        question: the parsed query.
        now: the time from which the query is answered; `as_of` if given.
        limit: the maximum number of hits.
        min_score: the lowest cosine to the full query for memories that only the vectors found.
        floor: the relevance below which nothing is answered.
        explain: True to report how hits were found and which memories were left out.
        history: the last user turns, oldest first.
        external_vector: the caller's vector of the query, and the space of such vectors, if any.
        budget_tokens: the maximum text of all hits, in estimated tokens; None: no limit.
        as_of: the past time at which to search the scopes; None: now.
        session_id: the session whose short-term memories are searched too.
        models_until: when to stop waiting for models; None: no limit.
        view: the view of the scopes.
        added: the parsed rewrite of the query by a model, searched together with the query.
        terms: the final search terms.
        added_terms: the terms that only `added` has.
        respelt: unknown terms with their corrections.
        dated: the rows of memories from the times that the query names.
        date_only: True if the query asks for nothing else.
        trust: how well the embedder knows the script of the query.
        degraded: the steps that did without a model, each with the reason.
    """

    scopes: Sequence[Scope]
    text: str
    question: Question
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
    added: Question | None = None
    terms: Sequence[str] = ()
    added_terms: frozenset[str] = frozenset()
    respelt: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    dated: Rows = field(default_factory=lambda: NO_ROWS)
    date_only: bool = False
    trust: float = 1.0
    degraded: list[str] = field(default_factory=list[str])

    @property
    def leg(self) -> int:
        """Return the number of candidates for the text leg and for the vector leg."""
        return max(LEG, CANDIDATES_PER_HIT * self.limit)

    @property
    def shortlist(self) -> int:
        """Return the number of best candidates whose neighbours are looked up."""
        return max(SHORTLIST, CANDIDATES_PER_HIT * self.limit)

    @property
    def size(self) -> int:
        """Return the effort of a step of the search, for `run_in_thread`."""
        return len(self.text) + 2 * self.leg + self.view.size

    @property
    def names(self) -> Sequence[frozenset[str]]:
        """Return the terms of each identifier and name; all terms of a query of stop words."""
        return [frozenset(self.terms)] if is_small(self.terms) else self.question.names

    def seconds(self, most: float) -> float:
        """Return the time limit for a model: `most`, or the greater part of the remaining time."""
        if self.models_until is None:
            return most
        return min(most, MODEL_SHARE * max(0.0, self.models_until - time.monotonic()))


def models_until(seconds: float | None) -> float | None:
    """Return when to stop waiting for models, given how long the caller waits."""
    return None if seconds is None else time.monotonic() + (1 - SEARCH_SHARE) * seconds


@dataclass
class HelpingModel:
    """A model that helps searches, which go on without it when it fails.

    After several slow failures in a row no search waits for it, except one every half minute.

    Args:
        part: its role in a search, for messages.
        seconds: the longest time that a search waits for it.
    """

    part: str
    seconds: float

    def __post_init__(self) -> None:
        self._failures = 0
        self._paused_until = 0.0

    async def ask(self, search: Search, ask: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """Return the model's answer; None, with a note in `degraded`, if there is none in time.

        A call that is cancelled after a second counts as a failure too: its caller has stopped
        waiting.
        """
        begin = time.monotonic()
        seconds = search.seconds(self.seconds)
        answered = False
        pause = self._paused_until - begin
        if self._failures >= MAX_FAILURES and pause > 0:
            reason = (
                f"no answer {self._failures} times in a row; it is asked again in {pause:.0f} s"
            )
        else:
            self._paused_until = begin + PAUSE_SECONDS  # one caller waits for it, not all
            try:
                async with asyncio.timeout(seconds):
                    answer = await ask()
                answered = True
                return answer
            except TimeoutError:
                reason = f"no answer within {seconds:.3g} s"
            except ModelError as error:
                reason = str(error)
            finally:
                slow = time.monotonic() - begin >= SLOW_SECONDS
                if answered:
                    self._failures = 0
                elif slow:
                    self._failures += 1
                    self._paused_until = time.monotonic() + PAUSE_SECONDS
        logger.warning("Searching without the %s: %s", self.part, reason)
        search.degraded.append(f"{self.part}: {reason}")
        return None


class SearchQuery(BaseModel):
    """The answer of the model that rewrites a query."""

    query: str


async def rewrite(llm: Llm, text: str, earlier: Sequence[str] = ()) -> str:
    """Return the text as a query that stands alone, or unchanged if the model answers nothing.

    Raises:
        ModelError: the model is unavailable or gives an unusable answer.
    """
    request = filled(
        prompt("rewrite_query"),
        message=escaped(text[:MAX_REWRITE_CHARS]),
        earlier=escaped("\n".join(earlier[-EARLIER_TURNS:])[-MAX_REWRITE_CHARS:]),
    )
    answer = await llm.complete(request, schema=SearchQuery)
    # as an embedder and a database take it: valid Unicode without NUL, not endless
    query = unescaped(answer.query[:MAX_REWRITE_CHARS]).encode(errors="replace").decode()
    return query.replace("\0", " ").strip() or text
