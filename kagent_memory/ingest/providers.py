"""Which summary provider and model a job runs with: chosen when it is queued, found again by name when it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..errors import KagentMemoryError
from ..extract import (
    CompactionAwareSummary,
    LlmSummary,
    PassthroughSummary,
    SummaryProvider,
    bind,
    needs_llm,
    provider_name,
)
from ..llm import Llm

log = logging.getLogger("kagent_memory")


class Unresolvable(Exception):
    """This process lacks the provider or model a job was queued for."""


class Providers:
    """The summary providers and models of one process.

    Args:
        summary: the provider to use; None: facts by a model where one is at hand, else turns as they are.
        llm: the configured model; None: the one at hand when a transcript is queued; False: never a model.
        resolve: makes a model of a name that this process has not seen; None when it cannot.
        embeds: what is stored is embedded too; turns as they are then earn one warning.
    """

    def __init__(
        self,
        summary: SummaryProvider | None,
        llm: Llm | None,
        *,
        allow_model: bool = True,
        resolve: Callable[[str], Llm | None] | None = None,
        embeds: bool = False,
    ) -> None:
        self._summary = summary
        self._llm = llm
        self._allow_model = allow_model
        self._resolve = resolve
        self._models: dict[str, Llm] = {llm.name: llm} if llm else {}
        plain = (summary,) if summary else (LlmSummary(), PassthroughSummary())
        ours = (LlmSummary(), PassthroughSummary(), *plain, *(CompactionAwareSummary(inner) for inner in plain))
        self._providers: dict[str, SummaryProvider] = {provider_name(provider): provider for provider in ours}
        self._warns = embeds

    @property
    def llm(self) -> Llm | None:
        """The configured model, which consolidation and recall may use too."""
        return self._llm

    def consolidator(self, name: str) -> Llm | None:
        """The model that decides about new facts: the configured one, else the one the job was queued with."""
        return self._llm or self._models.get(name)

    def choose(self, *, compaction: bool = False, at_hand: Llm | None = None) -> tuple[str, str]:
        """The names of provider and model that a transcript is queued with ("" for no model).

        `compaction` asks for summaries that ADK has made to be used again.
        """
        llm = (self._llm or at_hand) if self._allow_model else None
        if llm is not None:
            self._models.setdefault(llm.name, llm)
        provider = self._summary or (LlmSummary() if llm else PassthroughSummary())
        if needs_llm(provider) and llm is None:
            provider = PassthroughSummary()
        if self._warns and self._summary is None and llm is None:
            self._warns = False
            log.warning("Turns are embedded as they were said; facts would embed better: give llm= a model.")
        if compaction and not isinstance(provider, CompactionAwareSummary):
            provider = CompactionAwareSummary(provider)
            self._providers.setdefault(provider.name, provider)
        return provider_name(provider), llm.name if llm is not None and needs_llm(provider) else ""

    def find(self, provider: str, model: str) -> SummaryProvider:
        """The provider, ready to run.

        Raises:
            Unresolvable: unknown here, or its model is.
        """
        found = self._providers.get(provider)
        if found is None:
            raise Unresolvable(f"No summary provider {provider!r} in this process.")
        return bind(found, self.model(model)) if model else found

    def model(self, name: str) -> Llm:
        """The model of this name.

        Raises:
            Unresolvable: this process cannot make it.
        """
        if name not in self._models and self._resolve is not None and self._allow_model:
            try:
                made = self._resolve(name)
            except KagentMemoryError as error:
                raise Unresolvable(f"The model {name!r} cannot be made here: {error}") from error
            if made is not None:
                self._models[name] = made
        if name not in self._models:
            raise Unresolvable(f"No model {name!r} in this process.")
        return self._models[name]
