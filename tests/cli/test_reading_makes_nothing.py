"""The choice of the store: unknown words are refused, and reading commands never create a
database.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import psycopg
import pytest

from kagent_memory import ConfigurationError, KagentMemoryService
from kagent_memory.cli import COMMANDS, main
from kagent_memory.settings import compose

WORDS = {
    "search": ["tea"],
    "show": ["0199a1b2-0000-7000-8000-000000000000"],
    "edit": ["0199a1b2-0000-7000-8000-000000000000", "--content", "x"],
    "pin": ["0199a1b2-0000-7000-8000-000000000000"],
    "forget": ["0199a1b2-0000-7000-8000-000000000000"],
    "history": ["0199a1b2-0000-7000-8000-000000000000"],
    "undo": ["0199a1b2-0000-7000-8000-000000000000"],
    "confirm": ["0199a1b2-0000-7000-8000-000000000000"],
    "migrate --rotate-keys": [],
    "receipts --check": [],
    "forget-tenant": ["acme", "--yes"],
    "token revoke": ["0199a1b2-0000-7000-8000-000000000000"],
}
MAKERS = {"add", "import", "serve", "mcp", "worker", "migrate", "token create"}
READERS = sorted({*(command.title for command in COMMANDS), *WORDS} - MAKERS - {"doctor"})


def words_of(command: str, uri: str) -> list[str]:
    return [*command.split(), *WORDS.get(command, ()), "--uri", uri]


def files(directory: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAGENT_MEMORY_URI", "MEMORY_BACKEND", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("command", READERS)
def test_no_reading_command_makes_a_database_of_a_mistyped_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
):
    """A command that only reads refuses a path where nothing is, names it and makes nothing."""
    code = main(words_of(command, f"libsql:///{tmp_path}/memroy.db"))
    captured = capsys.readouterr()
    assert (code, captured.out) == (5, "")
    assert "memroy.db" in captured.err
    assert "KAGENT_MEMORY_URI" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_nor_of_the_default_where_no_store_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without a store, a reading command creates none at the default path."""
    monkeypatch.chdir(tmp_path)
    assert [main([command]) for command in ("list", "show", "prune")] == [5, 5, 5]
    assert main(["doctor"]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["list", "show", "doctor", "prune"])
def test_other_files_stay_as_they_are(tmp_path: Path, command: str):
    """A file that is no database of ours stays byte for byte as it is."""
    (tmp_path / "empty.db").touch()
    (tmp_path / "letter.txt").write_text("Dear Ada, this is no database. " * 99)
    with sqlite3.connect(tmp_path / "of_others.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.close()
    before = files(tmp_path)
    for name in ("empty.db", "letter.txt", "of_others.db"):
        code = main([command, "--uri", f"libsql:///{tmp_path}/{name}"])
        assert code == 5 or command == "doctor"
    assert files(tmp_path) == before


@pytest.mark.parametrize("command", ["list", "show", "doctor", "prune"])
def test_a_postgres_without_our_schema_stays_without(
    postgres_uri: str, capsys: pytest.CaptureFixture[str], command: str
):
    """A command that only reads makes no schema in a PostgreSQL that lacks the one it names."""

    def schemas() -> set[str]:
        with psycopg.connect(postgres_uri) as connection:
            return {
                row[0] for row in connection.execute("SELECT nspname FROM pg_namespace").fetchall()
            }

    before = schemas()
    code = main([command, "--uri", postgres_uri, "--set", "postgres_schema=memroy"])
    captured = capsys.readouterr()
    assert "memroy" in captured.out + captured.err
    assert code == (0 if command == "doctor" else 5)
    assert schemas() == before
    # no scope to list
    assert main([command, "--uri", postgres_uri]) == (3 if command == "list" else 0)


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "an unknown backend": ({"MEMORY_BACKEND": "qdrant"}, "MEMORY_BACKEND=qdrant"),
    "a slip": (
        {"MEMORY_BACKEND": "pgvectr", "DATABASE_URL": "postgresql://db/x"},
        "MEMORY_BACKEND=pgvectr",
    ),
    "a database that nothing chooses": (
        {"DATABASE_URL": "postgresql://db/x"},
        "MEMORY_BACKEND=pgvector",
    ),
    "pgvector without a database": ({"MEMORY_BACKEND": "pgvector"}, "DATABASE_URL"),
    "a URI left empty": ({"KAGENT_MEMORY_URI": ""}, "KAGENT_MEMORY_URI is set, but empty"),
    "another name of the URI": ({"KAGENT_MEMORY_URL": "postgresql://db/x"}, "KAGENT_MEMORY_URI"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_environment_that_names_no_store_of_ours_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Unless a URI is given, an environment that names no store of ours is refused with advice."""
    environ, message = REFUSED[name]
    with pytest.raises(ConfigurationError, match=message):
        compose(None, None, {}, environ)
    assert compose("libsql:///x.db", None, {}, environ)[0] == "libsql:///x.db"
    monkeypatch.chdir(tmp_path)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=message):
        KagentMemoryService()
    assert main(["add", "x", "--app", "a", "--user", "u"]) == 5
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environ", "uri"),
    [
        ({}, "libsql:///memory.db"),
        ({"MEMORY_BACKEND": "libsql", "DATABASE_URL": "postgresql://db/x"}, "libsql:///memory.db"),
        ({"MEMORY_BACKEND": "PGVector ", "DATABASE_URL": "KAGENT+Postgres://x"}, "postgres://x"),
        (
            {"KAGENT_MEMORY_URI": "libsql:///a.db", "DATABASE_URL": "postgresql://db/x"},
            "libsql:///a.db",
        ),
        ({"KAGENT_MEMORY_URI": "KAGENT+Libsql:///A", "MEMORY_BACKEND": "qdrant"}, "libsql:///A"),
    ],
)
def test_what_the_environment_chooses(environ: dict[str, str], uri: str):
    """Our own URI comes first, then the backend that kagent names, then the default file."""
    assert compose(None, None, {}, environ)[0] == uri
