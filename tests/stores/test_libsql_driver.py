"""Every trap of the two drivers of a file is closed in the one wrapper around them, and both behave
alike.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

from kagent_memory.errors import ConfigurationError, InvalidInput, StoreError
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.stores import open_store
from kagent_memory.stores.libsql import database
from kagent_memory.stores.libsql.connection import Busy, Connection
from kagent_memory.stores.libsql.thread import DriverThread


@pytest.fixture
def path(tmp_path):
    return tmp_path / "driver.db"


@pytest.fixture(params=[None, "a file's key"], ids=["sqlite3", "libsql"])
def key(request):
    """What the file is encrypted with, which decides about the driver."""
    return request.param


@pytest.fixture
def connection(path, key):
    opened = Connection(str(path), key)
    opened.rows("PRAGMA journal_mode=WAL", {})
    opened.run("CREATE TABLE note (id TEXT PRIMARY KEY, body TEXT)", {})
    yield opened
    opened.close()


def add(connection, id, body="x"):
    return connection.run("INSERT INTO note VALUES (:id, :body)", {"id": id, "body": body})


def ids(connection):
    return [row[0] for row in connection.tuples("SELECT id FROM note ORDER BY id", {})]


@pytest.mark.parametrize(
    "sql", ["INSERT INTO note VALUES ('1', 'a') RETURNING id", "SELECT 1; SELECT 2"]
)
def test_statements_a_driver_would_run_wrongly_are_refused(connection, sql):
    """Statements that the driver would run wrongly are refused."""
    with pytest.raises(StoreError):
        connection.rows(sql, {})
    assert ids(connection) == []


@pytest.mark.parametrize(
    "value",
    [
        "a\0b",
        "\ud800",
        True,
        2**31,
        -(2**31),
        2**53 + 1,
        float("nan"),
        float("inf"),
        Path("p"),
        bytearray(b"x"),
        [1],
    ],
    ids=repr,
)
def test_values_a_driver_would_change_are_refused(connection, value):
    """Values that the driver would change are refused before it sees them."""
    with pytest.raises(InvalidInput):
        add(connection, "1", value)
    with pytest.raises(InvalidInput):
        connection.run_many("INSERT INTO note VALUES (:id, :body)", [("1", value)])
    assert ids(connection) == []


def test_a_second_writer_is_told_at_once(connection, path, key):
    """A writer takes the lock at once and the next one is told so without waiting."""
    other = Connection(str(path), key)
    with connection.transaction(write=True):
        started = time.perf_counter()
        with pytest.raises(Busy), other.transaction(write=True):
            pass
        assert time.perf_counter() - started < 4  # a driver of its own accord waits for five
    with other.transaction(write=True):
        add(other, "1")
    other.close()


def test_a_read_leaves_no_cursor_behind_that_holds_the_file(connection, path, key):
    add(connection, "1")
    ids(connection)
    connection.rows("SELECT * FROM note", {})
    other = Connection(str(path), key)
    add(other, "2")
    assert other.tuples("PRAGMA wal_checkpoint(TRUNCATE)", {}) == [(0, 0, 0)]
    other.close()


def test_a_transaction_is_kept_whole_or_not_at_all(connection):
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
    connection.rows("PRAGMA max_page_count = 10", {})

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
        connection.rows("SELECT CAST(x'ff' AS TEXT)", {})
    assert ids(connection) == []
    assert ("panicked" in capfd.readouterr().err) == (key is not None)


def test_use_after_close_is_a_store_error_without_a_panic(connection, capfd):
    connection.close()
    connection.close()
    with pytest.raises(StoreError, match="closed"):
        ids(connection)
    with pytest.raises(StoreError, match="closed"), connection.transaction(write=True):
        pass
    assert capfd.readouterr().err == ""


# -- which driver -------------------------------------------------------------------------------


@pytest.fixture
def hidden(monkeypatch):
    """Hides a module as if it were not installed."""

    def hide(name):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(
            sys.modules, f"kagent_memory.stores.libsql.{name}_driver", raising=False
        )
        monkeypatch.delattr(f"kagent_memory.stores.libsql.{name}_driver", raising=False)

    return hide


async def test_only_a_file_with_a_key_needs_libsql(path, hidden):
    """A file opens without libsql and one with a key names the extra."""
    hidden("libsql")
    async with await Memories.open(f"libsql:///{path}", llm=False) as memories:
        await memories.add(Scope("", "ada", "notes"), ["Ada drinks tea."])
    with pytest.raises(ConfigurationError, match=r'pip install "kagent-memory\[libsql\]"'):
        await Memories.open(f"libsql:///{path}", llm=False, file_encryption_key="a file's key")


async def test_a_python_without_sqlite3_is_told_so(path, hidden):
    hidden("sqlite3")
    with pytest.raises(ConfigurationError, match=r"no sqlite3 .* use one that has it"):
        await Memories.open(f"libsql:///{path}", llm=False)


async def test_an_old_sqlite_is_refused_at_open_and_no_file_is_made(path, monkeypatch):
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


async def test_a_cancelled_caller_waits_for_what_runs():
    """A cancelled caller waits for the end of what runs and keeps the rest from starting."""
    thread, entered, release, done = DriverThread(), threading.Event(), threading.Event(), []

    def slow():
        entered.set()
        release.wait(60)
        done.append("slow")

    running = asyncio.create_task(thread.run(slow))
    queued = asyncio.create_task(thread.run(lambda: done.append("queued")))
    await asyncio.to_thread(entered.wait, 60)
    running.cancel()
    queued.cancel()
    await asyncio.wait([queued])
    assert queued.cancelled()
    assert not running.done()
    running.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await thread.run(lambda: list(done)) == ["slow"]
    thread.end()


def held(monkeypatch):
    """(entered, release, connections): every opening waits at its end; `connections` with the
    threads that use them.
    """
    entered, release, connections = threading.Event(), threading.Event(), []
    opened = database._opened

    def slow(*args):
        connection = opened(*args)
        connections.append((connection, threading.current_thread()))
        entered.set()
        release.wait(60)
        return connection

    monkeypatch.setattr(database, "_opened", slow)
    return entered, release, connections


async def is_closed(connection, thread):
    await asyncio.to_thread(thread.join, 60)
    with pytest.raises(StoreError, match="is closed"):
        connection.run("SELECT 1", {})


async def test_a_file_whose_opener_was_cancelled_is_closed(path, key, monkeypatch):
    entered, release, connections = held(monkeypatch)
    opening = asyncio.create_task(open_store(f"libsql:///{path}", file_encryption_key=key))
    await asyncio.to_thread(entered.wait, 60)
    opening.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await is_closed(*connections[0])


async def test_a_file_whose_closer_was_cancelled_is_closed(path, key, monkeypatch):
    _, release, connections = held(monkeypatch)
    release.set()
    store = await database.Database.open(f"libsql:///{path}", key=key)
    entered, release = threading.Event(), threading.Event()

    async def slow(_):
        entered.set()
        release.wait(60)

    reading = asyncio.create_task(store.read(slow))
    await asyncio.to_thread(entered.wait, 60)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    release.set()
    await reading
    await is_closed(*connections[0])
