"""Every trap of the two drivers of a file is closed in the one wrapper around them, and both behave alike."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

from kagent_memory.errors import ConfigurationError, Conflict, InvalidInput, StoreError
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.stores import open_store
from kagent_memory.stores.libsql import database
from kagent_memory.stores.libsql.connection import Busy, Connection
from kagent_memory.stores.libsql.statement import split, statement
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


def test_named_places_may_repeat_and_are_none_inside_text_or_comments(connection):
    sql = "SELECT :b, ':no', \":no\", :a, :b -- :no\n/* :no; */ ;"
    assert statement(sql) == ("SELECT ?, ':no', \":no\", ?, ? -- :no\n/* :no; */", ("b", "a"), (0, 1, 0))
    assert statement("SELECT :a, :b").places is None
    assert connection.tuples("SELECT :b, ':no', :a, :b -- :no", {"a": 1, "b": 2}) == [(2, ":no", 1, 2)]
    connection.run_many("INSERT INTO note VALUES (:id || :body, :id)", [("1", "x"), ("2", "y")])
    assert connection.tuples("SELECT * FROM note", {}) == [("1x", "1"), ("2y", "2")]


@pytest.mark.parametrize("sql", ["INSERT INTO note VALUES ('1', 'a') RETURNING id", "SELECT 1; SELECT 2"])
def test_statements_that_the_driver_would_run_wrongly_are_refused(connection, sql):
    with pytest.raises(StoreError):
        connection.rows(sql, {})
    assert ids(connection) == []


def test_a_migration_is_split_at_the_ends_of_its_statements_only():
    assert split("CREATE TABLE a (b TEXT DEFAULT ';'); -- not; here\n/* nor; here */ DROP TABLE a;\n") == [
        "CREATE TABLE a (b TEXT DEFAULT ';')",
        "DROP TABLE a",
    ]


@pytest.mark.parametrize(
    "value",
    ["a\0b", "\ud800", True, 2**31, -(2**31), 2**53 + 1, float("nan"), float("inf"), Path("p"), bytearray(b"x"), [1]],
    ids=repr,
)
def test_values_that_the_driver_would_change_are_refused_before_it_sees_them(connection, value):
    with pytest.raises(InvalidInput):
        add(connection, "1", value)
    with pytest.raises(InvalidInput):
        connection.run_many("INSERT INTO note VALUES (:id, :body)", [("1", value)])
    assert ids(connection) == []


@pytest.mark.parametrize(
    "value", ["", "Ω≈ç 日本 👩‍👩‍👧", b"", b"\0\xff", 0, 2**31 - 1, -(2**31) + 1, 0.1, None], ids=repr
)
def test_values_that_it_keeps_come_back_the_same(connection, value):
    row = connection.rows("SELECT :v AS v", {"v": value})
    assert row == [{"v": value}]
    assert type(row[0]["v"]) is type(value)


@pytest.mark.parametrize("values", [{"id": "1"}, {"id": "1", "body": "x", "more": 1}, {"id": "1", "bodies": "x"}])
def test_a_missing_or_surplus_value_is_an_error_not_null(connection, values):
    with pytest.raises(StoreError):
        connection.run("INSERT INTO note VALUES (:id, :body)", values)
    with pytest.raises(StoreError):
        connection.run_many("INSERT INTO note VALUES (:id, :body)", [("1", "x", "more"), ("2",)])
    assert ids(connection) == []


def test_a_duplicate_key_is_a_conflict(connection):
    add(connection, "1")
    with pytest.raises(Conflict):
        add(connection, "1")


def test_a_writer_takes_the_lock_at_once_and_the_next_one_is_told_so_without_waiting(connection, path, key):
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


def test_a_full_disk_is_a_store_error_and_nothing_of_the_transaction_stays(connection):
    connection.rows("PRAGMA max_page_count = 10", {})

    def too_much():
        with connection.transaction(write=True):
            add(connection, "1")
            add(connection, "2", "x" * 200_000)

    with pytest.raises(StoreError, match="disk is full"):
        too_much()
    assert ids(connection) == []


def test_text_that_is_none_is_a_store_error_even_where_the_driver_panics_and_the_connection_goes_on(
    connection, key, capfd
):
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


def test_a_file_that_is_no_database_is_a_configuration_error(path, key):
    path.write_bytes(b"This is a letter, not a database. " * 100)
    opened = Connection(str(path), key)
    with pytest.raises(ConfigurationError, match="not an SQLite database"):
        opened.rows("PRAGMA journal_mode=WAL", {})
    opened.close()


@pytest.mark.parametrize("place", [".", "missing/file.db"])
def test_a_directory_or_a_missing_one_is_a_configuration_error(tmp_path, key, place):
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        Connection(str(tmp_path / place), key)


READ_ONLY = """
import os, sys
from kagent_memory.errors import ConfigurationError
from kagent_memory.stores.libsql.connection import Connection
from kagent_memory.stores.libsql.driver import load
key = sys.argv[2] or None
load(key)  # all is imported while it may be read
if os.getuid() == 0:
    os.setuid(65534)  # root may write anything
try:
    Connection(sys.argv[1], key).run("INSERT INTO note VALUES ('1', 'x')", {})
except ConfigurationError as error:
    print(error)
"""


def test_a_file_without_write_permission_is_a_configuration_error(open_folder, key):
    path = open_folder / "driver.db"
    connection = Connection(str(path), key)
    connection.run("CREATE TABLE note (id TEXT PRIMARY KEY, body TEXT)", {})
    connection.close()
    path.chmod(0o444)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(path), key or ""], capture_output=True, text=True, check=True
    )
    assert "writable" in done.stdout


# -- which driver -------------------------------------------------------------------------------


@pytest.fixture
def hidden(monkeypatch):
    """Hides a module as if it were not installed."""

    def hide(name):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, f"kagent_memory.stores.libsql.{name}_driver", raising=False)
        monkeypatch.delattr(f"kagent_memory.stores.libsql.{name}_driver", raising=False)

    return hide


async def test_a_file_opens_without_libsql_and_one_with_a_key_names_the_extra(path, hidden):
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
    with pytest.raises(ConfigurationError, match=r"has SQLite 3\.34\.1, and a memory file needs 3\.35"):
        await open_store(f"libsql:///{path}")
    assert not path.exists()


@pytest.mark.parametrize("name", ["file:memory.db", "file:memory.db%3Fmode=memory", "ä ö%25.db", "-x.db", ":temp:"])
async def test_a_name_that_sqlite_could_read_as_more_is_a_file_of_that_name(tmp_path, monkeypatch, key, name):
    monkeypatch.chdir(tmp_path)
    async with await open_store(f"libsql:///{name}", file_encryption_key=key):
        assert unquote(name) in {file.name for file in tmp_path.iterdir()}


async def test_actions_run_on_one_thread_that_is_not_the_loops():
    thread = DriverThread()
    names = await asyncio.gather(*(thread.run(lambda: threading.current_thread().name) for _ in range(20)))
    assert len(set(names)) == 1
    assert names[0] != threading.current_thread().name
    thread.end()


async def test_a_cancelled_caller_waits_for_the_end_of_what_runs_and_keeps_the_rest_from_starting():
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


async def test_work_for_a_thread_that_ended_is_a_store_error():
    thread = DriverThread()
    thread.end()
    with pytest.raises(StoreError, match="closed"):
        await thread.run(lambda: None)


def held(monkeypatch):
    """(entered, release, connections): every opening waits at its end; `connections` with the threads that use them."""
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
