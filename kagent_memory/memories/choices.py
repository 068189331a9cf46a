"""Choose the parts of opened memories from the arguments of `open` and the settings."""

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
        save: masks a text to store; it may refuse one.
        mask: masks a text for a search or the log.
        secrets: masks secrets only, whatever the setting `pii` says.
        personal: finds personal data; None without the setting `pii`.
    """

    save: Redactor
    mask: Redactor
    secrets: Redactor
    personal: PersonalData | None = None


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


def choose_redactors(redact: Redactor | None, settings: MemorySettings) -> Redactors:
    """Return the redactors: the caller's or our own with `secrets_file`, combined with the setting
    `pii`.

    Raises:
        ConfigurationError: `redact` and `secrets_file` are both given, a table cannot be read, a
            kind of pii is unknown, or its extra is missing.
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
