"""Encryption at rest: nothing readable in the database, and rotation of keys."""

from __future__ import annotations

import asyncio
import base64
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import psycopg
import pytest
from memories import opening
from memories.opening import ADA, GRACE, listed

from kagent_memory import Fact, Memories, Message, Scope, doctor
from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.records import Filter, Memory, Revision
from kagent_memory.settings import MemorySettings, compose
from kagent_memory.stores import planning, postings
from kagent_memory.stores.sql import maintenance
from kagent_memory.stores.sql.row_codec import sealed_fields
from kagent_memory.stores.values import Batch, Job, MemoryQuery
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import DAY, NOW, a_job, a_memory, adding, vector

pytestmark = pytest.mark.usefixtures("packs_at_once")


def key(id: str, letter: str) -> str:
    return f"{id}:{base64.b64encode(letter.encode() * 32).decode()}"


OLD, NEW = key("old", "o"), key("2026-11", "n")
CANARY = "Quokka77"
WORD = re.compile(rb"quokka77", re.IGNORECASE)
HEX = re.compile(CANARY.encode().hex().encode() + b"|" + CANARY.lower().encode().hex().encode())


@pytest.fixture
def uri(store_uri: str) -> str:
    """A new store on each database; row security has tests of its own."""
    return store_uri


async def opened(uri: str, keys: str | None = None) -> Memories:
    embedder = HashEmbedder(16)
    return await opening.opened(uri, embedding=embedder, encryption_keys=keys)


NO_TEXT = re.compile(
    r"(int|float|bool|datetime|Time|Count|Scope|Usage|Annotated\[(int|float), .*\])( \| None)?"
)
PLAIN: Mapping[type, set[str]] = {
    Memory: {
        "id", "type", "origin", "session_id", "event_ids", "state", "superseded_by", "links",
    },
    Revision: {"memory_id", "kind", "event_ids", "group"},
    Job: {"id", "kind", "session_id", "key", "provider", "model", "state", "owner"},
}  # fmt: skip


@pytest.mark.parametrize("record", PLAIN)
def test_each_text_of_a_record_is_sealed_or_plain(record: type):
    """A new field with text is either sealed or listed here as plain."""
    texts = {field.name for field in fields(record) if not NO_TEXT.fullmatch(str(field.type))}
    assert texts == PLAIN[record] | sealed_fields(record).keys()


def memory(number: int, text: str = CANARY, **values: Any) -> Memory:
    defaults: dict[str, Any] = {
        "content": f"The {text} keeps {number} keys. Does it?",
        "topics": (f"{text} topic", "keys"),
        "tags": (f"{text} tag", f"tag {number % 3}"),
        "subject": f"{text} {number}",
        "attribute": f"{text} keeps",
        "author": f"{text} author",
        "category": f"{text} category",
        "metadata": {
            f"{text} name": f"{text} value",
            "number": number,
            "deep": {"more": [f"{text} deep"]},
        },
        "session_id": "s",
    }
    return a_memory(**{**defaults, **values})


async def lived(memories: Memories, scope: Scope, count: int = 5) -> list[str]:
    """Write one of everything that a store keeps of a user."""
    store = memories.store
    added = [memory(number) for number in range(count)]
    await store.apply(scope, Batch(changes=adding(*added, explicit=True)), now=NOW)
    ids = [memory.id for memory in added]
    await memories.edit(scope, ids[0], content=f"{CANARY} keeps no key", who=CANARY)
    await memories.add(scope, [f"{CANARY} brings a vector"], embedding=[vector(*[1.0] * 64)])
    await memories.forget(scope, ids[1])
    message = Message(role="user", text=f"{CANARY} waits", event_id="e")
    await memories.remember(scope, [message], "waiting")
    payload = {"said": CANARY}
    await store.queue.enqueue(
        [a_job(scope, now=NOW - 9 * DAY, session_id="failed", payload=payload)]
    )
    claimed = await store.queue.claim("worker", now=NOW, lease_seconds=20)
    assert claimed is not None
    assert claimed.payload == payload
    await store.queue.release(claimed, run_after=NOW, error=f"What is {CANARY}?", dead=True)
    await memories.recall(scope, f"what does {CANARY} keep", deliver=False)
    return ids


def seen(uri: str) -> bytes:
    """Return the content of the database's files, a dump and every column of every table."""
    bare = uri.partition("&rls")[0]
    if uri.startswith("libsql"):
        path = Path(uri.removeprefix("libsql:///"))
        with closing(sqlite3.connect(path)) as connection:
            dumped = "\n".join(connection.iterdump()).encode()
        return dumped + b"".join(file.read_bytes() for file in path.parent.iterdir())
    with psycopg.connect(bare) as connection:  # as pg_dump reads it
        connection.execute("SET search_path = kagent_memory")
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'kagent_memory'"
        ).fetchall()
        parts: list[bytes] = []
        for (table,) in tables:
            with connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as rows:
                parts += [bytes(part) for part in rows]
    return b"".join(parts)


def shown(uri: str) -> list[bytes]:
    data = seen(uri)
    return [
        data[max(0, match.start() - 60) : match.end() + 60]
        for sign in (WORD, HEX)
        for match in sign.finditer(data)
    ]


async def everything(memories: Memories, scope: Scope) -> list[Any]:
    """Return the results of all ways of reading."""
    listed = (await memories.list(scope, order="oldest", limit=100)).memories
    hits = await memories.recall(scope, CANARY, limit=20, deliver=False)
    histories = [await memories.history(scope, memory.id) for memory in listed]
    jobs = [(job.payload, job.error) for job in await memories.store.queue.jobs(scope=scope)]
    return [listed, sorted(hit.memory.id for hit in hits), histories, jobs]


async def test_encrypted_text_is_seen_in_no_file_dump_or_column(uri):
    """Encrypted text appears in no file, dump or column."""
    async with await opened(uri, NEW) as memories:
        await lived(memories, ADA)
    assert not shown(uri)


async def test_a_guess_at_a_text_is_not_confirmed_by_a_digest(uri):
    """A dump holds no plain hash of a text that would confirm a guess."""
    original = memory(1)
    guessed = [planning.identity_of(original), postings.packed({"quokka77": 1})[:8]]
    for keys, scope, confirmed in ((None, GRACE, True), (NEW, ADA, False)):
        async with await opened(uri, keys) as memories:
            store = memories.store
            await store.apply(scope, Batch(changes=adding(original, explicit=True)), now=NOW)
            dumped = await asyncio.to_thread(seen, uri)
            assert [guess.hex().encode() in dumped.lower() for guess in guessed] == [confirmed] * 2
            await memories.forget(scope, everything=True)


async def both(memories: Memories) -> Any:
    """Everything of Ada and Grace."""
    return [await everything(memories, scope) for scope in (ADA, GRACE)]


async def test_rotation_to_a_key_and_to_the_next_keeps_all(uri, monkeypatch):
    """Rotation from plain to a key, and on to the next, changes no answer."""
    monkeypatch.setattr(maintenance, "ROWS_AT_ONCE", 3)
    async with await opened(uri) as memories:
        await lived(memories, ADA, 12)
        await lived(memories, GRACE, 4)
        before = await both(memories)
    assert shown(uri), "the scan finds what is plain"
    for keys in (OLD, f"{NEW},{OLD}"):
        async with await opened(uri, keys) as memories:
            assert await both(memories) == before
            planned = await memories.rotate_keys(dry_run=True)
            rotated = await memories.rotate_keys()
            assert keys.startswith(f"{rotated.key}:")
            assert rotated.rows > 20
            assert (planned.scopes, planned.rows) == (rotated.scopes, 0) == (2, 0)
            assert (await memories.rotate_keys()).rows == 0
            assert await both(memories) == before
        assert not shown(uri)
    async with await opened(uri, NEW) as memories:  # the old key is needed no more
        assert await both(memories) == before


async def test_an_interrupted_rotation_goes_on(uri, monkeypatch):
    """A killed rotation can be resumed, and readers, writers and who forgets work meanwhile."""
    monkeypatch.setattr(maintenance, "ROWS_AT_ONCE", 1)
    async with await opened(uri, OLD) as memories:
        ids = await lived(memories, ADA, 8)
        before = await everything(memories, ADA)
    for _ in range(4):
        async with await opened(uri, f"{NEW},{OLD}") as memories:
            rotating = asyncio.create_task(memories.rotate_keys())
            for _ in range(3):
                assert await everything(memories, ADA) == before
            rotating.cancel()
            await asyncio.gather(rotating, return_exceptions=True)
    async with await opened(uri, OLD) as memories:
        for name in "abcdefgh":
            await memories.add(Scope("gone", name, "notes"), [name])
    async with await opened(uri, f"{NEW},{OLD}") as memories:
        await asyncio.gather(
            memories.rotate_keys(),
            memories.rotate_keys(),
            memories.forget_tenant("gone"),
            memories.edit(ADA, ids[2], content=f"{CANARY} number 0"),
            memories.add(ADA, [f"{CANARY} came meanwhile"]),
        )
        assert (await memories.rotate_keys(dry_run=True)).scopes == 0
    async with await opened(uri, NEW) as memories:
        assert {f"{CANARY} number 0", f"{CANARY} came meanwhile"} < await listed(memories)


async def test_what_is_the_same_is_the_same_whichever_key_sealed_it(uri):
    """Equal memories, tombstones and slots match while parts of a scope are plain or sealed by
    another key.
    """
    first = memory(1, event_ids=("e1",))
    for keys in (None, OLD, f"{NEW},{OLD}"):
        async with await opened(uri, keys) as memories:
            store = memories.store

            async def apply(*added: Memory) -> Sequence[str | None]:
                batch = Batch(changes=adding(*added))
                return await memories.store.apply(ADA, batch, now=NOW)

            again = first if keys is None else memory(1, event_ids=("e2",))
            assert await apply(again) == (first.id,)
            slot = f"{CANARY} 1\n{CANARY} keeps".lower()
            [row] = await store.memories.select(ADA, MemoryQuery(slots=[slot], now=NOW))
            assert row.id == first.id
            [fresh] = await apply(memory(2, event_ids=(f"{keys}",)))
            if keys is None:
                await memories.forget(ADA, fresh or "")
            for _ in range(2):
                assert await apply(memory(2, event_ids=(f"{keys} again",))) == (None,)
                if keys:
                    await memories.rotate_keys()


async def test_forgetting_finds_plain_history_of_an_encrypted_text(uri):
    """Forgetting erases superseded memories of equal content, even if they are still plain."""
    former, again = memory(1, state="superseded"), memory(1)
    for keys, added in ((None, [former]), (NEW, [again, memory(7, "Wombat", state="superseded")])):
        async with await opened(uri, keys) as memories:
            batch = Batch(changes=adding(*added, explicit=True))
            await memories.store.apply(ADA, batch, now=NOW)
    async with await opened(uri, NEW) as memories:
        assert {*await memories.forget(ADA, ids=[again.id])} == {again.id, former.id}


ALIKE = Filter(
    topics=(f"{CANARY} topic", "none"),
    author=f"{CANARY} author",
    category=f"{CANARY} category",
    metadata={f"{CANARY} name": f"{CANARY} value"},
)
FILTERS = (
    (ALIKE, {*range(6)}),
    (Filter(tags=(f"{CANARY} tag", "tag 1")), {1, 4}),
    (Filter(metadata={"number": 4}), {4}),
    (Filter(metadata={"number": True}), set[int]()),
)


async def test_filters_find_the_same_plain_sealed_and_of_two_keys(uri):
    """Filters and facets give the same results for plain rows, sealed rows and rows of two keys."""
    for place, keys in enumerate((None, OLD, f"{NEW},{OLD}")):
        async with await opened(uri, keys) as memories:
            some = [memory(number) for number in (2 * place, 2 * place + 1)]
            await memories.store.apply(ADA, Batch(changes=adding(*some)), now=NOW)
    async with await opened(uri, f"{NEW},{OLD}") as memories:
        for _ in range(2):
            for filter, numbers in FILTERS:
                page = await memories.list(ADA, filter=filter, limit=100)
                hits = await memories.recall(ADA, "keys", filter=filter, limit=20)
                for results in (page.memories, [hit.memory for hit in hits]):
                    assert {memory.metadata["number"] for memory in results} == numbers, filter
            facets = await memories.facets(ADA)
            assert (facets.total, facets.topics) == (6, {f"{CANARY} topic": 6, "keys": 6})
            await memories.rotate_keys()


@pytest.mark.parametrize("keys", [None, NEW, key("old", "x")], ids=["none", "another", "wrong"])
async def test_a_lost_or_wrong_key_is_an_error_that_names_it(uri, keys):
    """A lost or wrong key raises an error with its id, never an empty answer."""
    async with await opened(uri, OLD) as memories:
        ids = await lived(memories, ADA)
    async with await opened(uri, keys) as memories:
        for call in (
            memories.recall(ADA, CANARY),
            memories.history(ADA, ids[0]),
            memories.jobs(scope=ADA),
            memories.add(ADA, ["more"]),
            memories.forget(ADA, ids[0]),
            memories.list(ADA, filter=Filter(tags=("x",))),
            memories.facets(ADA),
        ):
            with pytest.raises(ConfigurationError, match="'old'") as error:
                await call
            assert OLD.partition(":")[2] not in str(error.value)
        if keys is not None:
            with pytest.raises(ConfigurationError, match="'old'"):
                await memories.rotate_keys()
        await memories.forget_tenant("acme")  # who lost the key can still be rid of what it locked
        assert not (await memories.list(ADA)).memories
    async with await opened(uri, OLD) as memories:
        assert not (await memories.list(ADA)).memories


async def test_a_job_whose_key_is_lost_waits_and_holds_up_nobody_else(uri, caplog):
    """A job with a missing key stays queued with occasional warnings, blocks no other, and runs
    once its key is back.
    """
    messages = [Message(role="user", text="I moved to Berlin", event_id="e")]
    locked = [Scope("acme", f"user {number}", "notes") for number in range(25)]
    async with await opened(uri, OLD) as memories:
        for scope in locked:
            await memories.remember(scope, messages, "s")
    async with await opened(uri, NEW) as memories:
        await memories.remember(GRACE, messages, "s")
        for _ in range(5):
            await memories.work(until_idle=True)
        assert (await memories.stats(GRACE)).visible == 1
        assert caplog.text.count("'old'") <= 3
    async with await opened(uri, f"{NEW},{OLD}") as memories:
        await memories.work(until_idle=True)
        assert [(await memories.stats(scope)).visible for scope in locked] == [1] * 25


async def test_the_doctor_names_the_key_that_is_missing(uri):
    """The doctor names the missing key."""
    async with await opened(uri, OLD) as memories:
        await memories.add(ADA, [Fact("Ada likes tea", ttl_days=0)])
    for keys, state, text in (
        (None, "bad", "'old'"),
        (NEW, "bad", "'old'"),
        (f"{NEW},{OLD}", "ok", "'2026-11'"),
    ):
        findings = await doctor.examine(uri, llm=False, encryption_keys=keys)
        [diagnosis] = [finding for finding in findings if finding.part == "encryption"]
        assert diagnosis.state == state
        assert text in diagnosis.text


async def test_rows_cannot_be_exchanged_nor_altered(postgres_uri):
    """A sealed value that was altered or moved to another row is refused."""
    async with await opened(postgres_uri, NEW) as memories:
        first, second = await memories.add(ADA, ["Ada likes tea", "Ada dislikes rum"])
        [other] = await memories.add(GRACE, ["Grace likes tea"])
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("SET search_path = kagent_memory")
        rows = dict(connection.execute("SELECT id::text, sealed FROM memory").fetchall())
        own = rows[first]
        for sealed in (rows[second], rows[other], own + b"\0", own[:20], b"", b"\x01\xff"):
            connection.execute("UPDATE memory SET sealed = %s WHERE id = %s", (sealed, first))
            async with await opened(postgres_uri, NEW) as memories:
                with pytest.raises(StoreError, match=r"altered|cut off"):
                    await memories.get(ADA, first)
                assert (await memories.get(ADA, second)).content == "Ada dislikes rum"


@pytest.mark.parametrize(
    "keys",
    ["", "id:", ":" + "A" * 43 + "=", "id:c2hvcnQ=", f"{NEW},{NEW}", "a b:" + "A" * 43,
     "A" * 43 + "=", "id:" + "é" * 43],
)  # fmt: skip
async def test_keys_of_another_form_are_refused_and_never_repeated(keys, tmp_path):
    """Malformed keys are refused before anything is created, and never shown."""
    path = tmp_path / "memory.db"
    with pytest.raises(ConfigurationError, match="encryption_keys") as error:
        await opened(f"libsql:///{path}", keys)
    assert not path.exists()
    assert "AAAA" not in str(error.value)
    assert NEW.partition(":")[2] not in str(error.value)


async def test_keys_are_never_shown_and_never_in_a_uri(tmp_path, monkeypatch, capsys):
    """Keys come from the environment only, and no command or error shows them."""
    uri = f"libsql:///{tmp_path}/memory.db"
    secret = NEW.partition(":")[2]
    with pytest.raises(ConfigurationError, match="KAGENT_MEMORY_ENCRYPTION_KEYS") as error:
        compose(f"{uri}?encryption_keys={NEW}", None, {}, {})
    assert secret not in f"{error.value} {MemorySettings(encryption_keys=NEW)!r}"
    monkeypatch.setenv("KAGENT_MEMORY_ENCRYPTION_KEYS", NEW)
    monkeypatch.setenv("KAGENT_MEMORY_URI", uri)
    for command in (f"add --app a --user u {CANARY}", "migrate --rotate-keys", "doctor", "show"):
        assert await asyncio.to_thread(main, command.split()) in (0, None)
    shows = capsys.readouterr()
    assert secret not in shows.out + shows.err
    assert not shown(uri)
    monkeypatch.delenv("KAGENT_MEMORY_ENCRYPTION_KEYS")
    assert await asyncio.to_thread(main, ["migrate", "--rotate-keys"]) == 5
    assert "KAGENT_MEMORY_ENCRYPTION_KEYS" in capsys.readouterr().err
