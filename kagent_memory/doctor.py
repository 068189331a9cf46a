"""What a doctor looks at: settings, database, schema, rights, embedder and model, each with what to do about it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel

from .errors import ConfigurationError, KagentMemoryError
from .memories import Memories, utc_now
from .models.llm import open_llm
from .settings import MemorySettings, compose
from .stores import standby_lag, store_exists
from .stores.base import Job
from .stores.encryption import KeyRing

LOOKED_AT = 1000
SCOPES = 20
MOST_BEHIND_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        state: "ok"; "note" for what works but should be known; "bad" for what does not work.
        advice: what to do; "" when nothing.
    """

    part: str
    state: Literal["ok", "note", "bad"]
    text: str
    advice: str = ""


_WRONG_PLACE = ("database", "Set KAGENT_MEMORY_URI (or --uri) to libsql:////directory/memory.db or postgresql://….")
_REACHABLE = "Let this user read and write the file and its directory, or name another file in KAGENT_MEMORY_URI."
_STANDBY = "Name a streaming standby of this very database in KAGENT_MEMORY_READ_URI, or unset it."
_UNOPENED = (  # what a refusal says, the part it is about, and what to do
    ("read_uri", "standby", _STANDBY),
    ("rewrite asks", "model", "Set KAGENT_MEMORY_LLM to a model, or turn KAGENT_MEMORY_REWRITE off."),
    ("reranker", "reranker", "Set KAGENT_MEMORY_RERANK to <provider>/<model> or local/<cross-encoder>, or unset it."),
    ("language model", "model", "Set KAGENT_MEMORY_LLM to <provider>/<model>, or unset it."),
    ("an extra", "database", "pip install the extra that is named where this command runs."),
    ("its extra", "database", "pip install the extra of this store where this command runs."),
    ("extension", "extension", "Install pgvector 0.7 or newer on the server; CREATE EXTENSION vector as a superuser."),
    (
        "lacks a privilege",
        "permissions",
        "GRANT it to this database user, or run `kagent-memory migrate` as the owner.",
    ),
    ("refused the connection", "database", "Correct user, password and database name in KAGENT_MEMORY_URI."),
    ("upgrade this", "database", "pip install --upgrade kagent-memory."),
    ("cannot be", "permissions", _REACHABLE),
    ("keep its data", "permissions", _REACHABLE),
    (
        "vectors of",
        "embedder",
        "Set KAGENT_MEMORY_EMBEDDING to the embedder that filled this store, or name a new database.",
    ),
    ("Azure OpenAI", "embedder", "Set AZURE_OPENAI_ENDPOINT, or the base_url of the embedding configuration."),
    ("embed", "embedder", "Set KAGENT_MEMORY_EMBEDDING to <provider>/<model> of an embedding model, or unset it."),
)


class Ping(BaseModel):
    """What the model is asked for."""

    ok: bool


async def examine(uri: str | None = None, *, embedding: Any = None, llm: Any = None, **options: Any) -> list[Finding]:
    """Looks at everything, and raises nothing of ours. A database that is not there yet is not made."""
    try:
        bare, settings = compose(uri, None, options, os.environ)
    except KagentMemoryError as error:
        return [Finding("settings", "bad", str(error), "Correct the setting or the URI.")]
    findings = [Finding("settings", "ok", "All settings fit.")]
    try:
        if (missing := await _missing(bare, settings)) is not None:
            return [*findings, missing]
        quiet: dict[str, Any] = {**options, "worker": False}
        memories = await Memories.open(uri, embedding=embedding, llm=llm, **quiet)
    except ConfigurationError as error:
        told = str(error)
        part, advice = next((about for sign, *about in _UNOPENED if sign in told), _WRONG_PLACE)
        return [*findings, Finding(part, "bad", told, advice)]
    except KagentMemoryError as error:
        advice = "Start the database, and check host, port and password."
        return [*findings, Finding("database", "bad", str(error), advice)]
    async with memories:
        answers = await memories.check()
        findings += _of_store(memories.location, answers)
        findings += await _standby(bare, settings)
        findings.append(_embedder(answers))
        findings.append(await _model(settings.llm if llm is None else llm, settings))
        findings.append(await of_queue(memories.jobs, utc_now()))
        try:  # whether what some scopes keep can be read with the keys at hand
            for scope in await memories.scopes(limit=SCOPES):
                await memories.list(scope, limit=1)
        except KagentMemoryError as error:
            advice = "Set KAGENT_MEMORY_ENCRYPTION_KEYS as the other processes have it."
            findings.append(Finding("encryption", "bad", str(error), advice))
        else:
            ring = KeyRing.parse(settings.encryption_keys)
            told = f"What is written is encrypted with the key {ring.current!r}." if ring else ""
            findings += [Finding("encryption", "ok", told)] if ring else []
    return findings


async def _missing(uri: str, settings: MemorySettings) -> Finding | None:
    """What is said of a database that does not exist yet; None if it does."""
    if await store_exists(uri, schema=settings.postgres_schema):
        return None
    bare = uri.removeprefix("kagent+")
    parts = urlsplit(bare)
    is_file = parts.scheme == "libsql" and not parts.netloc and ":memory:" not in parts.path
    place = Path(parts.path.removeprefix("/")) if is_file else None
    if place is not None and not place.exists():
        parent = next((above for above in place.absolute().parents if above.exists()), Path("/"))
        if parent != place.absolute().parent:
            return Finding(
                "database", "bad", f"The directory of {place} does not exist.", "Make it, or correct the URI."
            )
        if not os.access(parent, os.W_OK):
            return Finding("permissions", "bad", f"{parent} may not be written.", "Give this user the right to write.")
        return Finding("database", "note", f"{place} does not exist yet; it is made at first use.")
    if place is not None:
        text = f"{place} holds nothing of ours; tables are made in it at first use."
    elif bare.startswith("pgserver:"):
        text = f"{bare} does not exist yet; it is made at first use."
    elif bare.startswith("libsql"):
        text = "It answers, without tables of ours; they are made at first use."
    else:
        text = f"It answers, without a schema {settings.postgres_schema}; that is made at first use."
    return Finding("database", "note", text, "Make it with `kagent-memory migrate`, or correct the URI.")


async def _standby(uri: str, settings: MemorySettings) -> list[Finding]:
    """Whether the standby follows, and how far behind it is; nothing where none is named."""
    if settings.read_uri is None:
        return []
    try:
        lag = await standby_lag(uri, settings.read_uri, schema=settings.postgres_schema)
    except KagentMemoryError as error:
        advice = f"Start it, and see its log; the primary answers meanwhile. {_STANDBY}"
        return [Finding("standby", "bad", str(error), advice)]
    if not lag.follows:
        return [Finding("standby", "bad", "read_uri names a server that does not follow this database.", _STANDBY)]
    behind = f"It is in recovery, {lag.bytes:,} bytes and {lag.seconds:.1f} s behind"
    if lag.migration != lag.of_primary:
        text = f"{behind}, with tables at migration {lag.migration} where the primary's are at {lag.of_primary}."
        advice = "Let it catch up: see pg_stat_replication on the primary; the primary answers meanwhile."
        return [Finding("standby", "bad", text, advice)]
    text = f"{behind}; its tables are at migration {lag.migration}, as the primary's."
    if lag.seconds < MOST_BEHIND_SECONDS:
        return [Finding("standby", "ok", text)]
    advice = "See pg_stat_replication on the primary, the network, and whether replay is paused on the standby."
    return [Finding("standby", "note", text, advice)]


def of_server(location: str, answers: Mapping[str, str]) -> list[Finding]:
    """What a server's own check says, as findings."""
    server = Finding("server", "ok", f"{location} answers.")
    if "embedding" not in answers:  # nothing was looked at: it tells only callers who may see everything
        advice = "Take a token that is bound to nothing, or ask where the server is started."
        return [server, Finding("check", "bad", answers["store"], advice)]
    return [server, *_of_store("Its database", answers), _embedder(answers)]


def _of_store(location: str, answers: Mapping[str, str]) -> list[Finding]:
    if answers["store"] != "ok":
        return [Finding("database", "bad", answers["store"], "Start the database, and see its log.")]
    findings = [Finding("database", "ok", f"{location} answers: {answers['database']}.")]
    if "extension" in answers:
        findings.append(Finding("extension", "ok", f"{answers['extension']}."))
    else:
        findings.append(
            Finding("extension", "bad", "Vectors cannot be compared here.", "Install pgvector 0.7 or newer.")
        )
    findings.append(Finding("migrations", "ok", f"Applied: {answers.get('migrations', 'none are told')}."))
    if "lacking" in answers:
        advice = "GRANT these to this database user, or run `kagent-memory migrate` as the owner."
        findings.append(Finding("permissions", "bad", f"Missing: {answers['lacking']}.", advice))
    elif answers["writing"] == "ok":
        findings.append(Finding("permissions", "ok", "A row was written."))
    else:
        findings.append(
            Finding("permissions", "bad", answers["writing"], "Give this database user the right to write.")
        )
    return findings


def _embedder(answers: Mapping[str, str]) -> Finding:
    if answers["embedding"] == "keyword mode":
        advice = "Set embedding= (KAGENT_MEMORY_EMBEDDING), for example ollama/nomic-embed-text, to find by meaning."
        return Finding("embedder", "note", "None: search is by keywords.", advice)
    if answers["embedding"] == "ok":
        return Finding("embedder", "ok", "It answered a probe.")
    advice = "Start the embedder, or correct its name, base_url and API key."
    return Finding("embedder", "bad", answers["embedding"], advice)


async def _model(choice: Any, settings: MemorySettings) -> Finding:
    if choice is False:
        return Finding("model", "note", "Off: turns are stored as they are said.")
    if choice is None:
        return Finding("model", "note", "None set: an agent's own model extracts facts when its sessions are saved.")
    try:
        model = open_llm(choice, settings)
        if model is not None:
            await model.complete("Answer with ok set to true.", schema=Ping)
    except KagentMemoryError as error:
        return Finding("model", "bad", str(error), "Correct the model's name and API key, or start its server.")
    return Finding("model", "ok", "It answered a probe.")


async def of_queue(jobs: Callable[..., Awaitable[Sequence[Job]]], now: datetime) -> Finding:
    """What waits in a queue and why, read with the verb `jobs` of its memories."""
    try:
        dead = await jobs(state="dead", limit=LOOKED_AT, payloads=False)
        failing = [job for job in await jobs(state="queued", limit=LOOKED_AT, payloads=False) if job.error]
    except KagentMemoryError as error:
        return Finding("queue", "bad", str(error), "See the database.")
    if dead:
        text = f"{_counted(dead)} dead letter(s), accepted and never taken in: {dead[0].error}"
        advice = "See `kagent-memory jobs --state dead`; mend the cause, then retry or drop them."
        return Finding("queue", "bad", text, advice)
    if failing:
        hours = (now - min(job.created_at for job in failing)).total_seconds() / 3600
        text = f"{_counted(failing)} job(s) wait to be tried again, the oldest for {hours:.1f} h: {failing[0].error}"
        return Finding(
            "queue", "note", text, "They run by themselves when the cause is gone; see `kagent-memory jobs`."
        )
    return Finding("queue", "ok", "No dead letters, and nothing that waits to be tried again.")


def _counted(jobs: Sequence[Job]) -> str:
    return f"{len(jobs)}" if len(jobs) < LOOKED_AT else f"{LOOKED_AT} or more"
