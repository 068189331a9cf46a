"""Promises of a file besides the contract: shared by processes, erased to the byte, off the event
loop.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import closing, nullcontext
from urllib.parse import unquote

import psutil
import pytest
from memories.opening import ADA, opened

from kagent_memory.concurrency import turn
from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.stores import open_store, sql
from kagent_memory.stores.libsql import database
from kagent_memory.stores.libsql.connection import connect, migrate
from kagent_memory.stores.sql import Migration, migrations
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import DAY, NOW, ScopedStore

CANARY = "xylophone quokka marmalade"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
async def home(path):
    async with await open_store(f"libsql:///{path}") as store:
        yield ScopedStore(store, ADA)


@pytest.fixture
def connection(path):
    """A connection of another process, to a table of its own."""
    with closing(connect(str(path))) as opened:
        opened.rows("PRAGMA journal_mode=WAL")
        opened.rows("CREATE TABLE note (id TEXT PRIMARY KEY, body TEXT)")
        yield opened


def bytes_on_disk(path):
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


# -- which file ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["deep%20name.db", "file:memory.db%3Fmode=memory", "ä ö%25.db", "-x.db", ":temp:"],
)
async def test_a_relative_uri_is_a_file_of_that_name(tmp_path, monkeypatch, name):
    """Three slashes name a file below the working directory, even if SQLite would read the name as
    a URI.
    """
    monkeypatch.chdir(tmp_path)
    async with await open_store(f"libsql:///{name}"):
        assert unquote(name) in {file.name for file in tmp_path.iterdir()}


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_was_deleted_is_an_error_at_the_next_write(tmp_path, replaced):
    """Writing to a deleted file raises an error, since its data would be lost with the process."""
    file = tmp_path / "memory.db"
    async with await opened(f"libsql:///{file}") as memories:
        await memories.add(ADA, ["Ada likes tea."])
        moved = file.rename(tmp_path / "moved.db")
        if replaced:
            file.touch()
        with pytest.raises(StoreError, match="deleted or replaced"):
            await memories.add(ADA, ["Ada likes coffee."])
        moved.rename(file)
        await memories.add(ADA, ["Ada likes cocoa."])


async def test_each_store_in_memory_is_its_own():
    """Two in-memory stores share nothing."""
    async with (
        await open_store("libsql:///:memory:") as first,
        await open_store("libsql:///:memory:") as two,
    ):
        await ScopedStore(first, ADA).write("tea")
        assert await ScopedStore(two, ADA).contents() == []


OPEN_READ_ONLY = """
import asyncio, os, sys
from kagent_memory.errors import ConfigurationError
from kagent_memory.stores.libsql import LibSQLStore
if os.getuid() == 0:
    os.setuid(65534)  # root may write anything
for path in sys.argv[1:]:
    try:
        asyncio.run(LibSQLStore.open("libsql:///" + path))
    except ConfigurationError as error:
        print(error)
"""


def test_a_file_that_may_not_be_written_is_a_configuration_error(open_folder):
    """A file or directory without permissions raises a ConfigurationError that says what to
    change.
    """
    paths = [open_folder / str(number) / "memory.db" for number in range(3)]
    for path, modes in zip(paths, ((0o444, 0o777), (0o000, 0o777), (0o666, 0o555)), strict=True):
        path.parent.mkdir()
        path.touch()
        path.chmod(modes[0])
        path.parent.chmod(modes[1])
    command = [sys.executable, "-c", OPEN_READ_ONLY, *map(str, paths)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    for path in paths:
        path.parent.chmod(0o755)
    assert process.stdout.count("readable and writable for this user") == 3


# -- migrations ---------------------------------------------------------------------------------

LATER = "CREATE TABLE later (a TEXT DEFAULT 'x; y');\nCREATE INDEX later_a ON later (a)\n"


@pytest.fixture
def migrated():
    with closing(connect(":memory:")) as opened:
        migrate(opened)
        yield opened


def one_more(monkeypatch, script):
    steps = [*migrations("libsql"), Migration(9000, "later", script)]
    monkeypatch.setattr(sql, "migrations", lambda _: steps)


def schema_of(connection):
    objects = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    return connection.rows(objects), connection.rows("SELECT number, name FROM schema_migration")


def test_a_later_migration_is_applied_once(migrated, monkeypatch):
    """A database that lacks a migration runs it once, and an older release still serves it."""
    with monkeypatch.context() as patch:
        one_more(patch, LATER)
        for _ in range(2):
            migrate(migrated)
        migrated.rows("INSERT INTO later DEFAULT VALUES")
        assert migrated.rows("SELECT 1 FROM sqlite_master WHERE name = 'later_a'")
        assert schema_of(migrated)[1][-1]["name"] == "later"
    migrate(migrated)


def test_a_failed_migration_leaves_nothing(migrated, monkeypatch):
    """A failed migration leaves neither its tables nor its row."""
    one_more(monkeypatch, LATER + ";\nCREATE TABLE memory (a TEXT);\n")
    before = schema_of(migrated)
    with pytest.raises(StoreError):
        migrate(migrated)
    assert schema_of(migrated) == before


WRITERS = """
import asyncio, os, sys
from kagent_memory.records import Scope
from kagent_memory.stores import open_store, sql
from kagent_memory.stores.values import Batch
from kagent_memory.testing.fixtures import DAY, NOW, a_memory, adding

async def write(path, name):
    async with await open_store("libsql:///" + path) as store:
        for number in range(30):
            batch = Batch(changes=adding(a_memory(f"{name} {number}")))
            await store.apply(Scope("acme", "ann", "notes"), batch, now=NOW)

path, *names = sys.argv[1:]
waiting, go = os.pipe()
children = []
for name in names:
    children.append(os.fork())  # it need not import what its parent has
    if not children[-1]:
        os.close(go)
        os.read(waiting, 1)
        asyncio.run(write(path, name))
        os._exit(0)
os.close(go)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def test_processes_that_open_a_new_file_at_once_succeed(path):
    """Several processes can open a new file at the same time and write."""
    writers = ["one", "two", "three", "four"]
    command = [sys.executable, "-c", WRITERS, str(path), *writers]
    subprocess.run(command, check=True, timeout=180)
    with closing(connect(str(path))) as reader:
        texts = {row["content"] for row in reader.rows("SELECT content FROM memory")}
        assert texts == {f"{name} {n}" for name in writers for n in range(30)}
        assert reader.rows("SELECT version FROM scope") == [{"version": 120}]


# -- other writers, cancellation, threads -------------------------------------------------------


async def test_a_write_waits_for_another_process_while_reads_go_on(home, connection, monkeypatch):
    """A write waits for another process's transaction, and reads do not."""
    monkeypatch.setattr(database, "PATIENCE_SECONDS", 60.0)
    with connection.transaction(write=True):
        writing = asyncio.create_task(home.write("tea"))
        async with asyncio.timeout(4):  # a driver of its own accord would wait for five
            for _ in range(20):
                assert await home.contents() == []
                await asyncio.sleep(0.01)
        assert not writing.done()
    await writing
    assert await home.contents() == ["tea"]


async def test_a_search_waits_for_no_writer(path, connection):
    """A process's first search, by words and vectors, does not wait for another's open write."""
    uri, embedder = f"libsql:///{path}", HashEmbedder(16)
    async with await opened(uri, embedding=embedder) as memories:
        await memories.add(ADA, ["Ada drinks tea"])
    async with await opened(uri, embedding=embedder) as memories:
        with connection.transaction(write=True):
            async with asyncio.timeout(4):
                recall = await memories.recall(ADA, "tea", deliver=False)
        assert (len(recall), recall.mode) == (1, "hybrid")


async def test_patience_with_another_writer_ends_in_a_store_error(home, connection, monkeypatch):
    """A write waits at most five seconds for another process."""
    assert database.PATIENCE_SECONDS <= 5
    monkeypatch.setattr(database, "PATIENCE_SECONDS", 0.2)
    with connection.transaction(write=True), pytest.raises(StoreError, match="locked"):
        await home.write("tea")
    assert await home.contents() == []


class Held:
    """A script that occupies the thread until it is released."""

    def __init__(self):
        self.entered, self.release, self.ended = (threading.Event() for _ in range(3))

    async def __call__(self, session):
        self.entered.set()
        self.release.wait(60)
        self.ended.set()


async def test_a_cancelled_caller_leaves_what_began_to_its_end(path):
    """Cancelling a caller lets a write finish that has begun, and drops one that has not."""
    store = await database.LibSQLDatabase.open(f"libsql:///{path}")
    began, waits = Held(), Held()
    running = asyncio.create_task(store.run(began, None, write=True))
    await asyncio.to_thread(began.entered.wait, 60)
    queued = asyncio.create_task(store.run(waits, None, write=False))
    await asyncio.sleep(0)
    for task in (running, queued):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    began.release.set()
    await store.close()
    assert began.ended.is_set()
    assert not waits.entered.is_set()


async def test_calls_of_one_caller_do_not_hold_up_another(home):
    """Of the calls of one caller, those of another wait for one at most. A writer, for which others
    wait, does not wait for its turn.
    """
    order = []

    async def call(name, own):
        turn.set(own)
        await home.contents()
        order.append(name)

    greedy = asyncio.Semaphore(1)
    await asyncio.gather(*(call(name, greedy) for name in "abc"), call("other", nullcontext()))
    assert order == ["a", "other", "b", "c"]
    turn.set(greedy)
    async with greedy, asyncio.timeout(5):
        await home.forget("none")


@pytest.mark.parametrize("work", ["open", "close"])
async def test_a_file_whose_caller_was_cancelled_is_closed(path, monkeypatch, work):
    """Cancelling `open` or `close` during work still closes the file afterwards."""
    slow, writing = Held(), None

    def held_up(connection):
        migrate(connection)
        slow.entered.set()
        slow.release.wait(60)

    if work == "open":
        monkeypatch.setattr(database, "migrate", held_up)
        cut = asyncio.create_task(open_store(f"libsql:///{path}"))
    else:
        store = await database.LibSQLDatabase.open(f"libsql:///{path}")
        writing = asyncio.create_task(store.run(slow, None, write=True))
        await asyncio.to_thread(slow.entered.wait, 60)
        cut = asyncio.create_task(store.close())
        await asyncio.sleep(0)
    await asyncio.to_thread(slow.entered.wait, 60)
    cut.cancel()
    await asyncio.wait([cut])
    slow.release.set()
    if writing:
        await writing
    async with asyncio.timeout(60):
        while str(path) in {file.path for file in psutil.Process().open_files()}:  # noqa: ASYNC110 nothing tells when
            await asyncio.sleep(0.1)


# -- what drivers do ----------------------------------------------------------------------------


def fill(connection, *bodies):
    """Write notes in one transaction; an exception among them aborts it."""
    with connection.transaction(write=True):
        for body in bodies:
            if isinstance(body, BaseException):
                raise body
            connection.rows("INSERT INTO note VALUES (:id, :body)", {"id": body[:9], "body": body})


def test_a_transaction_is_kept_whole_or_not_at_all(connection):
    """A transaction that ends early, even by a full disk, is rolled back completely."""
    with pytest.raises(KeyboardInterrupt):
        fill(connection, "1", KeyboardInterrupt())
    connection.rows("PRAGMA max_page_count = 10")
    with pytest.raises(StoreError, match="disk is full"):
        fill(connection, "2", "x" * 200_000)
    fill(connection, "3")
    assert connection.rows("SELECT id FROM note") == [{"id": "3"}]


async def test_an_old_sqlite_is_refused_at_open_and_no_file_is_made(path, monkeypatch):
    """SQLite before 3.35 is refused, and no file is created."""
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr("sqlite3.sqlite_version", "3.34.1")
    with pytest.raises(
        ConfigurationError, match=r"has SQLite 3\.34\.1, and a memory file needs 3\.35"
    ):
        await open_store(f"libsql:///{path}")
    assert not path.exists()


# -- forgetting to the byte ---------------------------------------------------------------------


async def keep_canary(home):
    await home.write(*(f"filler {number} " + "x" * 500 for number in range(40)))
    [memory] = await home.write(
        CANARY, session_id="s", event_ids=("e1",), metadata={"note": CANARY}
    )
    await home.enqueue(payload={"messages": [{"event_id": "e1", "text": CANARY}]})
    return memory.id


async def test_forgotten_text_is_gone_from_the_file_and_its_log(home, path):
    """Forgetting erases every byte of a text from the file and its log."""
    memory_id = await keep_canary(home)
    assert CANARY.encode() in bytes_on_disk(path)
    assert CANARY in await home.contents()
    assert await home.forget(memory_id) == (memory_id,)
    content = bytes_on_disk(path)
    assert all(word.encode() not in content for word in CANARY.split())
    assert b"filler 39" in content


async def test_a_cancelled_caller_leaves_no_forgotten_text(home, path):
    """If the caller of an erasure is cancelled, the log is emptied after the next write."""
    memory_id, blocker = await keep_canary(home), Held()
    forgetting = asyncio.create_task(home.forget(memory_id))
    behind = asyncio.create_task(home.store.memories.database.run(blocker, None, write=False))
    await asyncio.sleep(0)
    blocker.entered.wait(60)  # it is erased, and the loop has not heard of it
    forgetting.cancel()
    blocker.release.set()
    await asyncio.wait([forgetting, behind])
    assert forgetting.cancelled()
    assert CANARY.split()[0].encode() in bytes_on_disk(path)
    await home.write("tea")
    assert CANARY.split()[0].encode() not in bytes_on_disk(path)


async def test_pruned_text_is_gone_from_the_file_and_its_log(home, path):
    """A prune leaves none of the bytes of a text on the disk."""
    await home.write(CANARY, ttl_days=1)
    assert (await home.store.memories.prune(now=NOW + 2 * DAY, popular_after=10)).deleted == 1
    assert CANARY.split()[0].encode() not in bytes_on_disk(path)


async def test_a_log_in_use_is_emptied_after_the_next_write(
    home, connection, path, monkeypatch, caplog
):
    """A log in use by a reader of another process is emptied after the next write."""
    monkeypatch.setattr(database, "ERASE_PATIENCE_SECONDS", 0.05)
    memory_id = await keep_canary(home)
    with connection.transaction(write=False):
        connection.rows("SELECT count(*) FROM memory")
        await home.forget(memory_id)
        assert "emptied of forgotten text later" in caplog.text
    await home.write("tea")
    assert CANARY.split()[0].encode() not in bytes_on_disk(path)
