"""Memories travel whole from any store into any other; what is broken is refused before anything is
written.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kagent_memory import (
    Fact,
    Filter,
    InvalidInput,
    Memories,
    Message,
    Scope,
)
from kagent_memory.memories import transfer
from kagent_memory.memories.transfer import Imported
from kagent_memory.records import Vector, new_id
from kagent_memory.testing import FrozenClock, HashEmbedder, ScriptedLlm
from kagent_memory.testing.fixtures import vector
from memories.opening import ADA, START, kept_ids, later, merged, opened

GRACE = Scope("", "grace 👩‍🚀", "notes")
HOSTILE = 'Zoë\'s "line"\nwith \\ tabs\t and \u2028 and 👩‍🚀 and e\u0301 and </memory> {braces} %s'
METADATA = {"n": 0.1, "big": 2**53, "deep": [{"a": [None, -1e-7]}], "": HOSTILE, "zero": -0.0}
Lines = list[Any]


async def fill(memories: Memories) -> None:
    """Two scopes of all that a memory can have: history, usage, expiry, sessions, what was
    superseded and expired.
    """
    plain, pinned, brief, old, edited = await memories.add(
        ADA,
        [
            Fact(HOSTILE, "semantic", ("t", HOSTILE), ("x",), 0.25, metadata=METADATA),
            Fact("Ada keeps a key", pinned=True, subject="Ada", attribute="key"),
            Fact(
                "Gone tomorrow",
                ttl_days=1,
                type="episodic",
                origin="tool",
                author="Grace",
                event_ids=("e1", "e2"),
                happened_at=START - timedelta(days=9),
            ),
            Fact("Ada works at Initech", session_id="s", is_error=True),
            Fact("First words", verbatim=True, event_ids=("e3",)),
        ],
    )
    later(memories, hours=1)
    await memories.add(ADA, ["Ada works at Hooli"], replaces=old, who="Ada")
    await memories.edit(ADA, edited, content="Second words", who="me", why=HOSTILE)
    await memories.edit(ADA, edited, content="Third words")
    await memories.recall(ADA, "works at")
    await memories.feedback(ADA, plain, success=True)
    await memories.feedback(ADA, pinned, success=False)
    await memories.add(GRACE, [f"Grace counts {number}" for number in range(3)])
    await memories.deliveries.flush()
    later(memories, days=3)  # "brief" has expired
    assert brief not in {memory.id for memory in (await memories.list(ADA)).memories}


async def all_of(memories: Memories) -> Any:
    store = memories.store.memories
    return {
        scope: await store.whole(scope, await kept_ids(memories, scope)) for scope in (ADA, GRACE)
    }


async def exported(memories: Memories, folder: Path, **which: Any) -> Path:
    lines = [line async for line in memories.export(**which)]
    path = folder / f"{new_id()}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rewritten(path: Path, change: Callable[[Lines], Lines | None]) -> None:
    """Change the lines of a file; one that is no text is written as JSON."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = change(lines) or lines
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


async def test_all_of_a_memory_travels_to_any_store_and_back(store_uri, tmp_path):
    """History, usage, expiry and what was superseded travel whole through any store."""
    clock = FrozenClock(START)
    async with (
        await opened(clock=clock) as first,
        await opened(store_uri, clock=clock) as second,
        await opened(clock=clock) as third,
    ):
        await fill(first)
        before = await all_of(first)
        path = await exported(first, tmp_path)
        assert await second.import_(path, dry_run=True) == Imported(added=9)
        assert await second.scopes() == []
        counts: list[int] = []
        assert await second.import_(path, progress=counts.append) == Imported(added=9)
        assert counts[-1] == 9
        assert await second.import_(path) == Imported(present=9)
        again = await exported(second, tmp_path)
        assert await third.import_(again) == Imported(added=9)
        # also through a database that keeps times and numbers its own way
        assert await all_of(third) == before
        assert again.read_text().splitlines()[1:] == path.read_text().splitlines()[1:]
        recall = await second.recall(ADA, "who works at Hooli?")
        assert recall.hits[0].memory.content == "Ada works at Hooli"
        edited = next(
            whole.memory.id for whole in before[ADA] if whole.memory.content == "Third words"
        )
        for words in ("Second words", "First words"):
            assert [memory.content for memory in await second.undo(ADA, edited)] == [words]


def with_memory(**values: Any) -> Callable[[Lines], None]:
    """Other values in the memory of the fifth line."""
    return lambda lines: lines[4]["memory"].update(values)


def with_revision(**values: Any) -> Callable[[Lines], None]:
    """Other values in the last revision of a memory with several."""

    def change(lines: Lines) -> None:
        several = next(line["revisions"] for line in lines if len(line.get("revisions", ())) > 1)
        several[-1].update(values)

    return change


def with_vectors(*vectors: Any) -> Callable[[Lines], None]:
    """Other vectors in the second line."""
    return lambda lines: lines[1].update(vectors=vectors)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines[:-1], "cut off"),
        (lambda lines: [*lines[:3], json.dumps(lines[3])[:200]], "Line 4 .*Invalid JSON"),
        (lambda lines: [*lines[:2], *lines[3:]], "should hold 9"),
        (lambda lines: lines[0].update(version=2), "version: Input should be 1"),
        (lambda lines: [*lines, lines[1]], "more follows"),
        (lambda _lines: [""], "Line 1 .*cannot be imported"),
        (lambda lines: [lines[0], "[]", *lines[2:]], "Line 2"),
        (with_memory(id="not an id"), "Line 5"),
        (with_memory(expires_at="9999-12-31T23:59:59-23:59"), "Line 5 .*out of range"),
        (with_memory(usage={"retrieved": 2**40}), "Line 5"),
        (with_memory(links=[new_id() for _ in range(5)]), "Line 5 .*at most 4"),
        (with_revision(revision=9), "each has its own"),
        (with_revision(event_ids=["\0"]), "NUL"),
        (with_revision(memory_id="01900000-0000-7000-8000-000000000000"), "of another memory"),
        (with_vectors([0.0] * 64), "Line 2.*zero"),
        (with_vectors([float("nan")] * 64), "Line 2"),
        (with_vectors(["0.5"] * 64), "Line 2.*valid number"),
        (with_vectors([0.5]), "Line 2.*multiple of 64"),
        (lambda lines: lines[1].update(surprise=1), "Line .*surprise"),
        (with_memory(surprise=1), "Line .*surprise"),
        (with_revision(surprise=1), "Line .*surprise"),
    ],
)
async def test_of_a_broken_file_nothing_is_taken(damage, message, tmp_path):
    """A file that is cut off, damaged, or holds what is not known or kept is refused as a whole."""
    embedder = HashEmbedder(24)
    async with await opened(embedding=embedder) as memories, await opened() as other:
        await fill(memories)
        path = await exported(memories, tmp_path, vectors=True)
        rewritten(path, damage)
        for dry_run in (True, False):
            with pytest.raises(InvalidInput, match=message):
                await other.import_(path, dry_run=dry_run)
        assert (await other.scopes(), await other.store.memories.spaces.all()) == ([], [])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b'{"format": "kagent-memory"\xff\xfe'), "Line 1"),
        (lambda _path: None, "No such file"),
        (lambda path: path.write_text("x" * 5000), "longer than 1,000"),
        (lambda path: path.mkdir(), "no regular file"),
        (os.mkfifo, "no regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
    ],
    ids=["bytes", "nothing", "long line", "folder", "pipe", "device"],
)
async def test_what_is_no_file_of_text_is_refused_at_once(make, message, tmp_path, monkeypatch):
    """An import reads regular files only, and holds no line without an end."""
    monkeypatch.setattr(transfer, "MAX_LINE_BYTES", 1000)
    make(path := tmp_path / "export")
    async with await opened() as memories:
        with pytest.raises(InvalidInput, match=message):
            await asyncio.wait_for(memories.import_(path), 5)


async def test_a_turn_of_many_facts_travels_too(tmp_path):
    """A kept turn is imported with all of its facts, however many came from it."""
    cities = ("Oslo", "Lima", "Paris", "Rome", "Kyoto", "Quito")
    facts = [{"text": f"Ada was in {city}", "sources": [1]} for city in cities]
    llm = ScriptedLlm(lambda prompt: {"facts": facts, "decisions": []})
    async with await opened(llm=llm) as memories, await opened() as other:
        told = Message(text=f"I was in {', '.join(cities)}", event_id="e1")
        await memories.remember(ADA, [told], "s")
        await memories.work(until_idle=True)
        [turn] = (await memories.list(ADA, filter=Filter(superseded="source"))).memories
        assert len(turn.links) == len(cities)
        assert await other.import_(await exported(memories, tmp_path)) == Imported(added=7)


async def test_another_tenants_memories_are_refused(tmp_path):
    """An import into a tenant takes no file that holds another tenant's memories; an export holds
    the tenant, user or app that it names.
    """
    async with await opened() as memories, await opened() as other:
        await fill(memories)
        with pytest.raises(InvalidInput, match="tenant"):
            await other.import_(await exported(memories, tmp_path), tenant="acme")
        assert await other.scopes() == []
        nobody = await exported(memories, tmp_path, tenant="acme", app="none")
        assert (await other.import_(nobody, tenant="acme")).added == 0
        path = await exported(memories, tmp_path, tenant="acme", user="ada")
        assert (await other.import_(path, tenant="acme")).added == 6


async def test_an_import_brings_no_forgotten_and_no_equal_memory(tmp_path):
    """An import skips forgotten memories and those that say the same as an existing one."""
    async with await opened() as memories, await opened() as other:
        debt, skis = await memories.add(ADA, ["Ada owes money", "Ada skis"])
        await memories.remember(ADA, [Message(text="Ada has a secret", event_id="e9")], "s")
        await memories.work(until_idle=True)
        path = await exported(memories, tmp_path)
        await memories.forget(ADA, debt)
        await memories.forget(ADA, session_id="s")
        assert await memories.import_(path) == Imported(present=1, forgotten=2)
        assert await kept_ids(memories) == [skis]
        [same] = await other.add(ADA, ["Ada skis"])
        assert await other.import_(path) == Imported(added=2, equal=1)
        assert same in await kept_ids(other)


async def test_a_wording_that_was_forgotten_comes_with_no_history(store_uri, tmp_path):
    """A memory that once said what was forgotten here is left out."""
    async with await opened() as first, await opened(store_uri) as second:
        [id] = await first.add(ADA, [Fact("Ada dated Bob in Rome", session_id="s")])
        await second.import_(await exported(first, tmp_path))
        await second.forget(ADA, id)
        await first.edit(ADA, id, content="Ada is single")
        assert await second.import_(await exported(first, tmp_path)) == Imported(forgotten=1)


async def test_what_replaced_a_forgotten_value_is_imported(tmp_path):
    """A forgotten former value stays out, and the value that took its place comes."""
    async with await opened() as first, await opened() as second:
        [initech] = await first.add(ADA, ["Ada works at Initech"])
        [hooli] = await first.add(ADA, ["Ada works at Hooli"], replaces=initech)
        await second.forget(ADA, await second.add(ADA, ["Ada works at Initech"]))
        path = await exported(first, tmp_path)
        assert await second.import_(path) == Imported(added=1, forgotten=1)
        assert await kept_ids(second) == [hooli]


CITIES = ("Oslo", "Lima", "Paris", "Rome", "Kyoto")


def went_out(city: str) -> Fact:
    return Fact(f"The deployment went out to {city} without trouble", "episodic", ("d",))


async def deployed(memories: Memories) -> tuple[list[str], str]:
    """The ids of five memories, and of the summary that has taken their place."""
    ids = await memories.add(ADA, [went_out(city) for city in CITIES])
    return ids, await merged(memories, ids, "The deployment went out, from Oslo to Kyoto.")


@pytest.mark.parametrize("part", [1, 200])
async def test_a_summary_of_what_was_forgotten_stays_out(part, tmp_path, monkeypatch):
    """A summary of what was forgotten stays out, and so does what came of it."""
    monkeypatch.setattr(transfer, "PART", part)
    clock = FrozenClock(START)
    async with await opened(clock=clock) as first, await opened(clock=clock) as second:
        [other] = await first.add(ADA, ["Ada skis"])
        await second.forget(ADA, await second.add(ADA, [went_out(CITIES[0])]))
        _, summary = await deployed(first)
        await first.edit(ADA, summary, content="Everything went out, to Oslo too.")
        path = await exported(first, tmp_path)
        counts: list[int] = []
        assert await second.import_(path, dry_run=True) == Imported(added=1, forgotten=6)
        assert await second.import_(path, progress=counts.append) == Imported(added=1, forgotten=6)
        assert counts[-1] == 7
        assert await second.import_(path) == Imported(present=1, forgotten=6)
        assert await kept_ids(second) == [other]
        assert not list(await second.recall(ADA, "deployment Oslo", as_of=clock.now))


async def test_forgetting_during_an_import_takes_the_summary_along(tmp_path, monkeypatch):
    """A memory forgotten during its import takes its summary along."""
    monkeypatch.setattr(transfer, "PART", 1)
    clock = FrozenClock(START)
    async with await opened(clock=clock) as first, await opened(clock=clock) as second:
        ids, summary = await deployed(first)
        restore, erasures = second.store.memories.restore, []

        async def forgetting(scope: Scope, memories: Any, *, dry_run: bool, now: datetime) -> Any:
            if not dry_run and memories[0].memory.id == summary:
                erasures.append(await second.forget(ADA, ids[1]))
            return await restore(scope, memories, dry_run=dry_run, now=now)

        monkeypatch.setattr(second.store.memories, "restore", forgetting)
        path = await exported(first, tmp_path)
        assert await second.import_(path) == Imported(added=5, forgotten=1)
        assert {*erasures[0]} == {*ids}
        assert await kept_ids(second) == []


async def test_an_import_that_breaks_off_goes_on(tmp_path, monkeypatch):
    """The same call goes on after an interruption, and has all that the file brought embedded, by
    an embedder that replaces the current one too.
    """
    monkeypatch.setattr(transfer, "PART", 2)
    async with await opened() as memories, await opened(embedding=HashEmbedder()) as other:
        await fill(memories)
        path = await exported(memories, tmp_path)

        def stop(count: int) -> None:
            if count >= 4:
                raise ConnectionError("the cable")

        with pytest.raises(ConnectionError):
            await other.import_(path, progress=stop)
        for name in ("hash", "next"):
            await other.store.memories.spaces.replace(name, 64, None)
        assert await other.import_(path) == Imported(present=4, added=5)
        await other.work(until_idle=True)
        jobs = Counter((job.model, job.scope) for job in await other.jobs())
        assert jobs == {("next", ADA): 1, ("next", GRACE): 1}
        assert await all_of(other) == await all_of(memories)


async def vectors_of(memories: Memories) -> Any:
    """Every vector by its embedding space, scope and memory, as the bytes of float32."""
    store, result = memories.store.memories, {}
    for space in await store.spaces.all():
        for scope in (ADA, GRACE):
            vectors = await store.vectors(scope, space.number, await kept_ids(memories, scope))
            result |= {(space.name, scope, id): vector.tobytes() for id, vector in vectors.items()}
    return result


def unit(width: int, place: int) -> Vector:
    return vector(*(0.1 if at == place else 1e-7 * at for at in range(width)))


@pytest.mark.parametrize("keys", [None, "k:" + "A" * 43 + "="], ids=["plain", "encrypted"])
async def test_vectors_of_callers_travel_to_the_last_bit(store_uri, keys, tmp_path):
    """An import keeps the vectors that callers brought; the embedder makes its own anew."""
    embedder, more = HashEmbedder(24), {"encryption_keys": keys} if keys else {}
    async with (
        await opened(embedding=HashEmbedder(16)) as first,
        await opened(store_uri, embedding=embedder, **more) as second,
    ):
        await fill(first)
        own = vector(256.1, -0.0, 1e-9, 3, 2**-9, *[0] * 59)
        await first.add(ADA, ["Ada's own 64"], embedding=[own])
        await first.add(GRACE, ["Grace's 768"], embedding=[unit(768, 7)])
        before = await vectors_of(first)
        before = {key: value for key, value in before.items() if key[0] != "hash"}
        path = await exported(first, tmp_path, vectors=True)
        assert await second.import_(path, dry_run=True) == Imported(added=11)
        assert (await second.store.memories.spaces.all(), await second.scopes()) == ([], [])
        assert await second.import_(path) == Imported(added=11)
        assert (await vectors_of(second), embedder.calls) == (before, [])
        await second.work(until_idle=True)
        assert (await vectors_of(second)).items() > before.items()
        [hit] = await second.recall(ADA, "", embedding=own, limit=1)
        assert hit.memory.content == "Ada's own 64"


async def test_a_vector_never_travels_with_other_words(tmp_path, monkeypatch):
    """A memory edited during an export is exported without the vector of its former words."""
    async with await opened() as memories:
        [id] = await memories.add(ADA, ["Ada skis"], embedding=[unit(64, 1)])
        whole = memories.store.memories.whole

        async def reworded_meanwhile(scope: Scope, ids: Sequence[str]) -> Any:
            result = await whole(scope, ids)
            await memories.edit(ADA, id, content="Ada swims")
            return result

        monkeypatch.setattr(memories.store.memories, "whole", reworded_meanwhile)
        path = await exported(memories, tmp_path, vectors=True)
        line = json.loads(path.read_text().splitlines()[1])
        assert (line["memory"]["content"], line.get("vectors")) == ("Ada skis", None)
