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
from memories.opening import ADA, opened, through_a_server

from kagent_memory import doctor
from kagent_memory.doctor import Diagnosis
from kagent_memory.memories import diagnosis
from kagent_memory.remote import RemoteMemories
from kagent_memory.server.tokens import create_token
from kagent_memory.stores.sql import migrations
from kagent_memory.testing import HashEmbedder


def by_part(findings: Sequence[Diagnosis]) -> dict[str, Diagnosis]:
    return {finding.part: finding for finding in findings}


async def test_versions_and_migrations_are_those_of_the_database(store_uri: str):
    """The doctor reports the versions and migrations of the database."""
    await (await opened(store_uri)).close()
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


async def test_rights_that_the_database_user_lacks_are_named(postgres_uri: str):
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
async def test_what_cannot_be_opened_is_told(tmp_path: Path, file_uri: str, name: str):
    """A store that cannot be opened is one bad finding, with what to do."""
    (tmp_path / "letter.txt").write_text("Dear Ada, this is no database at all. " * 9)
    async with await opened(file_uri, embedding=HashEmbedder(8)) as memories:
        await memories.add(ADA, ["Ada sings"])
    arguments = {"uri": file_uri, **UNOPENED[name]}
    findings = await doctor.examine(arguments.pop("uri").format(folder=tmp_path), **arguments)
    assert [finding.state for finding in findings if finding.state != "ok"] == ["bad"]
    assert findings[-1].text
    assert findings[-1].advice


async def test_an_embedder_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch):
    """An embedder whose provider does not answer is a bad finding, with what to do."""
    embedder = Embedding()
    embedder.gate.clear()
    monkeypatch.setattr(diagnosis, "PROBE_SECONDS", 0.2)
    parts = by_part(await doctor.examine("libsql:///:memory:", embedding=embedder, llm=False))
    assert parts["embedder"].state == "bad"
    assert parts["embedder"].advice


async def test_a_server_tells_a_bound_caller_nothing_of_its_parts():
    """The doctor advises another token where a server's check is not open to the caller's."""
    async with await opened() as memories:
        secret, _ = await create_token(memories, user="ada")
        async with await through_a_server(memories, secret) as remote:
            server, check = await remote.check()
    assert (server.state, check.part, check.state) == ("ok", "check", "bad")
    assert "token" in check.advice


async def test_a_server_that_is_away_is_a_finding():
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
