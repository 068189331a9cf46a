"""Reranking: a model reads the query and each memory together and scores the pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from ..errors import ConfigurationError, ModelError, needs_extra
from ..settings import MemorySettings, RerankConfig
from .calls import NO_RETRIES, RetryPolicy, awaited, has_litellm, litellm, name_of, named, named_object, with_retries
from .embedding.vector_checks import batches
from .onnx import PREFIXES, LocalModel, OnnxCrossEncoder

BATCH_SIZE = 32  # pairs in one pass of a cross-encoder


class Reranker(Protocol):
    """Scores documents against a query. Any object of this shape will do."""

    @property
    def name(self) -> str:
        """Which model this is."""
        ...

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """One score per document, in the documents' order; higher is better, the scale is the model's own.

        Raises:
            ModelError: unavailable, too slow, or an answer that cannot be used.
        """
        ...


RerankChoice: TypeAlias = str | Mapping[str, str] | Reranker | None
"""What makes a reranker: what the setting `rerank` takes, or an object with `rerank`."""


class LiteLLMReranker:
    """Reranks through LiteLLM: cohere/, jina_ai/, voyage/, hosted_vllm/, infinity/, together_ai/ and others.

    Args:
        model: a LiteLLM rerank model name.
        base_url: where it is reached, when it is not at its usual place.
        timeout_seconds: for the whole call; a search waits for it, so it is not tried again.
    """

    def __init__(self, model: str, *, base_url: str | None = None, timeout_seconds: float = 5.0) -> None:
        if "/" not in model:
            raise ConfigurationError(
                f"The reranker {model!r} has no provider prefix; write it as, for example, cohere/rerank-v3.5."
            )
        if not has_litellm():
            raise needs_extra(f"The reranker {model} is reached through LiteLLM, which", "litellm")
        self.name = model
        self._base = {"api_base": base_url.rstrip("/")} if base_url else {}
        self._retry = RetryPolicy(timeout_seconds)

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """One score per document, in the documents' order; no documents make no call.

        Raises:
            ModelError: unavailable, too slow, or an answer that cannot be used.
        """
        if not documents:
            return []
        module = await litellm()
        scored = await named(
            self._asked(module, query, list(documents)), f"The reranker {self.name}", query, *documents
        )
        return in_order(scored, len(documents), self.name)

    async def _asked(self, module: Any, query: str, documents: list[str]) -> list[tuple[int, float]]:
        response = await with_retries(
            lambda: module.arerank(
                model=self.name,
                query=query,
                documents=documents,
                top_n=len(documents),
                return_documents=False,
                timeout=self._retry.timeout_seconds,
                **NO_RETRIES,
                **self._base,
            ),
            self._retry,
        )
        return [(int(row["index"]), float(row["relevance_score"])) for row in response.results or ()]


class CrossEncoderReranker:
    """Reranks with a cross-encoder in this process, with ONNX, loaded at the first use, in a thread of its own.

    Args:
        model: a name on Hugging Face, or a folder.
        timeout_seconds: after which a search no longer waits; loading the model counts.

    Raises:
        ConfigurationError: the extra `[local]` is not installed.
    """

    def __init__(self, model: str, *, timeout_seconds: float = 5.0) -> None:
        self.name = f"local/{model}"
        self._timeout_seconds = timeout_seconds
        self._model = LocalModel(model, "cross-encoder", OnnxCrossEncoder)

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """Return one score per document, in the documents' order.

        Raises:
            ConfigurationError: the model is none that is run here.
            ModelError: the model cannot be loaded, failed, or was too slow.
        """
        if not documents:
            return []
        parts = batches(documents, BATCH_SIZE)
        work = self._model.run(
            lambda model: [score for part in parts for score in model.score(query, part)], self._timeout_seconds
        )
        answer = await named(work, f"The reranker {self.name}", query, *documents)
        return checked(answer, len(documents), self.name)


class CheckedReranker:
    """Any object with `name` and `async rerank(query, documents)`; a failure of its own becomes a ModelError."""

    def __init__(self, inner: Any, *, timeout_seconds: float = 5.0) -> None:
        name_of(inner, "rerank", "a reranker")
        self.inner = inner
        self._retry = RetryPolicy(timeout_seconds)

    @property
    def name(self) -> str:
        """The name that the object gives itself."""
        return name_of(self.inner, "rerank", "a reranker")

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """One score per document, in the documents' order.

        Raises:
            ModelError: the object failed, took too long, or answered what cannot be used.
            ConfigurationError: its `rerank` is not async.
        """
        if not documents:
            return []
        what = f"The reranker {self.name}"
        call = with_retries(
            lambda: awaited(self.inner.rerank(query, list(documents)), f"{what}: rerank()"), self._retry
        )
        answer = await named_object(call, what, query, *documents)
        return checked(answer, len(documents), self.name)


def in_order(scored: Sequence[tuple[int, float]], count: int, name: str) -> list[float]:
    """Scores that came with the documents' numbers, in the documents' order.

    Raises:
        ModelError: a document has no score, or two.
    """
    if sorted(index for index, _ in scored) != list(range(count)):
        raise ModelError(f"The reranker {name} did not score each of {count} documents once.")
    return checked([score for _, score in sorted(scored)], count, name)


def checked(scores: Any, count: int, name: str) -> list[float]:
    """The scores as floats.

    Raises:
        ModelError: another number of scores, or one that is not a finite number.
    """
    try:
        values = [float(score) for score in cast("Sequence[Any]", scores)]
    except (TypeError, ValueError) as error:
        raise ModelError(f"The reranker {name} did not return a list of numbers.") from error
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise ModelError(
            f"The reranker {name} returned {len(values)} scores, or one that is not finite, for {count} documents."
        )
    return values


def open_reranker(choice: Any, settings: MemorySettings) -> Reranker | None:
    """Return the reranker of a choice: a value of the setting `rerank`, or any object with `rerank`.

    Raises:
        ConfigurationError: the choice is of no known kind.
    """
    seconds = settings.search_timeout_seconds
    if choice is None or isinstance(choice, str | Mapping):
        choice = settings.updated({"rerank": choice}).rerank
    if choice is None:
        return None
    if not isinstance(choice, RerankConfig):
        ready = isinstance(choice, (LiteLLMReranker, CrossEncoderReranker, CheckedReranker))
        return cast("Reranker", choice) if ready else CheckedReranker(choice, timeout_seconds=seconds)
    model = choice.model
    for prefix in PREFIXES:
        if model.startswith(prefix):
            return CrossEncoderReranker(model.removeprefix(prefix), timeout_seconds=seconds)
    if model.startswith("cross-encoder/"):  # the organisation on Hugging Face that publishes nothing else
        return CrossEncoderReranker(model, timeout_seconds=seconds)
    return LiteLLMReranker(model, base_url=choice.api_base, timeout_seconds=seconds)
