"""Choice of the summary provider and model of a job: made when it is queued, found again by name
when it runs.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache

from ..errors import KagentMemoryError, ModelError
from ..models.calls import qualified
from ..models.failures import causes, status_of
from ..models.llm import Answer, Llm
from ..records import Scope
from ..stores.values import Job
from .summaries import CompactionAwareSummary, LlmSummary
from .summary_provider import PassthroughSummary, SummaryProvider, needs_llm, provider_name

logger = logging.getLogger(__name__)

MAX_BROUGHT = 10_000
_CREDENTIALS = re.compile(r"api[_ ]?key|credentials|AuthenticationError", re.IGNORECASE)
_NO_MODEL = (
    "A session that comes without a model is stored turn by turn, as it was said. For facts "
    "give llm= a model, or let "
    "the plugin or callback save: they bring the agent's own. llm=False says that turns are meant."
)


class ProviderUnavailable(Exception):
    """This process lacks the provider or model a job was queued for.

    Attributes:
        everywhere: it lacks them for every job of their names, not for this one alone.
    """

    def __init__(self, message: str, *, everywhere: bool = True) -> None:
        super().__init__(message)
        self.everywhere = everywhere


@dataclass(eq=False)
class Providers:
    """The summary providers and models of one process.

    A model that an agent brings serves the jobs of the scope it was brought for, and of no other:
    agents of two scopes may name their models alike and reach them with keys or at addresses of
    their own.

    Attributes:
        summary: the provider to use; None: facts by a model where one is at hand, else turns as
            they are.
        llm: the configured model, which consolidation and recall may use too; None: the one at hand
            when a transcript is queued.
        allow_model: False: never a model.
        resolve: makes a model of a name that this process has not seen; None when it cannot.
    """

    summary: SummaryProvider | None
    llm: Llm | None
    allow_model: bool = True
    resolve: Callable[[str], Llm | None] | None = None

    def __post_init__(self) -> None:
        self._resolved: dict[str, Llm] = {}
        self._brought = LRUCache[tuple[bytes, str], Llm](MAX_BROUGHT)
        plain = [LlmSummary(), PassthroughSummary(), *filter(None, [self.summary])]
        self._providers: dict[str, SummaryProvider] = {
            provider_name(provider): provider
            for inner in plain
            for provider in (CompactionAwareSummary(inner), inner)
        }
        self._warned = False

    @property
    def needs_model(self) -> bool:
        """Return True if facts are found with a model that each agent brings or names."""
        return self.allow_model and self.llm is None and needs_llm(self.summary or LlmSummary())

    def choose(
        self, scope: Scope, *, compaction: bool = False, at_hand: Llm | str | None = None
    ) -> tuple[str, str]:
        """Return the names of provider and model that a transcript is queued with ("" for no
        model); keep a model that is brought for the jobs of the scope.

        Args:
            scope: whose transcript.
            compaction: asks for summaries that ADK has made to be used again.
            at_hand: the model that its agent brings, or its name where only that came along.
        """
        llm = (self.llm or at_hand) if self.allow_model else None
        provider = self.summary or LlmSummary()
        if needs_llm(provider) and not llm:
            provider = PassthroughSummary()
        was_meant = not self.allow_model or self.summary or llm or compaction
        if not (was_meant or self._warned):
            logger.warning(_NO_MODEL)
            self._warned = True
        if compaction and not isinstance(provider, CompactionAwareSummary):
            provider = CompactionAwareSummary(provider)
        if not llm or not needs_llm(provider):
            return provider_name(provider), ""
        if isinstance(llm, str):
            return provider_name(provider), llm
        self._brought[scope.id, llm.name] = llm
        return provider_name(provider), llm.name

    def find(self, job: Job) -> SummaryProvider:
        """Return the provider of a job.

        Raises:
            ProviderUnavailable: it is unknown here.
        """
        provider = self._providers.get(job.provider)
        if provider is None:
            raise ProviderUnavailable(f"No summary provider {job.provider!r} in this process.")
        return provider

    def model(self, job: Job) -> Llm | None:
        """Return the model brought for a job's scope, else one made of its name; None for a job
        without one.

        Raises:
            ProviderUnavailable: this process cannot make it.
        """
        if not (name := job.model.strip()):
            return None
        own = self.llm
        wanted = qualified(name, os.environ)
        if own and own.name.strip() and qualified(own.name, os.environ) == wanted:
            return own
        if known := self._brought.get((job.scope.id, job.model)) or self._resolved.get(name):
            return known
        if self.resolve is not None and self.allow_model:
            try:
                model = self.resolve(name)
            except KagentMemoryError as error:
                raise ProviderUnavailable(
                    f"The model {name!r} cannot be made here: {error}"
                ) from error
            if model is not None:
                return self._resolved.setdefault(name, _MadeOfName(model))
        elsewhere = any(brought == name for _, brought in self._brought)
        raise ProviderUnavailable(f"No model {name!r} in this process.", everywhere=not elsewhere)


class _MadeOfName:
    """A model made of its name: without credentials it is no better than a name that cannot be
    resolved.
    """

    def __init__(self, inner: Llm) -> None:
        self.name = inner.name
        self._inner = inner

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the inner model's answer.

        Raises:
            ProviderUnavailable: this process has no credentials for it.
            ModelError: as the inner model raises it.
        """
        try:
            return await self._inner.complete(prompt, schema=schema)
        except ModelError as error:
            if not any(
                status_of(cause) in (401, 403)
                or _CREDENTIALS.search(f"{type(cause).__name__} {cause}")
                for cause in causes(error)
            ):
                raise
            raise ProviderUnavailable(
                f"The model {self.name!r} has no credentials in this process."
            ) from error
