"""The parts that memories are opened with: as callers choose them, or as the settings say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import ConfigurationError
from ..ingestion import Providers
from ..ingestion.summary_provider import SummaryProvider, checked_provider, with_settings
from ..models.embedding import CheckedEmbedder, EmbedderChoice, open_embedder
from ..models.llm import Llm, open_llm
from ..models.reranking import RerankChoice, Reranker, open_reranker
from ..redaction import Redactor, redactor
from ..redaction import redact as mask_secrets
from ..redaction.personal_data import PersonalData
from ..retrieval.query import Gate
from ..settings import MemorySettings
from ..stores import Store, open_store
from ..stores.values import OpenOptions


class Redactors(NamedTuple):
    """Functions that mask a text before anything else sees it.

    Attributes:
        save: to one that is to be stored; it may refuse one.
        mask: to one that is only searched with or logged.
        secrets: secrets alone, whatever the settings say of personal data.
        personal: what finds personal data; None: the settings say nothing of it.
    """

    save: Redactor
    mask: Redactor
    secrets: Redactor
    personal: PersonalData | None = None


def check_gate(gate: Gate | None) -> None:
    """Refuse a gate that would fail at every later use.

    Raises:
        ConfigurationError: says what it takes.
    """
    searches = getattr(gate, "searches", None)
    fits = callable(searches) and not inspect.iscoroutinefunction(searches)
    if gate is not None and (isinstance(gate, type) or not fits):
        raise ConfigurationError(
            f"gate takes an object with a plain method searches(text), not {gate!r}; see "
            "Memories.open."
        )


def choose_redactors(redact: Redactor | None, settings: MemorySettings) -> Redactors:
    """Return what masks secrets, as given or ours with the table that a setting names, and what
    the settings say of pii.

    Raises:
        ConfigurationError: both are given, a table cannot be read, an unknown kind of pii, or its
            extra is missing.
    """
    if redact is not None and settings.secrets_file:
        raise ConfigurationError(
            "Pass secrets_file or redact=, not both: redact= replaces the built-in redaction."
        )
    if redact is None:
        redact = redactor(settings.secrets_file) if settings.secrets_file else mask_secrets
    rules = settings.pii
    if rules is None:
        return Redactors(redact, redact, redact)
    data = PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
    mask = data.after(redact)
    save = mask if rules.mode == "mask" else data.refusing(redact, dropped=rules.mode == "drop")
    return Redactors(save, mask, redact, data)


def choose_models(
    settings: MemorySettings,
    embedding: EmbedderChoice,
    llm: str | bool | Llm | None,
    summary: SummaryProvider | None,
    rerank: RerankChoice,
    resolve_llm: Callable[[str], Llm | None] | None,
) -> tuple[CheckedEmbedder | None, Providers, Reranker | None]:
    """Return the models that were chosen, or else those that the settings name; a name that
    LiteLLM does not know is resolved.

    Raises:
        ConfigurationError: nobody knows a name, or a choice is of no known kind.
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
        ConfigurationError: the pool or the URI does not fit.
        StoreError: the database cannot be reached.
    """
    if pool is not None and not uri.removeprefix("kagent+").startswith("postgres"):
        raise ConfigurationError(
            "pool= takes connections to PostgreSQL; leave the URI out, or make it postgresql://…."
        )
    names = OpenOptions.__annotations__.keys() - {"schema", "pool"}
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    return await open_store(uri, pool=pool, schema=settings.postgres_schema, **options)
