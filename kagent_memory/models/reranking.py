"""Reranking: a model reads the query and each memory together and scores the pair."""

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
    """Scores documents against a query. Any object of this shape will do."""

    @property
    def name(self) -> str:
        """Return which model this is."""
        ...

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """One score per document, in the documents' order; higher is better, the scale is the
        model's own.

        Raises:
            ModelError: unavailable, too slow, or an answer that cannot be used.
        """
        ...


RerankChoice: TypeAlias = str | Mapping[str, str] | Reranker | None
"""What makes a reranker: what the setting `rerank` takes, or an object with `rerank`."""


class LiteLLMReranker:
    """Reranks through LiteLLM: cohere/, jina_ai/, voyage/, hosted_vllm/, infinity/, together_ai/
    and others.

    Args:
        model: a LiteLLM rerank model name.
        base_url: where it is reached, when it is not at its usual place.

    Raises:
        ConfigurationError: the name has no known provider, or LiteLLM is not installed.
    """

    def __init__(self, model: str, base_url: str | None) -> None:
        check_provider(model)
        self.name = model
        self._base = {"api_base": base_url.rstrip("/")} if base_url else {}

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """Return one score per document, in the documents' order.

        NaN stands for a score that is missing.

        Raises:
            Exception: LiteLLM failed in its own way.
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
    """Reranks with any object with `name` and `async rerank(query, documents)`, and checks its
    scores; see `CheckedModel`. A search waits no longer than the time-out, so nothing is tried
    again.
    """

    method, kind, max_retries = "rerank", "a reranker", 0

    @property
    @override
    def timeout_seconds(self) -> float:
        """Return how long a search waits for it."""
        return self.settings.search_timeout_seconds

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """Return one score per document, in the documents' order; no documents make no call.

        Raises:
            ModelError: the object failed, took too long, or answered what cannot be used.
            ConfigurationError: its `rerank` is not async.
        """
        if not documents:
            return []
        answer = await self.call(query, list(documents))
        try:
            scores = np.asarray(answer, np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self.called} did not return a list of numbers.") from error
        if scores.shape != (len(documents),) or not np.isfinite(scores).all():
            raise ModelError(
                f"{self.called} did not return a finite score for each of {len(documents)} "
                "documents."
            )
        return scores.tolist()


def open_reranker(choice: Any, settings: MemorySettings) -> Reranker | None:
    """Return the reranker of a choice: a value of the setting `rerank`, or any object with
    `rerank`.

    The name of a local model imports fastembed, and that of an uncommon provider LiteLLM: call this
    in a thread.

    Raises:
        ConfigurationError: the choice is of no known kind, or names no known provider.
    """
    if choice is None or isinstance(choice, str | Mapping):
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
