"""Check settings, database, schema, rights, embedder and model, and say how to fix problems."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from .errors import ConfigurationError, KagentMemoryError
from .memories import Memories
from .memories.diagnosis import Diagnosis, bad, note
from .models.llm import Llm
from .settings import MemorySettings, compose, without_secrets
from .stores import adapter_of


async def examine(
    uri: str | None = None,
    *,
    embedding: Any = None,
    llm: Any = None,
    resolve_llm: Callable[[str], Llm | None] | None = None,
    **options: Any,
) -> Sequence[Diagnosis]:
    """Check everything and return the results; problems are returned, not raised. A missing
    database is not created. The arguments are those of `Memories.open`.
    """
    try:
        bare, settings = compose(uri, None, options, os.environ)
    except KagentMemoryError as error:
        return [bad("settings", error)]
    findings = [Diagnosis("settings", "ok", "All settings fit.")]
    quiet: dict[str, Any] = {**options, "worker": False}
    try:
        if (nothing := await missing(bare, settings)) is not None:
            return [*findings, nothing]
        memories = await Memories.open(
            uri, embedding=embedding, llm=llm, resolve_llm=resolve_llm, **quiet
        )
    except KagentMemoryError as error:
        part = "opening" if isinstance(error, ConfigurationError) else "database"
        return [*findings, bad("standby" if "read_uri" in str(error) else part, error)]
    async with memories:
        return [*findings, *await memories.check()]


async def missing(uri: str, settings: MemorySettings) -> Diagnosis | None:
    """Return the result for a database that does not exist yet; None if it exists."""
    adapter, bare = adapter_of(uri)
    if await adapter.exists(bare, schema=settings.postgres_schema):
        return None
    schema = f" (schema {settings.postgres_schema})" if bare.startswith("postgres") else ""
    text = f"{without_secrets(bare)}{schema} holds nothing of ours yet."
    return note("database", text)
