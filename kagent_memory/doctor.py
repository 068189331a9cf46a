"""Checks of settings, database, schema, rights, embedder and model, each with the cure of what it
finds.
"""

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
from .ingestion.providers import Providers
from .memories import Memories, utc_now, without_secrets
from .models.llm import Llm
from .settings import MemorySettings, compose
from .stores import standby_lag, store_exists
from .stores.encryption import KeyRing
from .stores.values import Job

LOOKED_AT = 1000
SCOPES = 20
MAX_BEHIND_SECONDS = 5.0
ADVICE: Mapping[str, str] = {
    "check": "Take a token that is bound to nothing, or ask where the server is started.",
    "cluster": "Spread them with `kagent-memory migrate --distribute`.",
    "database": "Start the database, see its log, and check host, port and password.",
    "embedder": "Start the embedder, or correct its name, base_url and API key.",
    "encryption": "Set KAGENT_MEMORY_ENCRYPTION_KEYS as the other processes have it.",
    "extension": "Install pgvector 0.7 or newer.",
    "file": "Make it writable for this user, or correct the URI.",
    "model": "Correct the model's name and API key, or start its server.",
    "opening": "Correct what it names: KAGENT_MEMORY_URI, a setting, an extra or a right.",
    "permissions": "GRANT these to this user, or run `kagent-memory migrate` as the owner.",
    "queue": "See `kagent-memory jobs --state dead`; mend the cause, then retry or drop them.",
    "server": "Start the server, or correct the URI, the setting and the token.",
    "settings": "Correct the setting or the URI.",
    "standby": "Start it; it must be a streaming standby of this very database. Correct or unset "
    "KAGENT_MEMORY_READ_URI. The primary answers meanwhile; see pg_stat_replication there.",
    "vectors": "Jobs embed them; the log names what the embedder refuses, which another one may "
    "take.",
    "writing": "Give this user the right to write.",
}
"""What to do about a part, or about one fault of it."""


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


def bad(part: str, told: object, fault: str = "") -> Finding:
    """Return that a part does not work, with what to do about it, or about this fault of it."""
    return Finding(part, "bad", str(told), ADVICE[fault or part])


class Ping(BaseModel):
    """Answer that the model is asked for."""

    ok: bool


async def examine(
    uri: str | None = None,
    *,
    embedding: Any = None,
    llm: Any = None,
    resolve_llm: Callable[[str], Llm | None] | None = None,
    **options: Any,
) -> list[Finding]:
    """Look at everything, and raise nothing of ours. A database that is not there yet is not
    made.
    """
    try:
        bare, settings = compose(uri, None, options, os.environ)
    except KagentMemoryError as error:
        return [bad("settings", error)]
    findings = [Finding("settings", "ok", "All settings fit.")]
    try:
        if (missing := await _missing(bare, settings)) is not None:
            return [*findings, missing]
        quiet: dict[str, Any] = {**options, "worker": False}
        memories = await Memories.open(
            uri, embedding=embedding, llm=llm, resolve_llm=resolve_llm, **quiet
        )
    except KagentMemoryError as error:
        part = "opening" if isinstance(error, ConfigurationError) else "database"
        return [*findings, bad("standby" if "read_uri" in str(error) else part, error)]
    async with memories:
        answers = await memories.check()
        findings += _of_store(memories.location, answers)
        findings += await _standby(bare, settings)
        findings += _embedder(answers)
        findings.append(await _model(memories.parts.providers))
        findings.append(await of_queue(memories.jobs, utc_now()))
        findings += await _encryption(memories)
    return findings


async def _encryption(memories: Memories) -> list[Finding]:
    """Return whether what some scopes keep can be read with the keys of this process."""
    try:
        for scope in await memories.scopes(limit=SCOPES):
            await memories.list(scope, limit=1)
    except KagentMemoryError as error:
        return [bad("encryption", error)]
    ring = KeyRing.parse(memories.settings.encryption_keys)
    text = f"What is written is encrypted with the key {ring.current!r}." if ring else ""
    return [Finding("encryption", "ok", text)] if ring else []


async def _missing(uri: str, settings: MemorySettings) -> Finding | None:
    """Return what is said of a database that does not exist yet; None if it does."""
    if await store_exists(uri, schema=settings.postgres_schema):
        return None
    bare = uri.removeprefix("kagent+")
    parts = urlsplit(bare)
    is_file = parts.scheme == "libsql" and not parts.netloc and ":memory:" not in parts.path
    if is_file and (unfit := _unfit_folder(parts.path.removeprefix("/"))):
        text = f"The directory {unfit} does not exist, or may not be written."
        return bad("database", text, "file")
    schema = f" (schema {settings.postgres_schema})" if bare.startswith("postgres") else ""
    text = f"{without_secrets(bare)}{schema} holds nothing of ours yet; it is made at first use."
    return Finding(
        "database", "note", text, "Make it with `kagent-memory migrate`, or correct the URI."
    )


def _unfit_folder(file: str) -> Path | None:
    """Return the directory of a file, if none can be made there."""
    folder = Path(file).absolute().parent
    return None if os.access(folder, os.W_OK) else folder


async def _standby(uri: str, settings: MemorySettings) -> list[Finding]:
    """Report whether the standby follows and how far behind it is; nothing without a standby."""
    if settings.read_uri is None:
        return []
    try:
        lag = await standby_lag(uri, settings.read_uri, schema=settings.postgres_schema)
    except KagentMemoryError as error:
        return [bad("standby", error)]
    if not lag.follows:
        return [bad("standby", "read_uri names a server that does not follow this database.")]
    text = (
        f"It is in recovery, {lag.bytes:,} bytes and {lag.seconds:.1f} s behind; its tables are at "
        f"migration {lag.migration}, the primary's at {lag.of_primary}."
    )
    if lag.migration != lag.of_primary:
        return [bad("standby", text)]
    if lag.seconds < MAX_BEHIND_SECONDS:
        return [Finding("standby", "ok", text)]
    return [Finding("standby", "note", text, ADVICE["standby"])]


async def examine_server(memories: Memories) -> list[Finding]:
    """Return what a server's own check says, as findings."""
    answers = await memories.check()
    return [*of_server(memories.location, answers), await of_queue(memories.jobs, utc_now())]


def of_server(location: str, answers: Mapping[str, str]) -> list[Finding]:
    """Convert a server's own check to findings."""
    server = Finding("server", "ok", f"{location} answers.")
    # nothing was looked at: it tells only callers who may see everything
    if "embedding" not in answers:
        return [server, bad("check", answers["store"])]
    return [server, *_of_store("Its database", answers), *_embedder(answers)]


def _of_store(location: str, answers: Mapping[str, str]) -> list[Finding]:
    if answers["store"] != "ok":
        return [bad("database", answers["store"])]
    findings = [
        Finding("database", "ok", f"{location} answers: {answers['database']}."),
        Finding("migrations", "ok", f"Applied: {answers.get('migrations', 'none are told')}."),
        Finding("extension", "ok", f"{answers['extension']}.")
        if "extension" in answers
        else bad("extension", "Vectors cannot be compared here."),
    ]
    if nodes := answers.get("nodes"):
        text = f"Citus runs on {nodes}."
        if left := answers.get("undistributed"):
            text += f" On the coordinator alone: {left}."
            findings.append(Finding("cluster", "note", text, ADVICE["cluster"]))
        else:
            findings.append(Finding("cluster", "ok", text))
    if "lacking" in answers:
        findings.append(bad("permissions", f"Missing: {answers['lacking']}."))
    elif answers["writing"] != "ok":
        findings.append(bad("permissions", answers["writing"], "writing"))
    else:
        findings.append(Finding("permissions", "ok", "A row was written."))
    return findings


def _embedder(answers: Mapping[str, str]) -> list[Finding]:
    """Return what is said of the embedder, and of memories that it has not embedded."""
    if answers["embedding"] == "keyword mode":
        advice = (
            "Set embedding= (KAGENT_MEMORY_EMBEDDING), for example "
            "ollama/nomic-embed-text, to find by meaning."
        )
        return [Finding("embedder", "note", "None: search is by keywords.", advice)]
    if answers["embedding"] != "ok":
        return [bad("embedder", answers["embedding"])]
    findings = [Finding("embedder", "ok", "It answered a probe.")]
    if scopes := answers.get("unembedded"):
        text = f"Memories of {scopes} scope(s) have no vector and are found by words alone."
        findings.append(Finding("vectors", "note", text, ADVICE["vectors"]))
    return findings


async def _model(providers: Providers) -> Finding:
    if not providers.allow_model:
        return Finding("model", "note", "Off: turns are stored as they are said.")
    if providers.llm is None:
        text = "None set: an agent's own model extracts facts when its sessions are saved."
        return Finding("model", "note", text)
    try:
        await providers.llm.complete("Answer with ok set to true.", schema=Ping)
    except KagentMemoryError as error:
        return bad("model", error)
    return Finding("model", "ok", "It answered a probe.")


async def of_queue(jobs: Callable[..., Awaitable[Sequence[Job]]], now: datetime) -> Finding:
    """Report the jobs that wait in a queue, and why."""
    try:
        dead = await jobs(state="dead", limit=LOOKED_AT, payloads=False)
        queued = await jobs(state="queued", limit=LOOKED_AT, payloads=False)
    except KagentMemoryError as error:
        return bad("database", error)
    if dead:
        return bad(
            "queue",
            f"{_counted(dead)} dead letter(s), accepted and never taken in: {dead[0].error}",
        )
    if failing := [job for job in queued if job.error]:
        hours = (now - min(job.created_at for job in failing)).total_seconds() / 3600
        text = (
            f"{_counted(failing)} job(s) wait to be tried again, the oldest for {hours:.1f} h: "
            f"{failing[0].error}"
        )
        advice = "They run by themselves when the cause is gone; see `kagent-memory jobs`."
        return Finding("queue", "note", text, advice)
    return Finding("queue", "ok", "No dead letters, and nothing that waits to be tried again.")


def _counted(jobs: Sequence[Job]) -> str:
    return f"{len(jobs)}" if len(jobs) < LOOKED_AT else f"{LOOKED_AT} or more"
