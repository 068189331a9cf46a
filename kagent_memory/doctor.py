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
from .memories import Memories, utc_now, without_secrets
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


_STANDBY = "Name a streaming standby of this very database in KAGENT_MEMORY_READ_URI, or unset it."
_RIGHTS = "GRANT these to this database user, or run `kagent-memory migrate` as the owner."


class Ping(BaseModel):
    """Answer that the model is asked for."""

    ok: bool


async def examine(
    uri: str | None = None, *, embedding: Any = None, llm: Any = None, **options: Any
) -> list[Finding]:
    """Look at everything, and raise nothing of ours. A database that is not there yet is not
    made.
    """
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
    except KagentMemoryError as error:
        return [*findings, _unopened(error)]
    async with memories:
        answers = await memories.check()
        findings += _of_store(memories.location, answers)
        findings += await _standby(bare, settings)
        findings += _embedder(answers)
        findings.append(await _model(settings.llm if llm is None else llm, settings))
        findings.append(await of_queue(memories.jobs, utc_now()))
        findings += await _encryption(memories)
    return findings


def _unopened(error: KagentMemoryError) -> Finding:
    if "read_uri" in str(error):
        return Finding("standby", "bad", str(error), _STANDBY)
    if isinstance(error, ConfigurationError):
        advice = "Correct what it names: KAGENT_MEMORY_URI, a setting, an extra or a right."
        return Finding("opening", "bad", str(error), advice)
    advice = "Start the database, and check host, port and password."
    return Finding("database", "bad", str(error), advice)


async def _encryption(memories: Memories) -> list[Finding]:
    """Return whether what some scopes keep can be read with the keys of this process."""
    try:
        for scope in await memories.scopes(limit=SCOPES):
            await memories.list(scope, limit=1)
    except KagentMemoryError as error:
        advice = "Set KAGENT_MEMORY_ENCRYPTION_KEYS as the other processes have it."
        return [Finding("encryption", "bad", str(error), advice)]
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
    if is_file and (trouble := _unwritable(parts.path.removeprefix("/"))):
        return trouble
    schema = f" (schema {settings.postgres_schema})" if bare.startswith("postgres") else ""
    text = f"{without_secrets(bare)}{schema} holds nothing of ours yet; it is made at first use."
    return Finding(
        "database", "note", text, "Make it with `kagent-memory migrate`, or correct the URI."
    )


def _unwritable(file: str) -> Finding | None:
    """Return what keeps a file from being made."""
    folder = Path(file).absolute().parent
    if os.access(folder, os.W_OK):
        return None
    text = f"The directory {folder} does not exist, or may not be written."
    return Finding("database", "bad", text, "Make it writable for this user, or correct the URI.")


async def _standby(uri: str, settings: MemorySettings) -> list[Finding]:
    """Report whether the standby follows and how far behind it is; nothing without a standby."""
    if settings.read_uri is None:
        return []
    try:
        lag = await standby_lag(uri, settings.read_uri, schema=settings.postgres_schema)
    except KagentMemoryError as error:
        advice = f"Start it, and see its log; the primary answers meanwhile. {_STANDBY}"
        return [Finding("standby", "bad", str(error), advice)]
    if not lag.follows:
        text = "read_uri names a server that does not follow this database."
        return [Finding("standby", "bad", text, _STANDBY)]
    text = (
        f"It is in recovery, {lag.bytes:,} bytes and {lag.seconds:.1f} s behind; its tables are at "
        f"migration {lag.migration}, the primary's at {lag.of_primary}."
    )
    advice = "See pg_stat_replication on the primary; the primary answers until it has caught up."
    if lag.migration != lag.of_primary:
        return [Finding("standby", "bad", text, advice)]
    if lag.seconds < MOST_BEHIND_SECONDS:
        return [Finding("standby", "ok", text)]
    return [Finding("standby", "note", text, advice)]


async def examine_server(memories: Memories) -> list[Finding]:
    """Return what a server's own check says, as findings."""
    answers = await memories.check()
    return [*of_server(memories.location, answers), await of_queue(memories.jobs, utc_now())]


def of_server(location: str, answers: Mapping[str, str]) -> list[Finding]:
    """Convert a server's own check to findings."""
    server = Finding("server", "ok", f"{location} answers.")
    # nothing was looked at: it tells only callers who may see everything
    if "embedding" not in answers:
        advice = "Take a token that is bound to nothing, or ask where the server is started."
        return [server, Finding("check", "bad", answers["store"], advice)]
    return [server, *_of_store("Its database", answers), *_embedder(answers)]


def _of_store(location: str, answers: Mapping[str, str]) -> list[Finding]:
    if answers["store"] != "ok":
        advice = "Start the database, and see its log."
        return [Finding("database", "bad", answers["store"], advice)]
    findings = [
        Finding("database", "ok", f"{location} answers: {answers['database']}."),
        Finding("migrations", "ok", f"Applied: {answers.get('migrations', 'none are told')}."),
    ]
    if "extension" in answers:
        findings.append(Finding("extension", "ok", f"{answers['extension']}."))
    else:
        text = "Vectors cannot be compared here."
        findings.append(Finding("extension", "bad", text, "Install pgvector 0.7 or newer."))
    if nodes := answers.get("nodes"):
        text, advice = f"Citus runs on {nodes}.", ""
        if left := answers.get("undistributed"):
            text += f" On the coordinator alone: {left}."
            advice = "Spread them with `kagent-memory migrate --distribute`."
        findings.append(Finding("cluster", "note" if left else "ok", text, advice))
    if "lacking" in answers:
        findings.append(Finding("permissions", "bad", f"Missing: {answers['lacking']}.", _RIGHTS))
    elif answers["writing"] == "ok":
        findings.append(Finding("permissions", "ok", "A row was written."))
    else:
        advice = "Give this database user the right to write."
        findings.append(Finding("permissions", "bad", answers["writing"], advice))
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
        advice = "Start the embedder, or correct its name, base_url and API key."
        return [Finding("embedder", "bad", answers["embedding"], advice)]
    findings = [Finding("embedder", "ok", "It answered a probe.")]
    if scopes := answers.get("unembedded"):
        text = f"Memories of {scopes} scope(s) have no vector and are found by words alone."
        advice = (
            "Jobs embed them; the log names what the embedder refuses, which another one may take."
        )
        findings.append(Finding("vectors", "note", text, advice))
    return findings


async def _model(choice: Any, settings: MemorySettings) -> Finding:
    if choice is False:
        return Finding("model", "note", "Off: turns are stored as they are said.")
    if choice is None:
        text = "None set: an agent's own model extracts facts when its sessions are saved."
        return Finding("model", "note", text)
    try:
        if (model := open_llm(choice, settings)) is not None:
            await model.complete("Answer with ok set to true.", schema=Ping)
    except KagentMemoryError as error:
        advice = "Correct the model's name and API key, or start its server."
        return Finding("model", "bad", str(error), advice)
    return Finding("model", "ok", "It answered a probe.")


async def of_queue(jobs: Callable[..., Awaitable[Sequence[Job]]], now: datetime) -> Finding:
    """Report the jobs that wait in a queue, and why."""
    try:
        dead = await jobs(state="dead", limit=LOOKED_AT, payloads=False)
        failing = [
            job for job in await jobs(state="queued", limit=LOOKED_AT, payloads=False) if job.error
        ]
    except KagentMemoryError as error:
        return Finding("queue", "bad", str(error), "See the database.")
    if dead:
        text = f"{_counted(dead)} dead letter(s), accepted and never taken in: {dead[0].error}"
        advice = "See `kagent-memory jobs --state dead`; mend the cause, then retry or drop them."
        return Finding("queue", "bad", text, advice)
    if failing:
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
