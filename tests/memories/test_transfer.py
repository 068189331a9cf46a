"""Memories travel whole from any store into any other; what is broken is refused before anything is
written.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kagent_memory import Fact, Filter, InvalidInput, Memories, Message, ModelError, Scope
from kagent_memory.ingestion.editing import retired as retired_row
from kagent_memory.memories import export_file
from kagent_memory.memories.transfer import Imported
from kagent_memory.records import Change, new_id
from kagent_memory.stores.base import Batch
from kagent_memory.testing import FrozenClock, HashEmbedder, ScriptedLlm
from memories import opening

START = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
ADA, GRACE = Scope("acme", "ada", "notes"), Scope("", "grace 👩‍🚀", "notes")
HOSTILE = 'Zoë\'s "line"\nwith \\ tabs\t and \u2028 and 👩‍🚀 and e\u0301 and </memory> {braces} %s'
METADATA = {
    "n": 0.1,
    "big": 2**53,
    "deep": [{"a": [None, True, -1e-7]}],
    "text": HOSTILE,
    "": "",
    "zero": -0.0,
}


@pytest.fixture
def uri(store_uri: str) -> str:
    """A new store on each database; row security has tests of its own."""
    return store_uri


async def opened(
    uri: str = "libsql:///:memory:", clock: Any = None, *, embedder: Any = None, **more: Any
) -> Memories:
    return await opening.opened(uri, embedding=embedder, clock=clock or FrozenClock(START), **more)


async def lived(memories: Memories, clock: FrozenClock) -> None:
    """Two scopes of all that a memory can have: history, usage, expiry, sessions, what was
    superseded and expired.
    """
    (plain, pinned, brief, old, edited) = await memories.add(
        ADA,
        [
            Fact(
                HOSTILE,
                metadata=METADATA,
                topics=("t", HOSTILE),
                tags=("x",),
                importance=0.25,
                session_id="s",
            ),
            Fact(
                "Ada keeps a key",
                pinned=True,
                subject="Ada",
                attribute="key",
                happened_at=START - timedelta(days=9),
            ),
            Fact(
                "Gone tomorrow",
                ttl_days=1,
                type="episodic",
                origin="tool",
                author="Grace",
                event_ids=("e1", "e2"),
            ),
            Fact("Ada works at Initech", session_id="s", is_error=True),
            Fact("First words", verbatim=True, event_ids=("e3",)),
        ],
    )
    clock.now += timedelta(hours=1)
    await memories.add(ADA, ["Ada works at Hooli"], replaces=old, who="Ada")
    await memories.edit(ADA, edited, content="Second words", who="me", why=HOSTILE)
    await memories.edit(ADA, edited, content="Third words")
    await memories.recall(ADA, "works at")
    await memories.feedback(ADA, plain, success=True)
    await memories.feedback(ADA, pinned, success=False)
    await memories.add(GRACE, [f"Grace counts {number}" for number in range(3)])
    await memories.parts.deliveries.flush()
    clock.now += timedelta(days=3)  # "brief" has expired
    assert brief not in {one.id for one in (await memories.list(ADA)).memories}


async def all_of(memories: Memories) -> Any:
    found = {}
    for scope in (ADA, GRACE):
        found[scope] = await memories.store.memories.whole(
            scope, await memories.store.memories.kept(scope, Filter())
        )
    return found


async def exported(memories: Memories, path: Path, **which: Any) -> Path:
    lines = [line async for line in memories.export(**which)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


async def test_all_of_a_memory_travels_to_any_store_and_back(uri, tmp_path):
    clock = FrozenClock(START)
    async with (
        await opened(clock=clock) as first,
        await opened(uri, clock) as second,
        await opened(clock=clock) as third,
    ):
        await lived(first, clock)
        before = await all_of(first)
        assert sum(len(found) for found in before.values()) == 9
        path = await exported(first, tmp_path / "a.jsonl")
        assert await second.import_(path, dry_run=True) == Imported(added=9)
        assert await all_of(second) == {ADA: [], GRACE: []}
        told: list[int] = []
        assert await second.import_(path, progress=told.append) == Imported(added=9)
        assert told[-1] == 9
        assert await second.import_(path) == Imported(present=9)
        again = await exported(second, tmp_path / "b.jsonl")
        assert await third.import_(again) == Imported(added=9)
        # also through a database that keeps times and numbers its own way
        assert await all_of(third) == before
        assert again.read_text().splitlines()[1:] == path.read_text().splitlines()[1:]
        found = await second.recall(ADA, "who works at Hooli?")
        assert found.hits[0].memory.content == "Ada works at Hooli"
        edited = next(one.memory.id for one in before[ADA] if one.memory.content == "Third words")
        assert [one.content for one in await second.undo(ADA, edited)] == ["Second words"]
        assert [one.content for one in await second.undo(ADA, edited)] == ["First words"]


@pytest.mark.parametrize(
    ("which", "lines"),
    [
        ({"tenant": "acme"}, 6),
        ({"user": "ada"}, 6),
        ({"app": "notes"}, 9),
        ({"tenant": ""}, 3),
        ({"user": "nobody"}, 0),
    ],
    ids=str,
)
async def test_a_tenant_a_user_or_an_app_can_be_exported(which, lines, tmp_path):
    clock = FrozenClock(START)
    async with await opened(clock=clock) as memories:
        await lived(memories, clock)
        path = await exported(memories, tmp_path / "a.jsonl", **which)
        head, *_, end = [json.loads(line) for line in path.read_text().splitlines()]
        assert (head["format"], head["version"]) == ("kagent-memory", 1)
        assert end == {"end": True, "memories": lines}
        async with await opened(clock=clock) as other:
            assert await other.import_(path) == Imported(added=lines)


def cut(lines: list[str]) -> list[str]:
    return lines[:-1]


def halved(lines: list[str]) -> list[str]:
    return [*lines[:3], lines[3][: len(lines[3]) // 2]]


def without_one(lines: list[str]) -> list[str]:
    return [*lines[:2], *lines[3:]]


def later(lines: list[str]) -> list[str]:
    return [lines[0].replace('"version":1', '"version":3'), *lines[1:]]


def changed(**values: Any) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        record = json.loads(lines[4])
        record["memory"].update(values)
        return [*lines[:4], json.dumps(record), *lines[5:]]

    return change


def history_changed(**values: Any) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        records = [json.loads(line) for line in lines]
        revisions = next(one["revisions"] for one in records if len(one.get("revisions", ())) > 1)
        revisions[-1].update(values)
        return [json.dumps(one) for one in records]

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "cut off"),
        (halved, "damaged"),
        (without_one, "should hold 9"),
        (later, "version 3"),
        (lambda lines: lines[1:], "not an export"),
        (lambda lines: [*lines, lines[1]], "more follows"),
        (lambda lines: [*lines, " " * 10_000, lines[1]], "more follows"),
        (lambda _lines: [], "cut off"),
        (lambda lines: [lines[0], "[]", *lines[2:]], "Line 2"),
        (changed(id="not an id"), "Line 5"),
        (changed(content="a\0b"), "Line 5"),
        (changed(type="dream"), "Line 5"),
        (changed(metadata={"a": "\0"}), "Line 5"),
        (changed(session_id="s" * 2000), "Line 5"),
        (changed(created_at="2026-03-01T09:00:00"), "Line 5 .*time zone"),
        (changed(expires_at="9999-12-31T23:59:59-23:59"), "Line 5 .*out of range"),
        (changed(importance=1.5), "Line 5 .*between 0 and 1"),
        (changed(ttl_days=10**12), "Line 5 .*36,500"),
        (changed(revision=2**31), "Line 5"),
        (changed(usage={"retrieved": 2**40}), "Line 5"),
        (changed(superseded_by="another"), "Line 5 .*not a UUID"),
        (history_changed(revision=1), "each has its own"),
        (history_changed(revision=9), "each has its own"),
        (history_changed(event_ids=["\0"]), "NUL"),
        (history_changed(at="2026-03-01T09:00:00"), "time zone"),
        (history_changed(memory_id="01900000-0000-7000-8000-000000000000"), "of another memory"),
    ],
)
async def test_of_a_broken_file_nothing_is_taken(damage, said, tmp_path):
    clock = FrozenClock(START)
    async with await opened(clock=clock) as memories, await opened(clock=clock) as other:
        await lived(memories, clock)
        path = await exported(memories, tmp_path / "a.jsonl")
        path.write_text(
            "".join(f"{line}\n" for line in damage(path.read_text().splitlines())), encoding="utf-8"
        )
        for dry_run in (True, False):
            with pytest.raises(InvalidInput, match=said):
                await other.import_(path, dry_run=dry_run)
        assert await other.scopes() == []


@pytest.mark.parametrize("kind", ["bytes", "nothing", "folder", "pipe", "device", "long line"])
async def test_what_is_no_file_of_text_is_refused_at_once(kind, tmp_path, monkeypatch):
    """An import reads regular files only, and holds no line without an end."""
    monkeypatch.setattr(export_file, "MAX_LINE_BYTES", 1000)
    path = tmp_path / kind
    said = {"bytes": "first line", "nothing": "no such file", "long line": "longer than 1,000"}
    match kind:
        case "bytes":
            path.write_bytes(b'{"format": "kagent-memory"\xff\xfe')
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/zero")
        case "long line":
            path.write_text("x" * 5000)
        case _:
            pass
    async with await opened() as memories:
        with pytest.raises(InvalidInput, match=said.get(kind, "no regular file")):
            await asyncio.wait_for(memories.import_(path), 5)


@pytest.mark.parametrize(
    "where",
    [(0,), (1,), (1, "scope"), (1, "memory"), (1, "memory", "usage"), (2, "revisions", 0), (-1,)],
    ids=str,
)
async def test_a_field_that_is_not_known_is_named(where, tmp_path):
    """Nothing in a file is dropped silently: what is not known here refuses it, by its name."""
    clock = FrozenClock(START)
    async with await opened(clock=clock) as memories, await opened() as other:
        await lived(memories, clock)
        path = await exported(memories, tmp_path / "a.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        part: Any = [*lines[:2], next(one for one in lines if one.get("revisions")), lines[-1]]
        for step in where:
            part = part[step]
        part["surprise"] = 1
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        with pytest.raises(InvalidInput, match=r"not known.*surprise"):
            await other.import_(path)
        assert await other.scopes() == []


async def test_another_tenants_memories_are_refused(tmp_path):
    clock = FrozenClock(START)
    async with await opened(clock=clock) as memories, await opened(clock=clock) as other:
        await lived(memories, clock)
        path = await exported(memories, tmp_path / "a.jsonl")
        with pytest.raises(InvalidInput, match="tenant"):
            await other.import_(path, tenant="acme")
        assert await other.scopes() == []
        path = await exported(memories, tmp_path / "b.jsonl", tenant="acme")
        assert (await other.import_(path, tenant="acme")).added == 6


async def test_an_import_brings_no_forgotten_and_no_equal_memory(tmp_path):
    """What was forgotten stays forgotten and what is said is not said twice."""
    async with await opened() as memories:
        gone, kept = await memories.add(ADA, ["Ada owes money", "Ada skis"])
        await memories.remember(ADA, [Message(text="Ada has a secret", event_id="e9")], "s")
        await memories.work(until_idle=True)
        path = await exported(memories, tmp_path / "a.jsonl")
        await memories.forget(ADA, gone)
        await memories.forget(ADA, session_id="s")
        assert await memories.import_(path) == Imported(present=1, forgotten=2)
        assert await memories.store.memories.kept(ADA, Filter()) == [kept]
        async with await opened() as other:
            (same,) = await other.add(ADA, ["Ada skis"])
            assert await other.import_(path) == Imported(added=2, equal=1)
            assert same in await other.store.memories.kept(ADA, Filter())


async def test_a_wording_that_was_forgotten_comes_with_no_history(uri, tmp_path):
    async with await opened() as first, await opened(uri) as second:
        [id] = await first.add(ADA, [Fact("Ada dated Bob in Rome", session_id="s")])
        await second.import_(await exported(first, tmp_path / "before.jsonl"))
        await second.forget(ADA, id)
        await first.edit(ADA, id, content="Ada is single")
        again = await second.import_(await exported(first, tmp_path / "after.jsonl"))
        assert (again.added, again.forgotten) == (0, 1)


CITIES = ("Oslo", "Lima", "Paris", "Rome", "Kyoto")
SUMMARY = "The deployment went out, from Oslo to Kyoto."


async def summed_up(memories: Memories, clock: FrozenClock) -> tuple[list[str], str]:
    """The ids of five memories, and of the summary that has taken their place."""
    text = "The deployment went out to {} without trouble"
    ids = await memories.add(
        ADA, [Fact(text.format(city), type="episodic", topics=("d",)) for city in CITIES]
    )
    clock.now += timedelta(days=91)
    summary = (await memories.consolidate(ADA))[0].memory
    return ids, summary.id


def summing(text: str = SUMMARY) -> dict[str, Any]:
    llm = ScriptedLlm(
        lambda prompt: {"summary": text} if "<memories>" in prompt else {"groups": []}
    )
    return {"llm": llm, "policy": "archive", "summarize_after_days": 90}


async def words(memories: Memories) -> str:
    """All that is kept, history included."""
    return repr(
        await memories.store.memories.whole(ADA, await memories.store.memories.kept(ADA, Filter()))
    )


@pytest.mark.parametrize("part", [1, 200])
async def test_a_summary_of_what_was_forgotten_stays_out(part, tmp_path, monkeypatch):
    """A summary of what was forgotten stays out and so does what came of it."""
    monkeypatch.setattr(export_file, "PART", part)
    clock = FrozenClock(START)
    async with await opened(clock=clock, **summing()) as first, await opened(clock=clock) as second:
        [other] = await first.add(ADA, ["Ada skis"])
        [oslo] = await second.add(ADA, [f"The deployment went out to {CITIES[0]} without trouble"])
        await second.forget(ADA, oslo)
        _, summary = await summed_up(first, clock)
        await first.edit(ADA, summary, content="Everything went out, to Oslo too.")
        path = await exported(first, tmp_path / "a.jsonl")
        told: list[int] = []
        assert await second.import_(path, dry_run=True) == Imported(added=1, forgotten=6)
        assert await second.import_(path, progress=told.append) == Imported(added=1, forgotten=6)
        assert told[-1] == 7
        assert await second.import_(path) == Imported(present=1, forgotten=6)
        assert await second.store.memories.kept(ADA, Filter()) == [other]
        assert not list(await second.recall(ADA, "deployment Oslo", as_of=clock.now))


async def test_forgetting_during_an_import_takes_the_summary_along(tmp_path, monkeypatch):
    """What is forgotten while it comes in takes the summary along."""
    monkeypatch.setattr(export_file, "PART", 1)
    clock = FrozenClock(START)
    async with await opened(clock=clock, **summing()) as first, await opened(clock=clock) as second:
        ids, summary = await summed_up(first, clock)
        path = await exported(first, tmp_path / "a.jsonl")
        restore, done = second.store.memories.restore, []

        async def forgetting(scope: Scope, memories: Any, *, dry_run: bool, now: datetime) -> Any:
            if not dry_run and memories[0].memory.id == summary:
                done.append(await second.forget(ADA, ids[1]))
            return await restore(scope, memories, dry_run=dry_run, now=now)

        monkeypatch.setattr(second.store.memories, "restore", forgetting)
        assert await second.import_(path) == Imported(added=5, forgotten=1)
        assert {*done[0]} == {*ids}
        assert await second.store.memories.kept(ADA, Filter()) == []


async def test_an_import_that_breaks_off_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(export_file, "PART", 2)
    clock = FrozenClock(START)
    async with await opened(clock=clock) as memories, await opened(clock=clock) as other:
        await lived(memories, clock)
        path = await exported(memories, tmp_path / "a.jsonl")

        def stop(done: int) -> None:
            if done >= 4:
                raise ConnectionError("the cable")

        with pytest.raises(ConnectionError):
            await other.import_(path, progress=stop)
        assert await other.import_(path) == Imported(present=5, added=4)
        assert await all_of(other) == await all_of(memories)


async def vectors_of(memories: Memories) -> Any:
    """Every vector by its embedding space, scope and memory, as the bytes of float32."""
    found = {}
    for space in await memories.store.memories.spaces.all():
        for scope in (ADA, GRACE):
            ids = await memories.store.memories.kept(scope, Filter())
            for id, vector in (
                await memories.store.memories.vectors(scope, space.number, ids)
            ).items():
                found[space.name, scope, id] = vector.tobytes()
    return found


def unit(width: int, place: int) -> list[float]:
    return [0.1 if at == place else 1e-7 * at for at in range(width)]


@pytest.mark.parametrize("keys", [None, "k:" + "A" * 43 + "="], ids=["plain", "encrypted"])
async def test_vectors_travel_to_the_last_bit_when_asked(uri, keys, tmp_path):
    clock = FrozenClock(START)
    first_embedder, embedder = HashEmbedder(dimensions=24), HashEmbedder(dimensions=24)
    more = {"encryption_keys": keys} if keys else {}
    async with (
        await opened(clock=clock, embedder=first_embedder) as first,
        await opened(uri, clock, embedder=embedder, **more) as second,
        await opened(clock=clock) as third,
    ):
        await lived(first, clock)
        await first.add(
            ADA,
            ["Ada's own 5", "and 5 more"],
            embedding=[unit(5, 1), [256.1, -0.0, 1e-9, 3, 2**-9]],
        )
        await first.add(GRACE, ["Grace's 768"], embedding=[unit(768, 7)])
        await first.work(until_idle=True)
        before = await vectors_of(first)
        assert {name for name, _, _ in before} == {"hash", "external-5", "external-768"}
        path = await exported(first, tmp_path / "a.jsonl", vectors=True)
        head = json.loads(path.read_text().splitlines()[0])
        assert head["version"] == 2
        assert ("hash", 24) in [
            (one["name"], one["dimensions"]) for one in head["embedding_spaces"]
        ]
        would = await second.import_(path, dry_run=True)
        assert (await second.store.memories.spaces.all(), await second.scopes()) == ([], [])
        done = await second.import_(path)
        assert would == done == Imported(added=12)
        assert would.vectors == done.vectors == len(before)
        assert await vectors_of(second) == before
        assert len(embedder.calls) == 1  # what tells the model
        await second.work(until_idle=True)
        assert {text for texts, _ in embedder.calls[1:] for text in texts} == {
            "Ada's own 5",
            "and 5 more",
            "Grace's 768",
        }
        assert await second.import_(path) == Imported(present=12)
        again = await exported(second, tmp_path / "b.jsonl", vectors=True)
        # by words alone, and for whoever embeds later
        assert (await third.import_(again)).vectors == len(before) + 3
        assert await vectors_of(third) == await vectors_of(second)
        assert (await second.recall(ADA, "who works at Hooli?")).mode == "hybrid"
        near = await third.parts.caller_vectors.nearest(
            ADA, np.array(unit(5, 1), np.float32), limit=1
        )
        assert near[0][0].content == "Ada's own 5"


@pytest.mark.parametrize(
    "other",
    [
        HashEmbedder(dimensions=16),
        HashEmbedder(name="other", dimensions=24),
        type(
            "Changed",
            (HashEmbedder,),
            {"_vector": lambda self, text: HashEmbedder._vector(self, text[::-1])},
        )(24),
    ],
    ids=["width", "name", "model of the same name"],
)
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
async def test_vectors_of_another_model_are_made_anew(other, used, tmp_path):
    async with await opened(embedder=HashEmbedder(dimensions=24)) as memories:
        await memories.add(ADA, ["Ada skis", "Ada swims"])
        path = await exported(memories, tmp_path / "a.jsonl", vectors=True)
    async with await opened(embedder=other) as memories:
        if used:
            await memories.add(GRACE, ["Grace sings"])
        done = await memories.import_(path)
        assert (done, done.vectors) == (Imported(added=2), 0)
        await memories.work(until_idle=True)
        (space,) = await memories.store.memories.spaces.all()
        assert space.dimensions == other.dimensions
        ids = await memories.store.memories.kept(ADA, Filter())
        made = await memories.store.memories.vectors(ADA, space.number, ids)
        for id, vector in made.items():
            content = (await memories.get(ADA, id)).content
            assert vector @ (await other.embed([content], kind="document"))[0] > 0.99
        assert len(made) == 2


async def test_an_embedder_that_is_away_has_nothing_imported_half(tmp_path):
    class Away(HashEmbedder):
        is_away = False

        async def embed(self, texts: Any, *, kind: Any) -> Any:
            if self.is_away:
                raise ConnectionError("down")
            return await super().embed(texts, kind=kind)

    async with await opened(embedder=HashEmbedder(dimensions=24)) as memories:
        await memories.add(ADA, ["Ada skis"])
        path = await exported(memories, tmp_path / "a.jsonl", vectors=True)
    embedder = Away(dimensions=24)
    async with await opened(embedder=embedder) as memories:
        embedder.is_away = True
        with pytest.raises(ModelError):
            await memories.import_(path)
        assert await memories.scopes() == []
        embedder.is_away = False
        assert (await memories.import_(path)).vectors == 1


def vectored(line: Any = None, head: Any = None, **more: Any) -> Callable[[list[str]], list[str]]:
    """Other values in the first line, or in the vectors of the second."""

    def change(lines: list[str]) -> list[str]:
        first, second = json.loads(lines[0]), json.loads(lines[1])
        if head is not None:
            first["embedding_spaces"] = head
        elif more:
            first["embedding_spaces"][0] |= more
        if line is not None:
            second["vectors"] = line
        return [json.dumps(first), json.dumps(second), *lines[2:]]

    return change


FINE = [0.5] * 24


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (vectored([{"space": 0, "numbers": FINE[1:]}]), "Line 2.*24"),
        (vectored([{"space": 0, "numbers": [0.0] * 24}]), "Line 2.*zero"),
        (vectored([{"space": 0, "numbers": [*FINE[1:], float("nan")]}]), "Line 2"),
        (vectored([{"space": 0, "numbers": [*FINE[1:], 10**400]}]), "Line 2"),
        (vectored([{"space": 0, "numbers": [*FINE[1:], True]}]), "Line 2"),
        (vectored([{"space": 0, "numbers": [0.5] * 200_000}]), "Line 2.*24"),
        (vectored([{"space": 1, "numbers": FINE}]), "Line 2.*no embedding space 1"),
        (vectored([{"space": 0, "numbers": FINE}] * 2), "Line 2.*two vectors"),
        (vectored([{"numbers": FINE}]), "Line 2"),
        (vectored(head=[]), "no embedding space 0"),
        (vectored(head=[{}]), "Line 1"),
        (vectored(dimensions=10**12), "Line 1"),
        (vectored(name="a\0b"), "Line 1"),
        (vectored(name="external-7"), "Line 1"),
        (vectored(state="retired"), "Line 1"),
        (vectored(probe=[float("nan")] * 24), "Line 1"),
        (vectored(surprise=1), "Line 1"),
    ],
)
async def test_hostile_vectors_are_refused_before_anything_is_written(damage, said, tmp_path):
    async with (
        await opened(embedder=HashEmbedder(dimensions=24)) as memories,
        await opened() as other,
    ):
        await memories.add(ADA, ["Ada skis", "Ada swims"])
        path = await exported(memories, tmp_path / "a.jsonl", vectors=True)
        path.write_text(
            "".join(f"{line}\n" for line in damage(path.read_text().splitlines())), encoding="utf-8"
        )
        with pytest.raises(InvalidInput, match=said):
            await other.import_(path)
        assert (await other.scopes(), await other.store.memories.spaces.all()) == ([], [])


async def test_too_many_widths_leave_no_embedding_space_behind(tmp_path):
    """A file of more widths than a tenant may have is refused before a table is made."""
    embedder = HashEmbedder(dimensions=16)
    async with await opened(embedder=embedder) as memories:
        await memories.add(ADA, ["Ada skis"])
        whole = await exported(memories, tmp_path / "a", vectors=True)
    lines = [json.loads(line) for line in whole.read_text().splitlines()]
    for width in (*range(20, 29), 768):  # kagent's own does not count
        named = {
            "name": f"external-{width}",
            "dimensions": width,
            "state": "current",
            "probe": None,
        }
        lines[1]["vectors"].append(
            {"space": len(lines[0]["embedding_spaces"]), "numbers": [1.0] * width}
        )
        lines[0]["embedding_spaces"].append(named)
    path = tmp_path / "b.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    async with await opened(embedder=embedder) as other:
        for dry_run in (True, False):
            with pytest.raises(InvalidInput, match="more than 8 widths"):
                await other.import_(path, dry_run=dry_run)
            assert await other.store.memories.spaces.all() == []
        await other.add(ADA, ["Mine"], embedding=[unit(3, 1)])


async def test_an_undone_summary_stays_out_its_originals_come(uri, tmp_path):
    """A summary that was undone stays out and its other originals come."""
    clock = FrozenClock(START)
    async with await opened(clock=clock, **summing()) as first, await opened(uri, clock) as second:
        ids, summary = await summed_up(first, clock)
        second_ids = await second.add(
            ADA, [f"The deployment went out to {CITIES[3]} without trouble"]
        )
        await second.forget(ADA, second_ids[0])
        clock.now += timedelta(days=1)
        await first.undo(ADA, summary)
        clock.now += timedelta(days=1)
        path = await exported(first, tmp_path / "a.jsonl")
        assert await second.import_(path) == Imported(added=4, forgotten=2)
        assert set(await second.store.memories.kept(ADA, Filter())) == {*ids} - {ids[3]}
        assert "from Oslo to Kyoto" not in await words(second)
        then = clock.now - timedelta(hours=30)
        assert not list(await second.recall(ADA, "deployment", as_of=then, limit=9))


async def test_merges_of_merges_of_what_was_forgotten_stay_out(tmp_path):
    """The forgotten one is merged, what it became is merged again, in a row that was there and in
    one that is new.
    """
    clock = FrozenClock(START)
    async with await opened(clock=clock) as first, await opened(clock=clock) as second:
        ids = await first.add(
            ADA, ["Ada likes tea", "Ada likes green tea", "Ada likes tea a lot", "Ada skis", "A b"]
        )
        tea, green, much, _, replaced = ids

        async def merge(kept: str, retired: str, text: str, *, new: bool = False) -> str:
            rows = await first.store.memories.get(ADA, [kept, retired], now=clock.now)
            group = new_id(clock.now)
            whole = replace(rows[kept], content=text, revision=rows[kept].revision + 1)
            if new:
                whole = replace(
                    rows[kept], id=new_id(clock.now), content=text, revision=1, position=None
                )
            changes = [Change(kind="add" if new else "update", memory=whole, group=group)]
            for row in (rows[retired], *([rows[kept]] if new else [])):
                gone = retired_row(row, whole.id, now=clock.now)
                changes.append(Change(kind="merge", memory=gone, group=group))
            await first.store.memories.apply(ADA, Batch(changes=changes), now=clock.now)
            return whole.id

        tea = await merge(tea, green, "Ada likes tea, the green one")
        last = await merge(tea, much, "Ada likes green tea a lot", new=True)
        later = await first.add(ADA, ["Ada has given tea up"], replaces=last)
        await first.add(ADA, ["A c"], replaces=replaced)
        [gone] = await second.add(ADA, ["Ada likes green tea"])
        await second.forget(ADA, gone)
        done = await second.import_(await exported(first, tmp_path / "a.jsonl"))
        kept = {
            one.content for one in (await second.list(ADA, filter=Filter(superseded=True))).memories
        }
        assert kept == {"Ada skis", "Ada has given tea up", "A b", "A c"}
        assert done == Imported(added=4, forgotten=4)
        assert "green" not in await words(second)
        assert (await second.get(ADA, later[0])).content == "Ada has given tea up"


async def test_a_vector_never_travels_with_other_words(tmp_path, monkeypatch):
    """What is edited during an export travels without the vector of its former words."""
    async with await opened(embedder=HashEmbedder(dimensions=24)) as memories:
        (id,) = await memories.add(ADA, ["Ada skis"])
        whole, left = memories.store.memories.whole, [1, 9]

        async def reworded_meanwhile(scope: Scope, ids: Any) -> Any:
            found = await whole(scope, ids)
            if left[-1]:
                left[-1] -= 1
                await memories.edit(ADA, id, content=f"Ada swims {left[-1]}")
            return found

        monkeypatch.setattr(memories.store.memories, "whole", reworded_meanwhile)
        for times, kept in ((1, True), (9, False)):
            left[-1] = times
            path = await exported(memories, tmp_path / "a.jsonl", vectors=True)
            line = json.loads(path.read_text().splitlines()[1])
            assert bool(line["vectors"]) == kept
            if kept:
                [[vector]] = [
                    await HashEmbedder(dimensions=24).embed(
                        [line["memory"]["content"]], kind="document"
                    )
                ]
                assert vector @ np.array(line["vectors"][0]["numbers"]) > 0.99
