"""The import samples write other systems' memories as our JSONL, which `kagent-memory import`
takes.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.adk import memory as adk_memory
from google.adk.events.event import Event
from google.genai import types

from kagent_memory import Filter, Memories, Memory, Scope
from kagent_memory.memories.transfer import Imported
from kagent_memory.records import Vector
from kagent_memory.testing.fixtures import vector

SAMPLES = Path(__file__).parent.parent / "samples"
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
APP = "kagent__NS__helper"
SECRET = "ghp_" + "a1B2" * 9
CREATE = """
DROP TABLE IF EXISTS memory, mem0, store;
CREATE TABLE memory (
    id TEXT PRIMARY KEY DEFAULT gen_random_uuid(), agent_name TEXT NOT NULL, user_id TEXT NOT NULL,
    content TEXT,
    embedding {vector}(768), metadata TEXT, created_at TIMESTAMPTZ DEFAULT now(),
    expires_at TIMESTAMPTZ,
    access_count BIGINT DEFAULT 0
);
CREATE TABLE mem0 (id UUID PRIMARY KEY, vector {vector}(3), payload JSONB);
CREATE TABLE store (
    prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL,
    created_at timestamptz DEFAULT CURRENT_TIMESTAMP,
    updated_at timestamptz DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key)
);
"""
FIELDS: Mapping[str, Any] = {
    "agent_name": APP,
    "user_id": "ada",
    "content": "Ada likes tea",
    "metadata": "{}",
    "created_at": START - timedelta(days=20),
    "expires_at": START + timedelta(days=10),
    "access_count": 0,
}


def unit(place: int) -> Vector:
    return vector(*(number == place for number in range(768)))


def run(sample: str, *arguments: object) -> tuple[int, bytes, str]:
    """Return the exit code, the output and the errors of a sample."""
    out, errors, code = BytesIO(), StringIO(), None
    with (
        pytest.MonkeyPatch.context() as patch,
        TextIOWrapper(out, "utf-8", write_through=True) as stdout,
        redirect_stdout(stdout),
        redirect_stderr(errors),
    ):
        patch.setattr(sys, "argv", [sample, *map(str, arguments)])
        patch.syspath_prepend(SAMPLES)
        try:
            runpy.run_path(str(SAMPLES / sample), run_name="__main__")
        except SystemExit as end:
            code = end.code
        written = out.getvalue()
    said = errors.getvalue()
    return (1, written, said + code) if isinstance(code, str) else (code or 0, written, said)


def refused(sample: str, *arguments: object) -> str:
    """Return the error of a sample that stops before its last line."""
    code, out, said = run(sample, *arguments)
    assert code == 1
    assert b'"end"' not in out
    return said


async def opened() -> Memories:
    return await Memories.open(
        "libsql:///:memory:", embedding=None, llm=False, worker=False, clock=lambda: START
    )


async def imported(
    memories: Memories, folder: Path, sample: str, *arguments: object
) -> tuple[Imported, list[str]]:
    """Import a sample's output; return the outcome, and the rows that it named as left out."""
    code, out, said = run(sample, *arguments)
    assert code == 0, said
    path = folder / "converted.jsonl"
    path.write_bytes(out)
    return await memories.import_(path), said.splitlines()


async def kept(memories: Memories, user: str, app: str = APP, tenant: str = "") -> list[Memory]:
    scope = Scope(tenant, user, app)
    whole = await memories.store.memories.whole(
        scope, await memories.store.memories.kept(scope, Filter())
    )
    return sorted((one.memory for one in whole), key=lambda one: one.content)


@pytest.fixture
def database(emptied_uri: str) -> Iterator[psycopg.Connection[Any]]:
    """A database with the tables of kagent, mem0 and LangGraph, made as their systems make them."""
    with psycopg.connect(emptied_uri, autocommit=True) as connection:
        [(schema,)] = connection.execute(
            "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
        ).fetchall()
        connection.execute(CREATE.format(vector=f"{schema}.vector").encode())
        yield connection


def insert_kagent(
    database: psycopg.Connection[Any], id: str, embedding: Iterable[float], **values: Any
) -> None:
    row = {**FIELDS, "id": id, "embedding": str([*map(float, embedding)]), **values}
    columns, places = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    database.execute(f"INSERT INTO memory ({columns}) VALUES ({places})".encode(), row)


async def test_kagents_memories_keep_times_usage_metadata_and_vectors(
    database, emptied_uri, tmp_path
):
    """kagent's rows are read, left as they are, and searched by their own vectors."""
    metadata = {"session_id": "s1", "source": "explicit_save", "n": [1, None]}
    insert_kagent(database, "m1", unit(3), metadata=json.dumps(metadata), access_count=12)
    insert_kagent(database, "m2", unit(4), content=f"Ada's token is {SECRET}", expires_at=None)
    gone = {"content": "Gone", "expires_at": START - timedelta(days=1)}
    for id, row, values in (
        ("m3", [0.0] * 768, {"content": "Grace skis", "metadata": "[1]"}),
        ("m4", unit(5), {"content": " ", "metadata": None}),
        ("m5", unit(6), gone),
    ):
        insert_kagent(database, id, row, user_id="grace", **values)
    before = database.execute("SELECT * FROM memory ORDER BY id").fetchall()
    arguments = ("import_kagent.py", emptied_uri, "--tenant", "acme")
    async with await opened() as memories:
        done, left_out = await imported(memories, tmp_path, *arguments)
        assert (done, done.vectors, left_out) == (Imported(added=4), 3, ["Left out: m4"])
        likes, token = await kept(memories, "ada", tenant="acme")
        told = {"created_at": FIELDS["created_at"], "expires_at": FIELDS["expires_at"]}
        told |= {"session_id": "s1", "metadata": metadata, "ttl_days": 30, "origin": "import"}
        assert {name: getattr(likes, name) for name in told} == told
        assert likes.usage.delivered == 12
        assert (token.ttl_days, token.expires_at) == (0, None)
        assert SECRET not in token.content
        gone, skis = await kept(memories, "grace", tenant="acme")
        assert (gone.content, skis.metadata) == ("Gone", {"metadata": [1]})
        visible = await memories.list(Scope("acme", "grace", APP))
        assert [one.content for one in visible.memories] == ["Grace skis"]
        scope = Scope("acme", "ada", APP)
        near = await memories.parts.caller_vectors.nearest(scope, unit(4), limit=1)
        assert [(one.id, round(cosine, 3)) for one, cosine in near] == [(token.id, 1.0)]
    assert database.execute("SELECT * FROM memory ORDER BY id").fetchall() == before


async def test_mem0s_table_keeps_session_author_times_and_metadata(database, emptied_uri, tmp_path):
    """mem0's table is imported once, however often it is read."""
    known = {
        "hash": "h",
        "created_at": "2026-01-01T10:00:00-08:00",
        "updated_at": "2026-01-02T10:00:00",
    }
    payloads = [
        {
            "data": "Likes tea",
            "user_id": "ada",
            "agent_id": "a",
            "run_id": "r",
            "actor_id": "Bob",
            "food": 1,
        },
        {"data": f"password={SECRET}", "user_id": "ada", "text_lemmatized": "x"},
        {"data": "", "user_id": "ada"},
        {"data": "Other agent", "user_id": "ada", "agent_id": "b"},
    ]
    for number, payload in enumerate(payloads):
        values = (f"00000000-0000-0000-0000-00000000000{number}", json.dumps(known | payload))
        database.execute("INSERT INTO mem0 VALUES (%s, '[1,2,3]', %s)", values)
    assert "pass --app" in refused("import_mem0.py", emptied_uri)
    arguments = ("import_mem0.py", emptied_uri, "--app", "a")
    async with await opened() as memories:
        done, left_out = await imported(memories, tmp_path, *arguments)
        assert (done, len(left_out)) == (Imported(added=2), 2)
        tea, masked = await kept(memories, "ada", "a")
        told = (tea.content, tea.session_id, tea.author, tea.metadata)
        assert told == ("Likes tea", "r", "Bob", {"food": 1})
        assert tea.created_at == datetime(2026, 1, 1, 18, tzinfo=UTC)
        assert tea.updated_at == datetime(2026, 1, 2, 10, tzinfo=UTC)
        assert SECRET not in masked.content
        assert masked.metadata == {}
        assert (await imported(memories, tmp_path, *arguments))[0] == Imported(present=2)


async def test_mem0s_export_keeps_topics_and_expiry(tmp_path):
    """Each of the forms that mem0 exports is read, once however often."""
    path = tmp_path / "mem0.json"
    one = {"id": "x1", "memory": "Likes tea", "user_id": "ada", "categories": ["food"]}
    two = {"id": "x2", "memory": "Until May", "user_id": "grace", "role": "user"}
    rows = [{**one, "metadata": None, "score": None}, {**two, "expiration_date": "2026-05-01"}]
    arguments = ("import_mem0.py", path, "--app", "a")
    for whole in (rows, {"results": rows, "relations": []}, {"count": 2, "memories": rows}):
        path.write_text(json.dumps(whole))
        async with await opened() as memories:
            for outcome in (Imported(added=2), Imported(present=2)):
                assert await imported(memories, tmp_path, *arguments) == (outcome, [])
            [tea], [may] = await kept(memories, "ada", "a"), await kept(memories, "grace", "a")
            assert (tea.topics, tea.expires_at) == (("food",), None)
            assert (may.author, may.expires_at) == ("user", datetime(2026, 5, 1, tzinfo=UTC))


async def test_langgraphs_items_belong_to_whom_their_namespace_names(
    database, emptied_uri, tmp_path
):
    """Items of other namespaces are named as left out."""
    rows = [
        ("memories.ada", "k1", {"text": "Likes tea", "kind": "food"}),
        (
            "memories.ada",
            "k2",
            {"kind": "Memory", "content": {"content": f"Token {SECRET}", "x": [SECRET]}},
        ),
        ("memories.grace", "k1", {"colour": "blue"}),
        ("memories.grace.deep", "k1", {"text": "Too deep"}),
        ("cache.ada", "k1", {"text": "No memory"}),
        ("memories.grace", "k2", {}),
    ]
    for prefix, key, value in rows:
        database.execute("INSERT INTO store VALUES (%s, %s, %s)", (prefix, key, json.dumps(value)))
    # --namespace is required
    assert run("import_langgraph.py", emptied_uri, "--app", "a")[0] == 2
    assert "pass --app and --user" in refused(
        "import_langgraph.py", emptied_uri, "--namespace", "memories.*"
    )
    arguments = ("import_langgraph.py", emptied_uri, "--app", "a", "--namespace", "memories.{user}")
    async with await opened() as memories:
        done, left_out = await imported(memories, tmp_path, *arguments)
        assert done == Imported(added=3)
        assert left_out == [
            f"Left out: {name}"
            for name in ("cache.ada/k1", "memories.grace/k2", "memories.grace.deep/k1")
        ]
        tea, token = await kept(memories, "ada", "a")
        assert tea.content == "Likes tea"
        assert tea.metadata == {"kind": "food", "namespace": "memories.ada", "key": "k1"}
        assert token.content.startswith("Token [secret")
        assert SECRET not in json.dumps(token.metadata)
        (blue,) = await kept(memories, "grace", "a")
        assert json.loads(blue.content) == {"colour": "blue"}


@pytest.mark.skipif(not hasattr(adk_memory, "SqliteMemoryService"), reason="ADK has it since 2.11")
async def test_turns_of_adks_own_service_keep_who_said_them_and_when(tmp_path):
    """Turns of ADK's own service come with author, session and time."""
    path = tmp_path / "adk memory.db"
    service = adk_memory.SqliteMemoryService(path)

    def event(id: str, author: str, *parts: types.Part, at: float = 0.0) -> Event:
        content = types.Content(role="user", parts=list(parts))
        return Event(id=id, author=author, content=content, timestamp=START.timestamp() - 100 + at)

    events = [
        event("e2", "helper", types.Part(text="hm", thought=True), types.Part(text="Noted"), at=1),
        event("e1", "user", types.Part(text="I like tea"), types.Part(text=f"and {SECRET}")),
    ]
    await service.add_events_to_memory(app_name="a", user_id="ada", events=events, session_id="s")
    hello = [event("e1", "user", types.Part(text="Hi"))]
    await service.add_events_to_memory(app_name="a", user_id="grace", events=hello)
    async with await opened() as memories:
        assert await imported(memories, tmp_path, "import_adk.py", path) == (Imported(added=3), [])
        tea, noted = await kept(memories, "ada", "a")
        assert (tea.content[:11], tea.author, tea.event_ids) == ("I like tea\n", "user", ("e1",))
        assert (noted.content, noted.author, noted.session_id) == ("Noted", "helper", "s")
        assert (tea.position, noted.position) == (0, 1)
        assert SECRET not in tea.content
        assert (tea.verbatim, tea.type) == (True, "episodic")
        assert tea.created_at == START - timedelta(seconds=100)
        (hi,) = await kept(memories, "grace", "a")
        assert hi.session_id is None
        found = await memories.recall(Scope("", "ada", "a"), "tea")
        assert found.hits[0].memory.event_ids == ("e1",)


@pytest.mark.parametrize(
    ("sample", "arguments"),
    [
        ("import_kagent.py", ["--table", "mem0"]),
        ("import_kagent.py", ["--table", "nothing"]),
        ("import_kagent.py", ["--table", 'x"; DROP TABLE memory; --']),
        ("import_mem0.py", ["--table", "memory"]),
        ("import_langgraph.py", ["--namespace", "{user}", "--table", "mem0"]),
    ],
)
def test_another_table_is_refused_and_left_alone(database, emptied_uri, sample, arguments):
    """A table of another system is not read as this one."""
    insert_kagent(database, "m1", unit(3))
    assert "cannot be read" in refused(sample, emptied_uri, "--app", "a", *arguments)
    assert database.execute("SELECT count(*) FROM memory").fetchall() == [(1,)]


def test_a_database_that_is_away_is_refused_without_its_password():
    """The error does not repeat the password of the URI."""
    said = refused("import_kagent.py", "postgresql://me:hunter2secret@127.0.0.1:1/x")
    assert "hunter2secret" not in said


@pytest.mark.parametrize(
    "values",
    [
        {"memory": 7},
        {"memory": "x\ud800"},
        {"metadata": {"a": float("nan")}},
        {"created_at": "yesterday"},
        {"created_at": "0001-01-01T00:00:00+14:00"},
        {"updated_at": "9999-12-31T23:59:59-14:00"},
        {"user_id": None},
    ],
    ids=str,
)
def test_a_row_that_cannot_be_read_is_named(values, tmp_path):
    """It stops the export."""
    good, bad = ({"id": id, "memory": "Likes tea", "user_id": "ada"} for id in ("good", "bad"))
    (tmp_path / "mem0.json").write_text(json.dumps([good, bad | values]))
    assert "bad cannot be read" in refused("import_mem0.py", tmp_path / "mem0.json", "--app", "a")


def test_a_sample_is_piped_into_the_command(tmp_path):
    """A sample's output is UTF-8 wherever it goes, and the command reads it from its input."""
    memory = {"id": "x1", "memory": "Likes tea \u2615", "user_id": "ada"}
    (tmp_path / "mem0.json").write_text(json.dumps([memory]))
    sample = [sys.executable, SAMPLES / "import_mem0.py", tmp_path / "mem0.json", "--app", "a"]
    uri = f"libsql:///{tmp_path}/a.db"
    into = [sys.executable, "-m", "kagent_memory", "import", "-", "--json", "--uri", uri]
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    converted = subprocess.check_output(sample, timeout=300, env=environ)
    answer = subprocess.check_output(into, input=converted, timeout=300, env=environ)
    assert json.loads(answer)["added"] == 1
