"""Rerankers: models that read the query with each memory and score the pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from typing_extensions import override

from ..errors import ModelError
from ..settings import MemorySettings, RerankConfig
from .calls import CheckedModel, call_litellm, check_provider
from .local import LocalReranker


class Reranker(Protocol):
    """An object that scores documents against a query."""

    @property
    def name(self) -> str:
        """Return the name of the model."""
        ...

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """Return one score per document in order; higher is better, on the model's own scale.

        Raises:
            ModelError: the model is unavailable, too slow, or gives an unusable answer.
        """
        ...


RerankChoice: TypeAlias = str | Mapping[str, str] | Reranker | None
"""A value of the setting `rerank`, or an object with `rerank`."""


class LiteLLMReranker:
    """Rerank through LiteLLM: cohere/, jina_ai/, voyage/, hosted_vllm/, infinity/, together_ai/
    and others.

    Args:
        model: a LiteLLM rerank model name.
        base_url: the URL of its server, if it is not the provider's usual one.

    Raises:
        ConfigurationError: the provider is unknown, or LiteLLM is not installed.
    """

    def __init__(self, model: str, base_url: str | None) -> None:
        check_provider(model)
        self.name = model
        self._base = {"api_base": base_url.rstrip("/")} if base_url else {}

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """Return one score per document in order; NaN for a missing score.

        Raises:
            Exception: any error of LiteLLM.
        """
        response = await call_litellm(
            "arerank",
            self.name,
            query=query,
            documents=list(documents),
            top_n=len(documents),
            return_documents=False,
            **self._base,
        )
        scores = {int(row["index"]): row["relevance_score"] for row in response.results or ()}
        return [float(scores.get(number, "nan")) for number in range(len(documents))]


class CheckedReranker(CheckedModel):
    """Rerank with any object that has `name` and `async rerank(query, documents)`, and check its
    scores.

    See `CheckedModel`. Nothing is retried, because a search waits no longer than the time-out.
    """

    method, kind, max_retries = "rerank", "a reranker", 0

    @property
    @override
    def timeout_seconds(self) -> float:
        """Return the seconds that a search waits for it."""
        return self.settings.search_timeout_seconds

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """Return one score per document in order; without documents call nothing.

        Raises:
            ModelError: the object failed, took too long or gave an unusable answer.
            ConfigurationError: its `rerank` is not async.
        """
        if not documents:
            return []
        answer = await self.call(query, list(documents))
        try:
            scores = np.asarray(answer, np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self.label} did not return a list of numbers.") from error
        if scores.shape != (len(documents),) or not np.isfinite(scores).all():
            raise ModelError(
                f"{self.label} did not return a finite score for each of {len(documents)} "
                "documents."
            )
        return scores.tolist()


def open_reranker(choice: Any, settings: MemorySettings) -> Reranker | None:
    """Return the reranker for a value of the setting `rerank`, or for an object with `rerank`; for
    None, the reranker of the settings.

    It may import fastembed (for a local model) or LiteLLM (for an uncommon provider), so call it in
    a thread.

    Raises:
        ConfigurationError: the choice is none of these, or its provider is unknown.
    """
    if choice is None:
        choice = settings.rerank
    if isinstance(choice, str | Mapping):
        choice = settings.updated({"rerank": choice}).rerank
    if choice is None or isinstance(choice, CheckedReranker):
        return choice
    if not isinstance(choice, RerankConfig):
        return CheckedReranker(choice, settings)
    if choice.model.startswith("local/"):
        inner = LocalReranker(choice.model)
    else:
        inner = LiteLLMReranker(choice.model, choice.api_base)
    return CheckedReranker(inner, settings, ours=True)
