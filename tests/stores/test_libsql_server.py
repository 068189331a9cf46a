"""A store on a libSQL server through its HTTP protocol, with faults of server and network."""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import closing
from typing import Any

import httpx
import pytest
from hrana import HranaServer
from memories.opening import ADA, opened

from kagent_memory.doctor import examine
from kagent_memory.errors import ConfigurationError, Conflict, KagentMemoryError, StoreError
from kagent_memory.stores import open_store
from kagent_memory.stores.libsql import LibSQLStore, database, hrana
from kagent_memory.stores.libsql.connection import Busy, Server, connect, to_place

TOKEN = "a.Very-Secret_token"


@pytest.fixture
def server(tmp_path):
    with HranaServer(tmp_path, token=TOKEN) as running:
        yield running


@pytest.fixture
def impatient(monkeypatch):
    """Make retries end after a moment."""
    monkeypatch.setattr(database, "PATIENCE_SECONDS", 0.05)


# -- the driver ---------------------------------------------------------------------------------


@pytest.fixture
def connection(server):
    opened = connect(to_place(server.uri("notes")))
    with opened.transaction(write=True):
        opened.rows("CREATE TABLE note (id TEXT PRIMARY KEY, body)")
    yield opened
    opened.close()
    assert server.streams == {}  # nothing is left for the server to end


def add(connection, id, body: Any = "x"):
    return connection.rows("INSERT INTO note VALUES (:id, :body)", {"id": id, "body": body})


def write(connection, *ids, then=lambda: None):
    """Run the statements in one transaction."""
    with connection.transaction(write=True):
        for id in ids:
            add(connection, id)
        then()


def ids(server):
    with closing(server.connect("notes")) as reader:
        return [id for (id,) in reader.execute("SELECT id FROM note ORDER BY id")]


def test_a_failed_transaction_leaves_nothing(connection, server):
    """A failed transaction leaves nothing, and the next one succeeds."""
    write(connection, "1")
    batch = [("INSERT INTO note VALUES (:id, '')", {"id": id}) for id in ("3", "1", "4")]
    for wrong, kind in (
        (lambda: add(connection, "1"), Conflict),
        (lambda: connection.rows("SELEC 1"), StoreError),
        (lambda: connection.run(*batch), Conflict),
        (lambda: 1 / 0, ZeroDivisionError),
    ):
        with pytest.raises(kind):
            write(connection, "2", then=wrong)
        assert ids(server) == ["1"]
    write(connection)  # nothing to say: nothing is sent
    write(connection, "6")
    assert ids(server) == ["1", "6"]


def test_a_writer_elsewhere_is_waited_for_and_not_mistaken(connection, server):
    """Another client's lock raises Busy, which can be retried."""
    other = connect(to_place(server.uri("notes")))
    with connection.transaction(write=True):
        add(connection, "1")
        with pytest.raises(Busy):
            write(other, "2")
    write(other, "2")
    other.close()
    assert ids(server) == ["1", "2"]


def test_the_token_goes_nowhere_but_to_the_server_of_the_uri(connection, server):
    """The token is sent only to the server of the URI: a base_url elsewhere is refused, and nothing
    is written.
    """
    own, other = [
        lambda answer, name=name: {**answer, "base_url": f"http://{server.address}/{name}"}
        for name in ("notes/", "other")
    ]
    server.plan(own)
    write(connection, "0")
    server.plan(other)
    with pytest.raises(StoreError, match="does not speak libSQL's protocol"):
        write(connection, "1", "2")
    server.expire()
    assert ids(server) == ["0"]


def results(**changed: Any):
    def change(answer):
        answer["results"][0]["response"]["result"]["step_results"][-1].update(changed)
        return answer

    return change


WRONG = {
    "no JSON": b"<html>hello</html>",
    "no results": b'{"baton": null, "base_url": null, "results": []}',
    "deep": b"[" * 100_000,
    "another kind": lambda answer: {
        **answer,
        "results": [{"type": "ok", "response": {"type": "close"}}],
    },
    "fewer columns": results(cols=[]),
    "half a blob": results(rows=[[{"type": "blob", "base64": "a"}]]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_of_no_libsql_server_is_a_store_error(connection, server, wrong):
    """An answer of a different kind of server raises a StoreError, and nothing is written."""
    server.plan(None, WRONG[wrong])
    with pytest.raises(StoreError, match="does not speak libSQL's protocol") as error:
        write(connection, "1", then=lambda: connection.rows("SELECT id FROM note"))
    assert not isinstance(error.value, Busy)
    server.expire()
    assert ids(server) == []
    write(connection, "2")
    assert ids(server) == ["2"]


@pytest.mark.parametrize(
    ("before", "trouble"),
    [*itertools.product([0, 1], ["cut", "drop", 429, 502, 503]), (1, "expire")],
)
def test_trouble_before_the_commit_may_be_tried_again(connection, server, trouble, before):
    """An error before the commit can be retried, and nothing is written."""
    server.plan(*[None] * before, trouble)
    with pytest.raises(Busy):
        write(connection, "1", "2")
    server.expire()
    assert ids(server) == []
    write(connection, "3")
    assert ids(server) == ["3"]


@pytest.mark.parametrize("trouble", ["cut", "drop", 500, 502, b"{}"])
def test_trouble_at_the_commit_is_told_and_never_tried_again(connection, server, trouble):
    """A commit without an answer is never retried; the error says that it may have been written."""
    server.plan(None, trouble)
    with pytest.raises(StoreError, match=r"[Ww]hether this was written is unknown") as error:
        write(connection, "1")
    assert not isinstance(error.value, Busy)
    server.expire()
    assert ids(server) == (["1"] if trouble == "drop" else [])


def test_a_commit_that_was_never_sent_wrote_nothing(connection, server):
    """A commit that could not connect wrote nothing, and the error says so."""

    def unplug():
        server.paths.clear()
        connection.server = Server("http://127.0.0.1:9", "")

    with pytest.raises(StoreError, match="nothing was written"):
        write(connection, "1", then=unplug)
    assert server.paths == []
    server.expire()
    assert ids(server) == []


def test_a_token_refused_midway_is_a_wrong_configuration(connection, server):
    """A token refused during a transaction is a ConfigurationError, and nothing is written."""
    server.plan(None, 401)
    with pytest.raises(ConfigurationError, match="accepts this authToken"):
        write(connection, "1", "2")
    server.expire()
    assert ids(server) == []


def test_a_lost_read_may_be_tried_again(connection, server):
    """A read-only transaction can be retried wherever it was lost."""
    server.plan(None, "drop")
    with pytest.raises(Busy), connection.transaction(write=False):
        connection.rows("SELECT id FROM note")


# -- the store ----------------------------------------------------------------------------------


async def test_a_connection_closed_meanwhile_costs_nothing(server):
    """A connection closed by the server between requests causes no error."""
    async with await opened(server.uri()) as memories:
        server.plan("cut")
        await memories.add(ADA, ["Ada drinks tea."])
        server.plan(None, "expire", 503)
        await memories.add(ADA, ["Ada owns a dog."])
        server.plan("cut")
        assert len(await memories.recall(ADA, "Ada")) == 2


async def test_two_processes_that_start_at_once_make_one_schema(server):
    """Several clients can open a new database at the same time."""
    uri = server.uri("new")

    async def start() -> None:
        await (await open_store(uri)).close()

    # each on a loop of its own
    await asyncio.gather(*(asyncio.to_thread(asyncio.run, start()) for _ in range(3)))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 301])
async def test_a_server_that_lets_nobody_in_is_a_wrong_configuration(server, status, impatient):
    """A refusal that no retry can fix is a ConfigurationError."""
    server.plan(*[status] * 10)
    with pytest.raises(ConfigurationError, match=str(status)):
        await open_store(server.uri())


async def test_a_wrong_token_is_named_but_never_shown(server, caplog):
    """Neither errors nor logs nor the doctor show a token."""
    caplog.set_level(logging.DEBUG)
    uri = server.uri("x").replace(TOKEN, "Wrong-Token-77")
    with pytest.raises(ConfigurationError, match=r"answered 401.* this authToken") as error:
        await opened(uri)
    findings = await examine(uri, llm=False)
    shown = f"{error.value} {error.value.__cause__!r} {findings} {caplog.text} {to_place(uri)!r}"
    assert "Wrong-Token-77" not in shown
    async with await opened(server.uri("x")) as memories:
        assert TOKEN not in memories.location
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(await examine(server.uri("x"), llm=False))


async def test_a_server_that_is_away_is_a_store_error(impatient):
    """A refused connection is a StoreError that names the server."""
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        await open_store("libsql+http://127.0.0.1:9")


async def test_a_server_that_is_away_for_a_while_heals_by_itself(server, impatient):
    """A store recovers by itself when its server is back."""
    async with await opened(server.uri()) as memories:
        await memories.add(ADA, ["Ada drinks tea."])
        server.plan(*[500] * 30)
        with pytest.raises(StoreError):
            await memories.recall(ADA, "tea")
        server.steps.clear()
        assert len(await memories.recall(ADA, "tea")) == 1


async def test_a_server_that_hangs_is_waited_for_once(server, monkeypatch):
    """Concurrent callers wait for a hanging server together, not one after another."""
    monkeypatch.setattr(hrana, "TIMEOUT", httpx.Timeout(0.5))
    monkeypatch.setattr(hrana, "REST_SECONDS", 600.0)
    async with await opened(server.uri()) as memories:
        await memories.add(ADA, ["Ada drinks tea."])
        server.plan(*["hang"] * 50)
        errors = await asyncio.gather(
            *(memories.recall(ADA, "tea") for _ in range(20)), return_exceptions=True
        )
        assert {type(error) for error in errors} == {StoreError}
        assert server.hung == 1
        server.steps.clear()
        store: Any = memories.store.memories
        store.database.connection.resting_until = 0.0  # as a moment later
        assert len(await memories.recall(ADA, "tea")) == 1


async def test_looking_makes_nothing(server, tmp_path):
    """Checking for a store does not create one."""
    uri = server.uri("empty")
    assert not await LibSQLStore.exists(uri)
    findings = await examine(uri, llm=False)
    assert "holds nothing of ours yet" in repr(findings)
    with closing(server.connect("empty")) as reader:
        assert reader.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    async with await open_store(uri):
        assert await LibSQLStore.exists(uri)


# -- the URI ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        ("libsql://db-ada.turso.io?authToken=e.J-_x", Server("https://db-ada.turso.io", "e.J-_x")),
        ("libsql://db.example", Server("https://db.example", "")),
        ("libsql+https://db.example:8443/path/", Server("https://db.example:8443/path", "")),
        ("LibSQL+http://localhost:80?authToken=a%26%2B", Server("http://localhost:80", "a&+")),
        ("libsql+http://[::1]:8080", Server("http://[::1]:8080", "")),
    ],
)
def test_what_a_uri_names(uri, server):
    """A URI gives the scheme, host, port, path and authToken of the server."""
    assert to_place(uri) == server


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("libsql://ada:pass77@db.example", "no user or password"),
        ("libsql://db.example:port", "libsql://host"),
        ("libsql://db.example?authToken=", "libsql://host"),
        ("libsql://db.example?authToken=pass77%0Ax", "libsql://host"),
        ("libsql://db.example?authToken=pass77&authToken=b", "libsql://host"),
        ("libsql://db.example?authtoken=pass77", "Unknown query parameter 'authtoken'"),
        ("libsql:///memory.db?authToken=pass77", "Unknown query parameter 'authToken'"),
        ("libsql://memory.db?authToken=pass77", "one more slash: libsql:///memory.db"),
        ("libsql:///", "names no file"),
    ],
)
async def test_a_uri_that_names_no_database_says_what_to_write(uri, message):
    """An invalid URI raises an error that shows the correct form and no secret."""
    with pytest.raises(KagentMemoryError, match=message) as error:
        await opened(uri)
    assert isinstance(error.value, ConfigurationError)
    assert "pass77" not in str(error.value)
