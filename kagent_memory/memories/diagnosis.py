"""Check a store, its embedder, model and queue, and say how to fix problems."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from ..errors import KagentMemoryError
from ..records import new_id
from ..stores.base import MemoryStore
from ..stores.encryption import KeyRing
from .opened import Opened

PROBE_SECONDS = 45  # for a model to answer
LOOKED_AT = 1000  # jobs, and scopes with memories without vectors
DECRYPTED_SCOPES = 20
MAX_BEHIND_SECONDS = 5.0
ADVICE: Mapping[str, str] = {
    "check": "Take a token that is bound to nothing, or ask where the server is started.",
    "cluster": "Spread them with `kagent-memory migrate --distribute`.",
    "database": "Start the database, or correct KAGENT_MEMORY_URI; let this user write a file's "
    "folder. `kagent-memory migrate` makes a new one.",
    "embedder": "Set embedding= (KAGENT_MEMORY_EMBEDDING), for example ollama/nomic-embed-text; "
    "start it, or correct its name, base_url and API key.",
    "encryption": "Set KAGENT_MEMORY_ENCRYPTION_KEYS as the other processes have it.",
    "extension": "Install pgvector 0.7 or newer.",
    "model": "Correct the model's name and API key, or start its server.",
    "opening": "Correct what it names: KAGENT_MEMORY_URI, a setting, an extra or a right.",
    "permissions": "GRANT this user the right to write; as the owner, run `kagent-memory migrate`.",
    "queue": "See `kagent-memory jobs`; mend the cause, then retry or drop those that are dead.",
    "server": "Start the server, or correct the URI, the setting and the token.",
    "settings": "Correct the setting or the URI.",
    "standby": "Start it; it must be a streaming standby of this very database. Correct or unset "
    "KAGENT_MEMORY_READ_URI. The primary answers meanwhile; see pg_stat_replication there.",
    "vectors": "Jobs embed them; the log names what the embedder refuses, which another one may "
    "take.",
}
"""What to do about a part."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of checking one part.

    Attributes:
        state: "ok"; "note" for something that works but should be known; "bad" for a problem.
        advice: what to do, or "".
    """

    part: str
    state: Literal["ok", "note", "bad"]
    text: str
    advice: str = ""


def bad(part: str, problem: object) -> Diagnosis:
    """Report that a part does not work, with advice."""
    return Diagnosis(part, "bad", str(problem), ADVICE[part])


def note(part: str, text: str) -> Diagnosis:
    """Report something about a working part that should be known, with advice."""
    return Diagnosis(part, "note", text, ADVICE[part])


class Ping(BaseModel):
    """The answer that the model is asked for."""

    ok: bool


async def diagnose(memories: Opened) -> Sequence[Diagnosis]:
    """Check every part of open memories."""
    findings, *models = await asyncio.gather(
        _store(memories), _embedder(memories), _model(memories)
    )
    return [*findings, *models]


async def _store(memories: Opened) -> list[Diagnosis]:
    store = memories.store
    try:
        about = await store.memories.about()
        findings = _database(memories.location, about)
        if "lacking" in about:
            findings.append(bad("permissions", f"Missing: {about['lacking']}."))
        else:
            lease = store.queue.lease("doctor", new_id(), seconds=1)
            findings.append(await _tried("permissions", lease, "A row was written."))
        findings.append(await check_queue(memories))
        if lacking := await _unembedded(memories):
            findings.append(
                note(
                    "vectors",
                    f"Memories of {lacking} scope(s) have no vector and are found by words alone.",
                )
            )
        if memories.settings.read_uri:
            findings.append(await _standby(store.memories))
    except KagentMemoryError as error:
        return [bad("database", error)]
    return [*findings, *await _encryption(memories)]


def _database(location: str, about: Mapping[str, str]) -> list[Diagnosis]:
    findings = [
        Diagnosis("database", "ok", f"{location} answers: {about['database']}."),
        Diagnosis("migrations", "ok", f"Applied: {about.get('migrations', 'none are told')}."),
        Diagnosis("extension", "ok", f"{about['extension']}.")
        if "extension" in about
        else bad("extension", "Vectors cannot be compared here."),
    ]
    if nodes := about.get("nodes"):
        text = f"Citus runs on {nodes}."
        local_tables = about.get("undistributed")
        findings.append(
            note("cluster", f"{text} On the coordinator alone: {local_tables}.")
            if local_tables
            else Diagnosis("cluster", "ok", text)
        )
    return findings


async def _standby(memories: MemoryStore) -> Diagnosis:
    """Report whether the standby answers, and how far it lags behind."""
    primary, standby = await memories.node(), await memories.reader.node()
    if memories.trouble or not standby["is_standby"]:
        return bad("standby", memories.trouble or "It lags, and the primary answers.")
    behind = max(primary["position"] - standby["position"], 0)
    seconds = standby["seconds"] if behind else 0.0
    text = f"It is in recovery, {behind:,} bytes and {seconds:.1f} s behind."
    if seconds < MAX_BEHIND_SECONDS:
        return Diagnosis("standby", "ok", text)
    return note("standby", text)


async def check_queue(memories: Opened) -> Diagnosis:
    """Report the waiting jobs and why they wait.

    Raises:
        StoreError: the queue cannot be read.
    """
    jobs = memories.store.queue.jobs
    if dead := await jobs(state="dead", limit=LOOKED_AT, payloads=False):
        return bad(
            "queue",
            f"At least {len(dead)} dead letter(s), accepted and never taken in: {dead[0].error}",
        )
    queued = await jobs(state="queued", limit=LOOKED_AT, payloads=False)
    if failing := [job for job in queued if job.error]:
        age = memories.clock() - min(job.created_at for job in failing)
        return note(
            "queue",
            f"At least {len(failing)} job(s) wait to be tried again, the oldest for "
            f"{age.total_seconds() / 3600:.1f} h: {failing[0].error}",
        )
    return Diagnosis("queue", "ok", "No dead letters, and nothing that waits to be tried again.")


async def _unembedded(memories: Opened) -> int:
    """Return how many of the first scopes have memories without a vector of the embedder."""
    store = memories.store.memories
    name = memories.vectors and memories.vectors.name
    for space in await store.spaces.all():
        if (space.name, space.state) == (name, "current"):
            scopes = await memories.store.scopes(limit=LOOKED_AT)
            return len(await store.lacking_vectors(scopes, space.number, now=memories.clock()))
    return 0


async def _encryption(memories: Opened) -> list[Diagnosis]:
    """Report whether the keys of this process can decrypt what some scopes hold."""
    store = memories.store
    try:
        for scope in await store.scopes(limit=DECRYPTED_SCOPES):
            await store.memories.reader.list(scope, limit=1, now=memories.clock())
    except KagentMemoryError as error:
        return [bad("encryption", error)]
    if not (ring := KeyRing.parse(memories.settings.encryption_keys)):
        return []
    return [
        Diagnosis(
            "encryption", "ok", f"What is written is encrypted with the key {ring.current!r}."
        )
    ]


async def _embedder(memories: Opened) -> Diagnosis:
    if memories.vectors is None:
        return note("embedder", "None: search is by keywords.")
    return await _tried("embedder", memories.vectors.ping(), "It answered a probe.")


async def _model(memories: Opened) -> Diagnosis:
    providers = memories.providers
    if providers.llm is None:
        return Diagnosis(
            "model",
            "note",
            "None set: an agent's own model extracts facts when its sessions are saved."
            if providers.allow_model
            else "Off: turns are stored as they are said.",
        )
    return await _tried(
        "model",
        providers.llm.complete("Answer with ok set to true.", schema=Ping),
        "It answered a probe.",
    )


async def _tried(part: str, attempt: Awaitable[object], text: str) -> Diagnosis:
    """Report that a part works if an attempt succeeds in time, otherwise what is wrong."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await attempt
    except TimeoutError:
        return bad(part, f"No answer within {PROBE_SECONDS} s.")
    except KagentMemoryError as error:
        return bad(part, error)
    return Diagnosis(part, "ok", text)
