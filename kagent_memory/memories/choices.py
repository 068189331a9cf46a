"""Choose the parts of opened memories from the arguments of `open` and the settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ConfigurationError
from ..ingestion import Providers
from ..ingestion.summary_provider import SummaryProvider, checked_provider, with_settings
from ..models.embedding import CheckedEmbedder, EmbedderChoice, open_embedder
from ..models.llm import Llm, open_llm
from ..models.reranking import RerankChoice, Reranker, open_reranker
from ..retrieval.query import Gate
from ..settings import MemorySettings
from ..stores import Store, open_store
from ..stores.values import OpenOptions


def check_gate(gate: Gate | None) -> None:
    """Refuse a gate that would fail later.

    Raises:
        ConfigurationError: the message says what a gate must have.
    """
    searches = getattr(gate, "searches", None)
    fits = callable(searches) and not inspect.iscoroutinefunction(searches)
    if gate is not None and (isinstance(gate, type) or not fits):
        raise ConfigurationError(
            f"gate takes an object with a plain method searches(text), not {gate!r}; see "
            "Memories.open."
        )


def choose_models(
    settings: MemorySettings,
    embedding: EmbedderChoice,
    llm: str | bool | Llm | None,
    summary: SummaryProvider | None,
    rerank: RerankChoice,
    resolve_llm: Callable[[str], Llm | None] | None,
) -> tuple[CheckedEmbedder | None, Providers, Reranker | None]:
    """Return the models from the arguments, or else from the settings; names that LiteLLM does not
    know go to `resolve_llm`.

    Raises:
        ConfigurationError: a name is unknown, or a choice has the wrong type.
    """
    if summary is not None:
        summary = with_settings(checked_provider(summary), settings)
    if isinstance(llm, str):
        llm = settings.updated({"llm": llm}).llm
    choice = settings.llm if llm is None else llm
    try:
        model = open_llm(choice, settings)
    except ConfigurationError:
        name = choice.strip() if isinstance(choice, str) else ""
        model = resolve_llm(name) if name and resolve_llm else None
        if model is None:
            raise
    embedder = open_embedder(settings.embedding if embedding is None else embedding, settings)
    providers = Providers(
        summary,
        model,
        allow_model=choice is not False,
        resolve=resolve_llm,
    )
    return (
        embedder,
        providers,
        open_reranker(settings.rerank if rerank is None else rerank, settings),
    )


async def open_database(uri: str, settings: MemorySettings, pool: object) -> Store:
    """Open and migrate the store of a URI.

    Raises:
        ConfigurationError: the pool or the URI is invalid.
        StoreError: the database cannot be reached.
    """
    if pool is not None and not uri.removeprefix("kagent+").startswith("postgres"):
        raise ConfigurationError(
            "pool= takes connections to PostgreSQL; leave the URI out, or make it postgresql://…."
        )
    names = OpenOptions.__annotations__.keys() - {"schema", "pool"}
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    return await open_store(uri, pool=pool, schema=settings.postgres_schema, **options)
