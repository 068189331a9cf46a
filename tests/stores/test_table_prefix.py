"""Several installations in one schema of PostgreSQL, beside other people's tables: `table_prefix`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import numpy as np
import psycopg
import pytest

from kagent_memory import Memories
from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError
from kagent_memory.records import Change, Memory, Scope, new_id
from kagent_memory.settings import MemorySettings, compose
from kagent_memory.stores import Store, open_store
from kagent_memory.stores.base import Batch
from kagent_memory.stores.sql import made, queries, schema
from kagent_memory.testing import HashEmbedder, StoreContract
from kagent_memory.testing.contract import ApplyContract, ForgetContract, IsolationContract, VectorSearchContract

PREFIX = "team_a_"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
ADA = Scope("acme", "ada", "notes")
TABLES = sorted(name for name, kind in made("postgres").items() if kind == "TABLE" and not name.endswith("_"))
OTHERS = [*TABLES, "memory_vector_1", "remembered"]
"""Tables of somebody else, with the names that ours have without a prefix."""
STANDING = """
SELECT c.oid, c.relname, c.relkind, c.relforcerowsecurity, c.relacl::text,
    (SELECT count(*) FROM pg_policy AS p WHERE p.polrelid = c.oid)
FROM pg_class AS c
WHERE c.relnamespace = 'kagent_memory'::regnamespace AND NOT starts_with(c.relname, %s) ORDER BY 1
"""


def standing(uri: str) -> list[tuple[object, ...]]:
    with psycopg.connect(uri) as connection:
        return connection.execute(STANDING, (PREFIX,)).fetchall()


@pytest.fixture(scope="class")
def shared_schema(kept_database: str) -> Iterator[str]:
    """The URI of a database whose schema is full of other people's tables, each with our names and other columns."""
    with psycopg.connect(kept_database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA kagent_memory CASCADE; CREATE SCHEMA kagent_memory")
        for name in OTHERS:
            connection.execute(f"CREATE TABLE kagent_memory.{name} (theirs text, tenant text, scope_id text)")
            connection.execute(f"INSERT INTO kagent_memory.{name} VALUES ('{name}', 'acme', 'x')")
    before = standing(kept_database)
    yield kept_database
    assert standing(kept_database) == before
    with psycopg.connect(kept_database) as connection:
        for name in OTHERS:
            assert connection.execute(f"SELECT * FROM kagent_memory.{name}").fetchall() == [(name, "acme", "x")]
        ours = connection.execute(
            "SELECT count(*) FROM pg_class "
            "WHERE relnamespace = 'kagent_memory'::regnamespace AND starts_with(relname, %s)",
            (PREFIX,),
        ).fetchone()
        assert ours[0] > len(made("postgres"))  # and the indexes of primary keys


class WithAPrefix:
    """The fixture finds afterwards what is not ours as it was, and nothing of ours without the prefix."""

    @pytest.fixture(autouse=True)
    def _database(self, shared_schema: str, emptying: Callable[[str], str]) -> Iterator[None]:
        self.uri = shared_schema
        yield
        with psycopg.connect(shared_schema, autocommit=True) as connection:
            connection.execute(emptying(PREFIX))

    async def open_store(self) -> Store:
        return await open_store(self.uri, table_prefix=PREFIX, rls=True)


class TestWithAPrefix(WithAPrefix, IsolationContract, ApplyContract, ForgetContract, VectorSearchContract):
    """What tells one installation's rows from another's; test-slow runs the whole contract."""


@pytest.mark.slow
class TestAllWithAPrefix(WithAPrefix, StoreContract):
    pass


# -- the text of the statements ------------------------------------------------------------------------------


def texts(prefix: str) -> dict[str, str]:
    return {**queries("postgres", prefix), "schema": schema("postgres", prefix)}


def test_a_prefix_changes_nothing_but_names():
    plain, prefixed = texts(""), texts("zz_")
    assert {name: text.replace("zz_", "") for name, text in prefixed.items()} == plain


def test_no_statement_and_no_migration_names_an_object_without_its_prefix():
    names = "|".join(sorted(made("postgres"), key=len, reverse=True))
    # A ledger of any installation is looked for by the end of its name; what stands after a point is a column.
    bare = re.compile(rf"(?<![\w.])(?:{names})(?![a-z_])")
    for name, text in texts("zz_").items():
        read = re.sub(r"--.*|%\(\w+\)[sb]|right\(\w\.relname, 16\) = 'schema_migration'|'\^zz_\(\S+\)\$'", "", text)
        assert bare.findall(read) == [], name
        assert not re.search(r"\{(?!space|dimensions)\w+\}", text), name
    assert bare.findall("SELECT 'memory' FROM memory_vector_1, scope WHERE m.token") == [
        "memory",
        "memory_vector_",
        "scope",
    ]


def test_all_that_is_made_is_known_by_name():
    scripts = re.sub(r"--.*|'[^']*'", "", "\n".join(texts("").values()))
    kinds = re.findall(r"\bCREATE (?:OR REPLACE |UNIQUE )*(\w+)", scripts)
    assert {*kinds} == {"TABLE", "INDEX", "VIEW", "ROLE"}
    assert "CONSTRAINT " not in scripts
    assert "RENAME" not in scripts


def test_with_the_longest_prefix_the_longest_name_is_not_cut_and_no_two_prefixes_share_a_name():
    longest = "a" * 24
    names = [f"{name}{2**31 - 1}" if name.endswith("_") else name for name in made("postgres")]
    tables = [name for name in names if made("postgres").get(name) == "TABLE"]
    all_names = [*names, *(f"{name}_pkey" for name in [*tables, f"memory_vector_{2**31 - 1}"])]
    assert max(len(f"{longest}{name}") for name in all_names) <= 63 - len("_102008")  # Citus's parts have a number
    assert MemorySettings().updated({"table_prefix": longest}).table_prefix == longest
    for name in all_names:
        assert not any(name != other and name.endswith(other) for other in all_names), name


def test_without_a_prefix_every_statement_is_made_once():
    assert queries("postgres") is queries("postgres")
    assert queries("postgres", PREFIX) is queries("postgres", PREFIX)


# -- bad input -----------------------------------------------------------------------------------------------

BAD = (
    "Team_", "1a_", "a-b_", "a b", "a_;DROP TABLE x", 'a"', "a'", "ä_", "pg_", "pg_team_", "a" * 25, " ", "a_\n",
    "a.b_", "{prefix}", "%s", "$$", "\x00",
)  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_prefix_is_one_error_that_says_what_to_do(bad):
    asked = "table_prefix: .*up to 24 of the characters a-z, 0-9 and _.*leave it out"
    with pytest.raises(ConfigurationError, match=asked):
        compose("postgresql://nowhere.invalid/x", None, {"table_prefix": bad}, {})
    with pytest.raises(ConfigurationError, match=asked):
        compose(None, None, {}, {"KAGENT_MEMORY_URI": "postgresql://x/y", "KAGENT_MEMORY_TABLE_PREFIX": bad})
    with pytest.raises(ConfigurationError, match=asked):
        queries("postgres", bad)


@pytest.mark.parametrize("bad", [7, None, True, ["a_"]])
def test_a_prefix_is_text(bad):
    with pytest.raises(ConfigurationError, match="table_prefix"):
        MemorySettings().updated({"table_prefix": bad})


def test_a_prefix_is_read_from_the_environment_and_the_uri_which_wins():
    environ = {"KAGENT_MEMORY_TABLE_PREFIX": "env_"}
    assert compose("postgresql://x/y", None, {}, environ)[1].table_prefix == "env_"
    bare, settings = compose("postgresql://x/y?table_prefix=uri_&sslmode=require", None, {}, environ)
    assert (bare, settings.table_prefix) == ("postgresql://x/y?sslmode=require", "uri_")
    assert compose("postgresql://x/y", None, {}, {"KAGENT_MEMORY_TABLE_PREFIX": ""})[1].table_prefix == ""


def test_a_file_is_a_namespace_of_its_own(tmp_path, capsys):
    uri = f"libsql:///{tmp_path}/memory.db?table_prefix={PREFIX}"
    with pytest.raises(ConfigurationError, match=r"table_prefix tells several .* name another file or"):
        asyncio.run(Memories.open(uri, worker=False))
    for command in (["migrate"], ["list", "--user", "ada", "--app", "notes"]):
        assert main([*command, "--uri", uri]) == 5
        assert "leave table_prefix out" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


# -- side by side --------------------------------------------------------------------------------------------


def filled(text: str) -> Batch:
    memory = Memory(id=new_id(), content=text, created_at=NOW, updated_at=NOW)
    return Batch(changes=[Change(kind="add", memory=memory, explicit=True)])


async def contents(store: Store) -> list[str]:
    return [one.content for one in (await store.list(ADA, now=NOW)).memories]


async def test_two_installations_stand_in_one_schema_and_neither_touches_the_other(postgres_uri, caplog):
    options = {"embedding": HashEmbedder(), "worker": False}
    async with (
        await Memories.open(postgres_uri, **options) as plain,
        await Memories.open(f"{postgres_uri}&table_prefix={PREFIX}&rls=true", **options) as guarded,
    ):
        assert "Creating another installation in the schema kagent_memory, with table_prefix='team_a_'" in caplog.text
        caplog.clear()
        for memories in (plain, guarded):
            await memories.add(ADA, ["Ada keeps bees.", "Ada likes rye bread."])
        await guarded.forget(ADA, everything=True)
        assert [hit.memory.content for hit in (await plain.recall(ADA, "bees")).hits][:1] == ["Ada keeps bees."]
        assert not (await guarded.recall(ADA, "bees")).hits
        await guarded.add(ADA, ["Ada keeps bees."])
        await plain.forget_tenant("acme")
        assert not (await plain.recall(ADA, "bees")).hits
        assert [hit.memory.content for hit in (await guarded.recall(ADA, "bees")).hits] == ["Ada keeps bees."]
        assert (await plain.check())["migrations"] == (await guarded.check())["migrations"]
        assert "lacking" not in {**await plain.check(), **await guarded.check()}
    assert "another installation" not in caplog.text
    with psycopg.connect(postgres_uri) as connection:
        forced = {
            name.startswith(PREFIX)
            for (name,) in connection.execute("SELECT relname::text FROM pg_class WHERE relforcerowsecurity")
        }
        assert forced == {True}
        connection.execute("SET search_path = kagent_memory")
        scope = ADA.id.hex()
        connection.execute(
            "SELECT set_config('kagent.scope', %s, true), set_config('role', %s, true)",
            (scope, f"{PREFIX}kagent_memory_app"),
        )
        assert connection.execute(f"SELECT count(*) FROM {PREFIX}memory").fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM memory")


async def test_row_security_of_one_installation_leaves_the_tables_of_the_others_open(postgres_uri):
    """Whichever comes first, and though the prefix of one begins with the other's."""
    for prefix in ("a_", "a_b_"):
        async with await open_store(postgres_uri, table_prefix=prefix) as store:
            await store.add_embedding_space("g", 4, None)
            await store.apply(ADA, filled(prefix), now=NOW)
    for prefix in ("", "a_", "a_b_"):
        async with await open_store(postgres_uri, table_prefix=prefix, rls=True) as store:
            await store.apply(ADA, filled("guarded"), now=NOW)
        with psycopg.connect(postgres_uri) as connection:
            guarded = connection.execute(
                "SELECT relname::text FROM pg_class WHERE relforcerowsecurity ORDER BY relname"
            ).fetchall()
        owners = {"a_b_" if name.startswith("a_b_") else "a_" if name.startswith("a_") else "" for (name,) in guarded}
        assert owners == {"": {""}, "a_": {"", "a_"}, "a_b_": {"", "a_", "a_b_"}}[prefix]
    for prefix in ("a_", "a_b_"):
        async with await open_store(postgres_uri, table_prefix=prefix) as store:
            assert sorted(await contents(store)) == sorted([prefix, "guarded"])
            assert [space.name for space in await store.embedding_spaces()] == ["g"]
            unit = np.ones(4, np.float32)
            assert await store.search_vector(ADA, 1, [unit], limit=3, now=NOW) == [[]]


def test_the_command_line_makes_a_second_installation_says_so_and_makes_none_by_reading(postgres_uri, capsys, caplog):
    user = ["--user", "ada", "--app", "notes", "--set", f"table_prefix={PREFIX}"]
    assert main(["list", "--uri", postgres_uri, *user]) == 5
    assert f"(schema kagent_memory, table_prefix {PREFIX})" in capsys.readouterr().err
    assert main(["migrate", "--uri", postgres_uri, "--set", f"table_prefix={PREFIX}"]) == 0
    assert f"its tables with the prefix {PREFIX}" in capsys.readouterr().out
    assert "Creating another installation" in caplog.text
    assert main(["list", "--uri", postgres_uri, *user]) == 0


async def test_a_ledger_of_somebody_else_in_the_schema_of_pgvector_is_not_ours(postgres_uri):
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("DROP SCHEMA kagent_memory CASCADE")
        connection.execute("CREATE TABLE public.schema_migration (version text)")
    async with await open_store(postgres_uri) as store:
        await store.apply(ADA, filled("here"), now=NOW)
    async with await open_store(postgres_uri) as store:
        assert await contents(store) == ["here"]


@pytest.mark.parametrize("schema", ["Odd Name", 'quo"ted'])
async def test_a_schema_may_have_any_name_under_row_security_too(postgres_uri, schema):
    for prefix in ("", PREFIX):
        async with await open_store(postgres_uri, schema=schema, table_prefix=prefix, rls=True) as store:
            await store.add_embedding_space("g", 4, None)
            await store.apply(ADA, filled(f"here {prefix}"), now=NOW)
            assert await contents(store) == [f"here {prefix}"]
