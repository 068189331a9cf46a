"""Choose the summary provider and model of a job when it is queued; find them when it runs."""

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
    "A session without a model is stored turn by turn, unchanged. To extract facts, set llm= or "
    "save with the plugin or callback, which bring the agent's model. To store turns without this "
    "warning, set llm=False."
)


class ProviderUnavailable(Exception):
    """Raised if this process lacks the provider or model of a job."""


class BroughtElsewhere(ProviderUnavailable):
    """Raised if the model of a job was brought to this process, but for other scopes."""


@dataclass(eq=False)
class Providers:
    """The summary providers and models of one process.

    A model that an agent brings serves only jobs of the scope that it came with: agents of two
    scopes may use the same model name with different keys or addresses.

    Attributes:
        summary: the provider; None: facts by a model if there is one, else turns as they are.
        llm: the configured model, also used by consolidation and recall; None: the model that comes
            with a transcript.
        allow_model: False: no model is ever used.
        resolve: makes a model from a name that is new to this process, or returns None.
    """

    summary: SummaryProvider | None
    llm: Llm | None
    allow_model: bool
    resolve: Callable[[str], Llm | None] | None

    def __post_init__(self) -> None:
        self._resolved = dict[str, Llm]()
        self._brought = LRUCache[tuple[bytes, str], Llm](MAX_BROUGHT)
        plain = [LlmSummary(), PassthroughSummary(), *filter(None, [self.summary])]
        self._providers = {
            provider_name(provider): provider
            for inner in plain
            for provider in (CompactionAwareSummary(inner), inner)
        }
        self._warned = False

    @property
    def needs_model(self) -> bool:
        """Return True if facts are extracted by a model that each agent brings or names."""
        return self.allow_model and self.llm is None and needs_llm(self.summary or LlmSummary())

    def choose(
        self, scope: Scope, *, compaction: bool, brought: Llm | str | None
    ) -> tuple[str, str]:
        """Return the names of the provider and model to queue a transcript with ("" for no model);
        keep a model object for the jobs of the scope.

        Args:
            scope: the scope of the transcript.
            compaction: reuse the summaries of ADK's compaction.
            brought: the agent's model, or only its name.
        """
        llm = (self.llm or brought) if self.allow_model else None
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
            llm = ""
        elif not isinstance(llm, str):
            self._brought[scope.id, llm.name] = llm
            llm = llm.name
        return provider_name(provider), llm

    def find(self, job: Job) -> SummaryProvider:
        """Return the provider of a job.

        Raises:
            ProviderUnavailable: the provider is unknown here.
        """
        provider = self._providers.get(job.provider)
        if provider is None:
            raise ProviderUnavailable(f"No summary provider {job.provider!r} in this process.")
        return provider

    def model(self, job: Job) -> Llm | None:
        """Return the model of a job: brought for its scope, or made from its name; None for a job
        without one.

        Raises:
            ProviderUnavailable: this process cannot make the model.
        """
        if not (name := job.model.strip()):
            return None
        own = self.llm
        if (
            own
            and own.name.strip()
            and qualified(own.name, os.environ) == qualified(name, os.environ)
        ):
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
        is_elsewhere = any(brought == name for _, brought in self._brought)
        lacking = BroughtElsewhere if is_elsewhere else ProviderUnavailable
        raise lacking(f"No model {name!r} in this process.")


class _MadeOfName:
    """A model made from its name; missing credentials count as a model that cannot be made."""

    def __init__(self, inner: Llm) -> None:
        self.name = inner.name
        self._inner = inner

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the inner model's answer.

        Raises:
            ProviderUnavailable: this process has no credentials for the model.
            ModelError: the inner model failed.
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
