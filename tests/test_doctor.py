"""The doctor reads its findings from the database or the server, and names what is missing with
what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from ingestion.ground import Embedding

from kagent_memory import doctor
from kagent_memory.doctor import Diagnosis
from kagent_memory.memories import Memories, diagnosis
from kagent_memory.records import Scope
from kagent_memory.remote import RemoteMemories
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access
from kagent_memory.server.tokens import create_token
from kagent_memory.stores.sql import migrations
from kagent_memory.testing import HashEmbedder


def by_part(findings: Sequence[Diagnosis]) -> dict[str, Diagnosis]:
    return {finding.part: finding for finding in findings}


async def test_versions_and_migrations_are_those_of_the_database(store_uri: str) -> None:
    """The doctor reports the versions and migrations of the database."""
    await (await Memories.open(store_uri, llm=False, worker=False)).close()
    parts = by_part(await doctor.examine(store_uri, llm=False))
    dialect = "postgres" if store_uri.startswith("postgres") else "libsql"
    applied = ", ".join(f"{step.number} {step.name}" for step in migrations(dialect))
    assert parts["migrations"] == Diagnosis("migrations", "ok", f"Applied: {applied}.")
    assert (parts["permissions"].state, parts["extension"].state) == ("ok", "ok")
    if dialect == "postgres":
        with psycopg.connect(store_uri) as connection:
            server, vector = connection.execute(
                "SELECT current_setting('server_version'), extversion FROM pg_extension WHERE "
                "extname = 'vector'"
            ).fetchone() or ("", "")
        assert parts["database"].text.endswith(f"answers: PostgreSQL {server}.")
        assert parts["extension"].text == f"pgvector {vector}."
    else:
        assert "SQLite 3." in parts["database"].text


async def test_rights_that_the_database_user_lacks_are_named(postgres_uri: str) -> None:
    """The doctor names each right that the database user lacks."""
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        try:
            connection.execute("GRANT USAGE ON SCHEMA kagent_memory TO reader")
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA kagent_memory TO reader")
            connection.execute("GRANT INSERT, UPDATE, DELETE ON kagent_memory.memory TO reader")
            parts = by_part(
                await doctor.examine(postgres_uri.replace("postgres:@", "reader:@"), llm=False)
            )
        finally:
            connection.execute("DROP OWNED BY reader")
            connection.execute("DROP ROLE reader")
    lacking = parts["permissions"]
    assert (lacking.state, "GRANT" in lacking.advice) == ("bad", True)
    assert "CREATE on kagent_memory" in lacking.text
    assert "INSERT on ingest_job" in lacking.text
    assert "SELECT" not in lacking.text
    assert "on memory," not in lacking.text


UNOPENED: dict[str, dict[str, Any]] = {
    "no database": {"uri": "libsql:///{folder}/letter.txt"},
    "no folder": {"uri": "libsql:///{folder}/none/memory.db"},
    "another embedder": {"embedding": HashEmbedder(8, "other")},
    "no model": {"llm": 42},
}


@pytest.mark.parametrize("name", UNOPENED)
async def test_what_cannot_be_opened_is_told(tmp_path: Path, name: str) -> None:
    """A store that cannot be opened is one bad finding, with what to do."""
    (tmp_path / "letter.txt").write_text("Dear Ada, this is no database at all. " * 9)
    uri = f"libsql:///{tmp_path}/memory.db"
    async with await Memories.open(
        uri, embedding=HashEmbedder(8), llm=False, worker=False
    ) as memories:
        await memories.add(Scope("", "ada", "desk"), ["Ada sings"])
    arguments = {"uri": uri, **UNOPENED[name]}
    findings = await doctor.examine(arguments.pop("uri").format(folder=tmp_path), **arguments)
    assert [finding.state for finding in findings if finding.state != "ok"] == ["bad"]
    assert findings[-1].text
    assert findings[-1].advice


async def test_an_embedder_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedder whose provider does not answer is a bad finding, with what to do."""
    embedder = Embedding()
    embedder.gate.clear()
    monkeypatch.setattr(diagnosis, "PROBE_SECONDS", 0.2)
    parts = by_part(await doctor.examine("libsql:///:memory:", embedding=embedder, llm=False))
    assert parts["embedder"].state == "bad"
    assert parts["embedder"].advice


async def test_a_server_tells_a_bound_caller_nothing_of_its_parts() -> None:
    """The doctor advises another token where a server's check is not open to the caller's."""
    async with await Memories.open("libsql:///:memory:", llm=False, worker=False) as memories:
        secret, _ = await create_token(memories, user="ada")
        transport = httpx.ASGITransport(create_app(memories, Access(required=True)))
        async with await RemoteMemories.open(
            "http://localhost", transport=transport, token=secret
        ) as remote:
            server, check = await remote.check()
    assert (server.state, check.part, check.state) == ("ok", "check", "bad")
    assert "token" in check.advice


async def test_a_server_that_is_away_is_a_finding() -> None:
    """A check through a server that no longer answers raises nothing: it is a bad finding."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/info"):
            return httpx.Response(200, json={"mode": "keyword", "models": []})
        raise httpx.ConnectError("away")

    transport = httpx.MockTransport(answer)
    async with await RemoteMemories.open("http://localhost", transport=transport) as remote:
        [server] = await remote.check()
    assert (server.part, server.state) == ("server", "bad")
    assert "cannot be reached" in server.text
    assert server.advice
