"""Memories travel whole from any store into any other; what is broken is refused before anything is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kagent_memory import Fact, Filter, InvalidInput, Memories, Message, Scope
from kagent_memory.cli import main
from kagent_memory.memories.transfer import Imported
from kagent_memory.testing import HashEmbedder

START = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
ADA, GRACE = Scope("acme", "ada", "notes"), Scope("", "grace 👩‍🚀", "notes")
HOSTILE = 'Zoë\'s "line"\nwith \\ tabs\t and \u2028 and 👩‍🚀 and e\u0301 and </memory> {braces} %s'
METADATA = {"n": 0.1, "big": 2**53, "deep": [{"a": [None, True, -1e-7]}], "text": HOSTILE, "": "", "zero": -0.0}


class Clock:
    now = START

    def __call__(self) -> datetime:
        return self.now


async def opened(uri: str = "libsql:///:memory:", clock: Any = None, *, embedder: Any = None, **more: Any) -> Memories:
    return await Memories.open(uri, embedding=embedder, llm=False, worker=False, clock=clock or Clock(), **more)


async def lived(memories: Memories, clock: Clock) -> None:
    """Two scopes of all that a memory can have: history, usage, expiry, sessions, what was superseded and expired."""
    (plain, pinned, brief, old, edited) = await memories.add(
        ADA,
        [
            Fact(HOSTILE, metadata=METADATA, topics=("t", HOSTILE), tags=("x",), importance=0.25, session_id="s"),
            Fact("Ada keeps a key", pinned=True, subject="Ada", attribute="key", happened_at=START - timedelta(days=9)),
            Fact("Gone tomorrow", ttl_days=1, type="episodic", origin="tool", author="Grace", event_ids=("e1", "e2")),
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
    await memories._parts.deliveries.flush()
    clock.now += timedelta(days=3)  # "brief" has expired
    assert brief not in {one.id for one in (await memories.list(ADA)).memories}


async def all_of(memories: Memories) -> Any:
    found = {}
    for scope in (ADA, GRACE):
        found[scope] = await memories.store.whole(scope, await memories.store.kept(scope, Filter()))
    return found


async def exported(memories: Memories, path: Path, **which: Any) -> Path:
    lines = [line async for line in memories.export(**which)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(params=["libsql", "postgres", "row security"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "libsql":
        return f"libsql:///{tmp_path}/other.db"
    uri = request.getfixturevalue("postgres_uri")
    return f"{uri}&rls=true" if request.param == "row security" else uri


async def test_all_of_a_memory_travels_to_any_store_and_back(uri, tmp_path):
    clock = Clock()
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
        assert await all_of(third) == before  # also through a database that keeps times and numbers its own way
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
    clock = Clock()
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
    return [lines[0].replace('"version": 1', '"version": 2'), *lines[1:]]


def changed(**values: Any) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        record = json.loads(lines[4])
        record["memory"].update(values)
        return [*lines[:4], json.dumps(record), *lines[5:]]

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "cut off"),
        (halved, "damaged"),
        (without_one, "should hold 9"),
        (later, "version 2"),
        (lambda lines: lines[1:], "not an export"),
        (lambda lines: [*lines, lines[1]], "more follows"),
        (lambda _lines: [], "cut off"),
        (lambda _lines: ["hello"], "not an export"),
        (lambda lines: [lines[0], "[]", *lines[2:]], "Line 2"),
        (changed(id="not an id"), "Line 5"),
        (changed(content="a\0b"), "Line 5"),
        (changed(content=7), "Line 5"),
        (changed(type="dream"), "Line 5"),
        (changed(state="lost"), "Line 5"),
        (changed(created_at="yesterday"), "Line 5"),
        (changed(metadata=[1]), "Line 5"),
        (changed(metadata={"a": "\0"}), "Line 5"),
        (changed(session_id="s" * 2000), "Line 5"),
    ],
)
async def test_of_a_broken_file_nothing_is_taken(damage, said, tmp_path):
    clock = Clock()
    async with await opened(clock=clock) as memories, await opened(clock=clock) as other:
        await lived(memories, clock)
        path = await exported(memories, tmp_path / "a.jsonl")
        path.write_text("".join(f"{line}\n" for line in damage(path.read_text().splitlines())), encoding="utf-8")
        for dry_run in (True, False):
            with pytest.raises(InvalidInput, match=said):
                await other.import_(path, dry_run=dry_run)
        assert await other.scopes() == []


async def test_what_is_no_text_or_not_there_is_refused(tmp_path):
    async with await opened() as memories:
        (tmp_path / "bytes").write_bytes(b'{"format": "kagent-memory"\xff\xfe')
        for name in ("bytes", "nothing", "."):
            with pytest.raises(InvalidInput):
                await memories.import_(tmp_path / name)


async def test_another_tenants_memories_are_refused(tmp_path):
    clock = Clock()
    async with await opened(clock=clock) as memories, await opened(clock=clock) as other:
        await lived(memories, clock)
        path = await exported(memories, tmp_path / "a.jsonl")
        with pytest.raises(InvalidInput, match="tenant"):
            await other.import_(path, tenant="acme")
        assert await other.scopes() == []
        path = await exported(memories, tmp_path / "b.jsonl", tenant="acme")
        assert (await other.import_(path, tenant="acme")).added == 6


async def test_what_was_forgotten_stays_forgotten_and_what_is_said_is_not_said_twice(tmp_path):
    async with await opened() as memories:
        gone, kept = await memories.add(ADA, ["Ada owes money", "Ada skis"])
        await memories.remember(ADA, [Message(text="Ada has a secret", event_id="e9")], "s")
        await memories.work(until_idle=True)
        path = await exported(memories, tmp_path / "a.jsonl")
        await memories.forget(ADA, gone)
        await memories.forget(ADA, session_id="s")
        assert await memories.import_(path) == Imported(present=1, forgotten=2)
        assert await memories.store.kept(ADA, Filter()) == [kept]
        async with await opened() as other:
            (same,) = await other.add(ADA, ["Ada skis"])
            assert await other.import_(path) == Imported(added=2, equal=1)
            assert same in await other.store.kept(ADA, Filter())


async def test_an_import_that_breaks_off_goes_on(tmp_path, monkeypatch):
    from kagent_memory.memories import transfer

    monkeypatch.setattr(transfer, "PART", 2)
    clock = Clock()
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


async def test_vectors_are_made_anew(tmp_path):
    async with await opened(embedder=HashEmbedder(dimensions=16)) as memories:
        await memories.add(ADA, ["Ada skis", "Ada swims"])
        path = await exported(memories, tmp_path / "a.jsonl")
    async with await opened(embedder=HashEmbedder(dimensions=24)) as other:
        await other.import_(path)
        await other.work(until_idle=True)
        (space,) = await other.store.embedding_spaces()
        assert space.dimensions == 24
        assert await other.store.unembedded(ADA, space.number, limit=9, now=START) == []
        assert (await other.recall(ADA, "skis")).mode == "hybrid"


async def test_the_same_on_the_command_line(tmp_path, capsys):
    first, second = f"libsql:///{tmp_path}/a.db", f"libsql:///{tmp_path}/b.db"
    clock = Clock()
    async with await opened(first, clock) as memories:
        await lived(memories, clock)
        before = await all_of(memories)
    assert await asyncio.to_thread(main, ["export", "--uri", first]) == 0
    out, err = capsys.readouterr()
    assert "9 memories exported" in err
    path = tmp_path / "a.jsonl"
    path.write_text(out, encoding="utf-8")
    for words, added in ((["--dry-run"], 9), ([], 9), ([], 0)):
        assert await asyncio.to_thread(main, ["import", str(path), "--uri", second, "--json", *words]) == 0
        assert json.loads(capsys.readouterr().out)["added"] == added
    assert await asyncio.to_thread(main, ["import", str(path), "--uri", second, "--tenant", "acme"]) == 2
    path.write_text(out[:-9], encoding="utf-8")
    assert await asyncio.to_thread(main, ["import", str(path), "--uri", second]) == 2
    async with await opened(second, clock) as memories:
        assert await all_of(memories) == before
