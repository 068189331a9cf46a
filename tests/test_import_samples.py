"""The import samples write other systems' memories as our JSONL, which `kagent-memory import`
takes.

What they write is held against golden files: the rows that they name as left out, then their lines.
`make docs` writes them anew.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import psycopg
import pytest
from google.adk import memory as adk_memory
from google.adk.events.event import Event
from google.genai import types
from memories.opening import opened

from kagent_memory.memories.transfer import Imported

SAMPLES = Path(__file__).parent.parent / "samples"
ITEMS = Path(__file__).parent / "items"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def run(sample: str, *arguments: object) -> tuple[int, str, str]:
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
        written = out.getvalue().decode()
    stderr = errors.getvalue()
    return (1, written, stderr + code) if isinstance(code, str) else (code or 0, written, stderr)


async def check(golden: str, folder: Path, sample: str, *arguments: object) -> None:
    """Compare what a sample writes with a golden file, and import it twice."""
    code, out, stderr = run(sample, *arguments)
    assert code == 0, stderr
    lines = out.splitlines()[1:]  # the head says when it was written
    path = ITEMS / golden
    text = "\n".join([*stderr.splitlines(), *lines, ""])
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "if it is meant: make docs"
    converted = folder / "converted.jsonl"
    converted.write_text(out, encoding="utf-8")
    count = len(lines) - 1
    async with await opened() as memories:
        assert await memories.import_(converted) == Imported(added=count)
        assert await memories.import_(converted) == Imported(present=count)


@pytest.fixture
def database(postgres_uri: str) -> Iterator[str]:
    """The URI of a database with the tables of kagent, mem0 and LangGraph."""
    tables = "memory", "mem0", "store"

    def rows() -> list[object]:
        return [connection.execute(f"TABLE {name}".encode()).fetchall() for name in tables]

    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        [(schema,)] = connection.execute(
            "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
        ).fetchall()
        script = (ITEMS / "foreign.sql").read_text("utf-8").replace("{vector}", f"{schema}.vector")
        connection.execute(f"DROP TABLE IF EXISTS {', '.join(tables)}; {script}".encode())
        before = rows()
        yield postgres_uri
        assert rows() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["import_kagent.py", "--tenant", "acme"],
        ["import_mem0.py", "--app", "a"],
        ["import_langgraph.py", "--app", "a", "--namespace", "memories.{user}"],
    ],
    ids=lambda arguments: arguments[0],
)
async def test_a_table_becomes_lines_and_stays(database, tmp_path, arguments):
    """Owners, times, use, metadata and vectors are kept, secrets masked, and other rows named."""
    sample, *options = arguments
    await check(f"{sample.removesuffix('.py')}.jsonl", tmp_path, sample, database, *options)


@pytest.mark.parametrize("shape", ["list", "results", "memories"])
async def test_mem0s_export_keeps_topics_and_expiry(tmp_path, shape):
    """Each of the forms that mem0 exports is read."""
    first = {"id": "x1", "memory": "Likes tea", "user_id": "ada", "categories": ["food"]}
    second = {"id": "x2", "memory": "Until May", "user_id": "grace", "role": "user"}
    rows = [{**first, "metadata": None, "score": None}, {**second, "expiration_date": "2026-05-01"}]
    rows = [{"created_at": "2026-02-09T12:00:00", **row} for row in rows]
    (tmp_path / "mem0.json").write_text(json.dumps(rows if shape == "list" else {shape: rows}))
    arguments = "import_mem0.py", tmp_path / "mem0.json", "--app", "a"
    await check("import_mem0_export.jsonl", tmp_path, *arguments)


@pytest.mark.skipif(not hasattr(adk_memory, "SqliteMemoryService"), reason="ADK has it since 2.11")
async def test_turns_of_adks_own_service_keep_who_and_when(tmp_path):
    """Turns of ADK's own service come with author, session and time, and without thoughts."""
    service = adk_memory.SqliteMemoryService(tmp_path / "adk memory.db")

    def event(id: str, author: str, *parts: types.Part, at: float = 0.0) -> Event:
        content = types.Content(role="user", parts=list(parts))
        return Event(id=id, author=author, content=content, timestamp=NOW.timestamp() - 100 + at)

    events = [
        event("e2", "helper", types.Part(text="hm", thought=True), types.Part(text="Noted"), at=1),
        event("e1", "user", types.Part(text="I like"), types.Part(text="password=hunter2secret")),
    ]
    await service.add_events_to_memory(app_name="a", user_id="ada", events=events, session_id="s")
    hello = [event("e1", "user", types.Part(text="Hi"))]
    await service.add_events_to_memory(app_name="a", user_id="grace", events=hello)
    await check("import_adk.jsonl", tmp_path, "import_adk.py", tmp_path / "adk memory.db")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import_kagent.py", "--table", 'x"; DROP TABLE memory; --'], "cannot be read"),
        (["import_mem0.py", "--table", "memory"], "cannot be read"),
        (["import_mem0.py"], "pass --app"),
        (["import_langgraph.py", "--namespace", "{user}", "--table", "mem0"], "cannot be read"),
        (["import_langgraph.py", "--namespace", "memories.*"], "pass --app and --user"),
    ],
)
def test_another_table_is_refused_and_left_alone(database, arguments, message):
    """A table of another system is not read as this one, and rows want an owner."""
    code, out, stderr = run(arguments[0], database, *arguments[1:])
    assert (code, '"end"' in out, message in stderr) == (1, False, True)


def test_a_database_away_is_refused_without_its_password():
    """The error does not repeat the password of the URI."""
    code, out, stderr = run("import_kagent.py", "postgresql://me:hunter2secret@127.0.0.1:1/x")
    assert (code, '"end"' in out, "hunter2secret" in stderr) == (1, False, False)
