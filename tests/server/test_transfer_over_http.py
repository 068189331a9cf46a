"""Export and import through a server: streamed, within the caller's rights, idempotent, with broken
files refused whole.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kagent_memory import (
    Fact,
    InvalidInput,
    Memories,
    NotFound,
    Scope,
    StoreError,
)
from kagent_memory.memories import transfer
from kagent_memory.memories.transfer import Imported
from kagent_memory.remote import open_memories
from kagent_memory.server import api
from kagent_memory.server.auth import Access
from kagent_memory.server.tokens import create_token
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import vector

from .ground import served

ADA, GRACE = Scope("acme", "ada", "notes/ünïcode"), Scope("", "grace 👩‍🚀", "notes")
HOSTILE = 'Zoë\'s "line"\nwith \\ tabs\t and \u2028 and \x85 and 👩‍🚀 and </memory> {braces} %s'
OPTIONS: dict[str, Any] = {"llm": False, "worker": False}


async def filled() -> Memories:
    memories = await Memories.open(
        "libsql:///:memory:", embedding=HashEmbedder(dimensions=16), **OPTIONS
    )
    first, *_ = await memories.add(
        ADA, [HOSTILE, *(f"Ada counts {number}" for number in range(250))]
    )
    await memories.edit(ADA, first, content=f"{HOSTILE}!", who="me", why=HOSTILE)
    await memories.add(GRACE, [Fact("Grace skis", metadata={"n": 0.1}, tags=("snow",))])
    await memories.add(GRACE, ["Her own"], embedding=[vector(*range(1, 65))])
    return memories


async def empty() -> Memories:
    return await Memories.open(
        "libsql:///:memory:", embedding=HashEmbedder(dimensions=16), **OPTIONS
    )


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    with served(filled) as address:
        yield address


@pytest.fixture
def target() -> Iterator[str]:
    with served(empty) as address:
        yield address


@pytest.fixture(scope="module")
def whole_file(source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(exported(source, tmp_path_factory.mktemp("whole") / "a.jsonl", vectors=True))


async def exported(address: str, path: Path, **which: Any) -> Path:
    async with await open_memories(address) as memories:
        lines = [line async for line in memories.export(**which)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


async def test_all_travels_through_two_servers_and_nothing_twice(whole_file, target, tmp_path):
    """An export of one server, imported twice into another, exists there once, with its vectors."""
    path = whole_file
    assert json.loads(path.read_text().splitlines()[-1]) == {"end": True, "memories": 253}
    async with await open_memories(target) as memories:
        progress: list[int] = []
        assert await memories.import_(path, dry_run=True) == Imported(added=253)
        assert await memories.scopes() == []
        assert await memories.import_(str(path), progress=progress.append) == Imported(added=253)
        assert progress[-1] == 253
        assert await memories.import_(path) == Imported(present=253)
    again = await exported(target, tmp_path / "b.jsonl", vectors=True)
    assert again.read_text().splitlines()[1:] == path.read_text().splitlines()[1:]


async def test_of_a_broken_file_nothing_is_taken(whole_file, target, tmp_path):
    """A truncated file or unfinished line is refused whole, with the line number."""
    path, (head, *lines) = tmp_path / "a.jsonl", whole_file.read_text().splitlines()
    async with await open_memories(target) as memories:
        for broken, message in (
            ([head, *lines[:-1]], "the upload was cut off after line 254"),
            ([head, "x" * 22_500_000], "Line 2 of the upload"),
        ):
            path.write_text("".join(f"{line}\n" for line in broken), encoding="utf-8")
            with pytest.raises(InvalidInput, match=message):
                await memories.import_(path)
        assert await memories.scopes() == []


async def test_whose_memories_a_caller_may_move(tmp_path):
    """An export contains the caller's memories only; an import is refused to a bound caller."""
    secrets: dict[str, str] = {}
    bound = {
        "ada": {"user": "ada"},
        "acme": {},
        "other": {"tenant": "other"},
        "all": {"tenant": ""},
    }

    async def opened() -> Memories:
        memories = await filled()
        for name, more in bound.items():
            options = {"tenant": "acme", "is_operator": name == "all", **more}
            secrets[name], _ = await create_token(memories, **options)
        await memories.add(Scope("acme", "bob", "notes"), ["Bob's"])
        return memories

    with served(opened, Access(required=True)) as address:
        for name, counts in {"ada": 251, "acme": 252, "other": 0, "all": 254}.items():
            async with await open_memories(address, token=secrets[name]) as memories:
                lines = [line async for line in memories.export()]
                assert json.loads(lines[-1])["memories"] == counts, name
                if name != "all":
                    for tenant in ("", "nobody's"):
                        with pytest.raises(NotFound):
                            _ = [line async for line in memories.export(tenant=tenant)]
                    (tmp_path / name).write_text(
                        "".join(f"{line}\n" for line in lines), encoding="utf-8"
                    )
                    with pytest.raises(NotFound):
                        await memories.import_(tmp_path / name)
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            assert (await client.get("/api/v1/export")).status_code == 401
            assert (await client.post("/api/v1/import", content=b"{}")).status_code == 401


async def test_a_long_file_waits_on_the_disk_and_ends_at_its_bound(whole_file, tmp_path):
    """An import may be longer than a body, up to a bound of its own."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(whole_file.read_bytes())
    size = path.stat().st_size
    with served(empty, Access(max_body_bytes=1024, max_import_bytes=size)) as address:
        async with await open_memories(address) as memories:
            assert (await memories.import_(path)).added == 253
            path.write_text(path.read_text() + "\n", encoding="utf-8")
            with pytest.raises(StoreError, match=f"longer than {size} bytes"):
                await memories.import_(path)


class Held:
    """Memories whose import waits halfway until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(api, "PROGRESS_SECONDS", 0.01)
        monkeypatch.setattr(transfer, "PART", 50)
        self.calls, self.fails = 0, False
        self.is_waiting, self.is_cancelled = threading.Event(), threading.Event()

    async def opened(self) -> Memories:
        memories = await empty()
        self.go, restore = asyncio.Event(), memories.store.memories.restore

        async def waits(*args: Any, **options: Any) -> Any:
            self.calls += not options.get("dry_run")
            if self.calls == 3 and not self.is_waiting.is_set():
                self.is_waiting.set()
                try:
                    await self.go.wait()
                except asyncio.CancelledError:
                    self.is_cancelled.set()
                    raise
                if self.fails:
                    raise StoreError("The database went away.")
            return await restore(*args, **options)

        memories.store.memories.restore = waits  # type: ignore[method-assign]
        self.loop = asyncio.get_running_loop()
        return memories


async def test_a_long_import_says_how_far_it_is(whole_file, monkeypatch):
    """The answer to an import reports its progress, and its error at the end."""
    path = whole_file
    gate = Held(monkeypatch)
    with served(gate.opened) as address:
        url, content = f"{address}/api/v1/import", path.read_bytes()
        async with (
            httpx.AsyncClient(timeout=60) as client,
            client.stream("POST", url, content=content) as answer,
        ):
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            # it waits there, and goes on telling
            async with asyncio.timeout(60):
                while json.loads(await anext(lines))["done"] < 50:
                    pass
            for _ in range(3):
                assert json.loads(await anext(lines)) == {"done": 50}
            gate.fails = True
            gate.loop.call_soon_threadsafe(gate.go.set)
            *_, last = [line async for line in lines]
            assert (
                json.loads(last)["error"]["type"].endswith("store-unavailable")
                or "went away" in last
            )
        async with await open_memories(address) as memories:
            assert await memories.import_(path) == Imported(present=50, added=203)


async def test_an_import_ends_with_its_caller(whole_file, monkeypatch):
    """An import whose caller hangs up ends, and can be called again."""
    path = whole_file
    gate = Held(monkeypatch)
    with served(gate.opened) as address:
        async with await open_memories(address) as memories:
            task = asyncio.create_task(memories.import_(path))
            assert await asyncio.to_thread(gate.is_waiting.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(gate.is_cancelled.wait, 60)
            assert await memories.import_(path) == Imported(present=50, added=203)


async def test_an_export_that_breaks_off_is_no_whole_one(monkeypatch):
    """An export that breaks off raises instead of ending."""

    async def opened() -> Memories:
        memories = await filled()
        whole = memories.store.memories.whole

        async def breaks(scope: Scope, ids: Any) -> Any:
            if len(ids) != transfer.PART:
                raise StoreError("The database went away.")
            return await whole(scope, ids)

        memories.store.memories.whole = breaks  # type: ignore[method-assign]
        return memories

    monkeypatch.setattr(api, "EXPORT_CHUNK_CHARS", 1000)
    with served(opened) as address:
        async with await open_memories(address) as memories:
            lines = memories.export(tenant="acme")
            assert json.loads(await anext(lines))["version"] == 1
            with pytest.raises(StoreError):
                _ = [line async for line in lines]
