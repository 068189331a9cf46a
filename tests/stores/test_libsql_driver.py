"""Every trap of the two drivers of a file is closed in the one wrapper around them, and both behave
alike.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from urllib.parse import unquote

import pytest

from kagent_memory.errors import ConfigurationError, InvalidInput, StoreError
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.stores import open_store
from kagent_memory.stores.libsql import database
from kagent_memory.stores.libsql.connection import Busy, FileConnection, connect
from kagent_memory.stores.libsql.session import LibSQLSession


@pytest.fixture
def path(tmp_path):
    return tmp_path / "driver.db"


@pytest.fixture(params=[None, "a file's key"], ids=["sqlite3", "libsql"])
def key(request):
    """What the file is encrypted with, which decides about the driver."""
    return request.param


@pytest.fixture
def connection(path, key):
    opened = connect(str(path), key)
    opened.rows("PRAGMA journal_mode=WAL")
    opened.rows("CREATE TABLE note (id TEXT PRIMARY KEY, body TEXT)")
    yield opened
    opened.close()


def add(connection, id, body="x"):
    return connection.rows("INSERT INTO note VALUES (:id, :body)", {"id": id, "body": body})


def ids(connection):
    return [row["id"] for row in connection.rows("SELECT id FROM note ORDER BY id")]


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
async def test_text_that_a_driver_would_cut_is_refused(path, key, text):
    """Text that a driver would cut is refused before it sees it."""
    async with await open_store(f"libsql:///{path}", file_encryption_key=key) as store:
        with pytest.raises(InvalidInput):
            await store.memories.database.write(
                lambda session: session.run("tokens", {"digest": text})
            )


def test_a_second_writer_is_told_at_once(connection, path, key):
    """A writer takes the lock at once and the next one is told so without waiting."""
    other = connect(str(path), key)
    with connection.transaction(write=True):
        started = time.perf_counter()
        with pytest.raises(Busy), other.transaction(write=True):
            pass
        assert time.perf_counter() - started < 4  # a driver of its own accord waits for five
    with other.transaction(write=True):
        add(other, "1")
    other.close()


def test_a_read_leaves_no_cursor_behind_that_holds_the_file(connection, path, key):
    """After a read another connection can empty the log."""
    add(connection, "1")
    ids(connection)
    other = connect(str(path), key)
    add(other, "2")
    assert other.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0]["busy"] == 0
    other.close()


def test_a_transaction_is_kept_whole_or_not_at_all(connection):
    """Whatever ends a transaction early takes all of it back."""

    def interrupted():
        with connection.transaction(write=True):
            add(connection, "1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with connection.transaction(write=True):
        add(connection, "2")
    assert ids(connection) == ["2"]


def test_a_full_disk_is_a_store_error(connection):
    """A full disk is a store error and nothing of the transaction stays."""
    connection.rows("PRAGMA max_page_count = 10")

    def too_much():
        with connection.transaction(write=True):
            add(connection, "1")
            add(connection, "2", "x" * 200_000)

    with pytest.raises(StoreError, match="disk is full"):
        too_much()
    assert ids(connection) == []


def test_invalid_text_is_a_store_error(connection, key, capfd):
    """Text that is none is a store error even where the driver panics and the connection goes
    on.
    """
    with pytest.raises(StoreError):
        connection.rows("SELECT CAST(x'ff' AS TEXT)")
    assert ids(connection) == []
    assert ("panicked" in capfd.readouterr().err) == (key is not None)


async def test_use_after_close_is_a_store_error_without_a_panic(path, key, capfd):
    """A closed store closes again and refuses work with a StoreError."""
    store = await database.Database.open(f"libsql:///{path}", key=key)
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.read(LibSQLSession.about)
    assert capfd.readouterr().err == ""


# -- which driver -------------------------------------------------------------------------------


async def test_only_a_file_with_a_key_needs_libsql(path, monkeypatch):
    """A file opens without libsql and one with a key names the extra."""
    monkeypatch.setitem(sys.modules, "libsql", None)
    async with await Memories.open(f"libsql:///{path}", llm=False) as memories:
        await memories.add(Scope("", "ada", "notes"), ["Ada drinks tea."])
    with pytest.raises(ConfigurationError, match=r'pip install "kagent-memory\[libsql\]"'):
        await Memories.open(f"libsql:///{path}", llm=False, file_encryption_key="a file's key")


async def test_an_old_sqlite_is_refused_at_open_and_no_file_is_made(path, monkeypatch):
    """A Python with SQLite before 3.35 is told so, and makes no file."""
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr("sqlite3.sqlite_version", "3.34.1")
    with pytest.raises(
        ConfigurationError, match=r"has SQLite 3\.34\.1, and a memory file needs 3\.35"
    ):
        await open_store(f"libsql:///{path}")
    assert not path.exists()


@pytest.mark.parametrize(
    "name", ["file:memory.db", "file:memory.db%3Fmode=memory", "ä ö%25.db", "-x.db", ":temp:"]
)
async def test_an_odd_file_name_is_a_file_of_that_name(tmp_path, monkeypatch, key, name):
    """A name that sqlite could read as more is a file of that name."""
    monkeypatch.chdir(tmp_path)
    async with await open_store(f"libsql:///{name}", file_encryption_key=key):
        assert unquote(name) in {file.name for file in tmp_path.iterdir()}


class Held:
    """A script that holds the thread until it is released."""

    def __init__(self):
        self.entered, self.release, self.ended = (threading.Event() for _ in range(3))

    async def __call__(self, session):
        self.entered.set()
        self.release.wait(60)
        self.ended.set()


async def test_a_cancelled_caller_leaves_what_began_to_its_end(path, key):
    """A cancelled caller stops waiting; what began is written, and what did not never is."""
    store = await database.Database.open(f"libsql:///{path}", key=key)
    began, waits = Held(), Held()
    running = asyncio.create_task(store.write(began))
    await asyncio.to_thread(began.entered.wait, 60)
    queued = asyncio.create_task(store.read(waits))
    await asyncio.sleep(0)
    for task in (running, queued):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    began.release.set()
    await store.close()
    assert began.ended.is_set()
    assert not waits.entered.is_set()


@pytest.fixture
def closed(monkeypatch):
    """Set when a connection was closed."""
    closed, close = threading.Event(), FileConnection.close

    def noted(connection):
        close(connection)
        closed.set()

    monkeypatch.setattr(FileConnection, "close", noted)
    return closed


async def test_a_file_whose_opener_was_cancelled_is_closed(path, key, closed, monkeypatch):
    """Cancelling `open` while the file is migrated leaves no connection open."""
    migrating, go_on, migrate = threading.Event(), threading.Event(), database.migrate

    def slow(connection):
        migrate(connection)
        migrating.set()
        go_on.wait(60)

    monkeypatch.setattr(database, "migrate", slow)
    opening = asyncio.create_task(open_store(f"libsql:///{path}", file_encryption_key=key))
    await asyncio.to_thread(migrating.wait, 60)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 60)


async def test_a_file_whose_closer_was_cancelled_is_closed(path, key, closed):
    """Cancelling `close` while work is under way closes the file after it."""
    store = await database.Database.open(f"libsql:///{path}", key=key)
    slow = Held()
    writing = asyncio.create_task(store.write(slow))
    await asyncio.to_thread(slow.entered.wait, 60)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    slow.release.set()
    await writing
    assert await asyncio.to_thread(closed.wait, 60)
