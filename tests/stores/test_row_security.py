"""Row level security: what raw SQL sees and may do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from relay import execute

from kagent_memory import Memories
from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError
from kagent_memory.records import Scope, new_id
from kagent_memory.stores import Store, open_store, sql
from kagent_memory.stores.postgres.connection import fetch
from kagent_memory.stores.sql import Migration, migrations
from kagent_memory.stores.values import Batch, Erasure, Token
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import (
    DAY,
    NOW,
    a_job,
    a_memory,
    adding,
    changing,
    delivery,
    vector,
)

ADA, BEN = Scope("acme", "ada", "notes"), Scope("acme-corp", "ada", "notes")
APP, MAINTENANCE = "kagent_memory_app", "kagent_memory_maintenance"
PLACES = """
SELECT oid::regclass::text FROM pg_class
WHERE relnamespace = 'kagent_memory'::regnamespace AND relkind = 'r' AND EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = ANY('{%s}')
)
"""
SCOPED, GUARDED = PLACES % "scope_id", PLACES % "scope_id,tenant"
WRONG = (
    None,
    "",
    "nonsense",
    "-",
    "0" * 32,
    "00000000-0000-0000-0000-000000000000",
    Scope("acme", "ada", "note").id.hex(),
    ADA.id.hex()[:-1],
    ADA.id.hex() + "0",
    "' OR true --",
    "%",
    "é" * 32,
)
_numbers = itertools.count()


def user_of(uri: str) -> str:
    return uri.split("//")[1].split(":")[0]


@contextmanager
def a_login(uri: str, attributes: str = "") -> Iterator[str]:
    """The URI of a user of the database who is no superuser and owns nothing."""
    name = f"login_{next(_numbers)}"
    execute(uri, f"CREATE ROLE {name} LOGIN {attributes}")
    try:
        yield uri.replace("postgres:@", f"{name}:@")
    finally:
        execute(
            uri,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE usename = '{name}' AND datname = current_database()",
            # what was granted in its name is taken back by the superuser, who granted nothing of it
            "DROP SCHEMA IF EXISTS kagent_memory CASCADE",
            f"DROP OWNED BY {name} CASCADE",
            f"DROP ROLE {name}",
        )


@contextmanager
def an_owner(uri: str) -> Iterator[str]:
    """The URI of a user who may make roles, in a database with nothing but pgvector."""
    with a_login(uri, "CREATEROLE") as mine:
        name = user_of(mine)
        [[database]] = execute(
            uri, "DROP SCHEMA kagent_memory CASCADE", "SELECT current_database()"
        )
        # the roles belong to the server: another test has made them most likely
        for [role] in execute(
            uri, "SELECT rolname FROM pg_roles WHERE rolname ~ '^kagent_memory_'"
        ):
            try:
                execute(uri, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
            except psycopg.errors.DependentObjectsStillExist:  # of another process's tests
                execute(uri, f"GRANT {role} TO {name} WITH ADMIN OPTION")
        execute(uri, f"GRANT CREATE ON DATABASE {database} TO {name}")
        yield mine


@pytest.fixture(params=["superuser", "owner"])
def guarded_uri(request: pytest.FixtureRequest, postgres_uri: str) -> Iterator[str]:
    """A database's URI, for a superuser who owns the schema or an owner who is none."""
    if request.param == "superuser":
        yield postgres_uri
    else:
        with an_owner(postgres_uri) as uri:
            yield uri


async def fill(store: Store) -> None:
    """Rows of two scopes in every table that holds such."""
    space_number = (await store.memories.spaces.add("g", 4, None)).number
    for scope in (ADA, BEN):
        first, second = (
            a_memory(f"{scope.tenant} says {number}", session_id="s", event_ids=(f"{number}",))
            for number in range(2)
        )
        embedded: dict[str, Any] = {
            "vectors": {first.id: vector(1, 2, 3, 4)},
            "space_number": space_number,
        }
        taken, jobs = [("s", "0"), ("s", "1")], [a_job(scope, "embed")]
        batch = Batch(changes=adding(first, second), taken=taken, jobs=jobs)
        await store.apply(scope, batch, now=NOW)
        stored = (await store.memories.get(scope, [first.id], now=NOW))[first.id]
        change = changing(stored, now=NOW, content=f"{scope.tenant} says more")
        await store.apply(scope, Batch(changes=[change], **embedded), now=NOW)
        await store.forget(scope, Erasure(ids=[second.id], who="me", now=NOW))
        await store.memories.count([delivery(scope, first.id)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kagent_memory.stores.sql.index_cache.MIN_PACKED", 1)
            await store.memories.view(scope, now=NOW)
            memories: Any = store.memories
            await asyncio.wait(memories.indexes.packing)
        token = Token(id=new_id(), digest=scope.tenant, tenant=scope.tenant, created_at=NOW)
        await store.tokens.add(token)


async def contents(store: Store, scope: Scope = ADA) -> list[str]:
    return [memory.content for memory in (await store.memories.list(scope, now=NOW)).memories]


def rows(connection: psycopg.Connection[Any], *tables: str) -> set[int]:
    return {
        count
        for table in tables
        for (count,) in connection.execute(f"SELECT count(*) FROM kagent_memory.{table}".encode())
    }


@contextmanager
def raw(uri: str, role: str | None, setting: str | None) -> Iterator[psycopg.Connection[Any]]:
    """A session of anybody with SQL, as the role, with the setting; a superuser is one of none only
    as a role.
    """
    options = "-csearch_path=kagent_memory,public"
    with psycopg.connect(uri, autocommit=True, options=options) as connection:
        if role:
            connection.execute(f"SET ROLE {role}".encode())
        if setting is not None:
            connection.execute("SELECT set_config('kagent.scope', %s, false)", (setting,))
        yield connection


denied = partial(pytest.raises, psycopg.errors.InsufficientPrivilege)


async def test_raw_sql_without_its_scopes_setting_sees_no_row(guarded_uri):
    """Raw SQL with a wrong or missing setting sees no row and writes none."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
        tables = [table for (table,) in execute(guarded_uri, SCOPED)]
        assert len(tables) == 11
        roles = (APP,) if guarded_uri.startswith("postgresql://postgres") else (None, APP)
        for role, setting in itertools.product(roles, WRONG):
            with raw(guarded_uri, role, setting) as connection:
                assert rows(connection, *tables, "remembered", "token") == {0}
                for table in tables:
                    for change in ("DELETE FROM {}", "UPDATE {} SET scope_id = scope_id"):
                        assert connection.execute(change.format(table).encode()).rowcount == 0
                for whose in (ADA, BEN):
                    with denied(match="row-level security"):
                        connection.execute(
                            "INSERT INTO tombstone VALUES (%s, 'event', 'x', now())",
                            (whose.id.hex(),),
                        )
        with raw(guarded_uri, MAINTENANCE, None) as everything:
            assert 0 not in rows(everything, *tables)


async def test_raw_sql_with_a_scopes_setting_sees_its_rows_alone(guarded_uri):
    """Raw SQL with a scope's setting sees and writes that scope's rows alone."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
        tables = [table for (table,) in execute(guarded_uri, SCOPED)]
        for scope, other, form in ((ADA, BEN, ADA.id.hex()), (BEN, ADA, BEN.id.hex().upper())):
            with raw(guarded_uri, APP, form) as connection:
                for table in (*tables, "remembered"):
                    cursor = connection.execute(f"SELECT DISTINCT scope_id FROM {table}".encode())
                    # receipts are kept by tenant
                    own = [] if "receipt" in table else [(UUID(bytes=scope.id),)]
                    assert cursor.fetchall() == own, table
                [(content,)] = connection.execute("SELECT content FROM remembered")
                assert content == f"{scope.tenant} says more"
                theirs = (other.id.hex(),)
                with denied(match="row-level security"):
                    connection.execute("UPDATE memory SET scope_id = %s", theirs)
                moved = "UPDATE memory SET content = 'x' WHERE scope_id = %s"
                assert connection.execute(moved, theirs).rowcount == 0
                with denied():  # as a unique index might, a conflict tells nothing of others' rows
                    connection.execute(
                        "INSERT INTO scope (scope_id, tenant, user_id, app, version, salt) "
                        "VALUES (%s, '', '', '', 1, '') "
                        "ON CONFLICT (scope_id) DO UPDATE SET version = 99",
                        theirs,
                    )


async def test_a_connection_of_the_pool_carries_nothing_over(direct_or_pooled_uri):
    """A transaction's role and scope end with it, however it ends."""
    async with await open_store(direct_or_pooled_uri, rls=True, pool_size=2) as store:
        await fill(store)

        async def failing(session):
            await session.execute(("scope_memories", {"scope_id": ADA.id}))
            raise ValueError(ADA)

        database: Any = store.memories.database  # type: ignore[attr-defined]
        for number in range(20):
            cut = asyncio.ensure_future(store.memories.list(ADA, now=NOW))
            calls = [contents(store), contents(store, BEN), store.memories.spaces.all()]
            ended = await asyncio.gather(
                *calls, database.run(failing, ADA, write=True), return_exceptions=True
            )
            assert isinstance(ended.pop(), ValueError)
            assert not [end for end in ended if isinstance(end, BaseException)]
            await asyncio.sleep(0.0005 * number)
            cut.cancel()
            await asyncio.wait([cut])
        both = asyncio.Barrier(2)

        async def state(connection, _traits):
            await both.wait()  # each has a connection of its own
            return await fetch(
                connection,
                "SELECT current_user = session_user AS free, "
                "coalesce(current_setting('kagent.scope', true), '') AS scope",
            )

        for rows in await asyncio.gather(*(database.pool.use(state) for _ in range(2))):
            assert rows == [{"free": True, "scope": ""}]


async def test_a_prune_erases_in_every_scope(guarded_uri):
    """A prune acts for all scopes, and each of its transactions erases those of several."""
    async with await open_store(guarded_uri, rls=True) as store:
        for scope in (ADA, BEN):
            batch = Batch(changes=adding(a_memory("tea", ttl_days=1)))
            await store.apply(scope, batch, now=NOW)
        assert (await store.memories.prune(now=NOW + 2 * DAY, popular_after=10)).deleted == 2
    with raw(guarded_uri, MAINTENANCE, None) as everything:
        assert rows(everything, "memory") == {0}


async def test_the_roles_may_not_log_in_or_own_anything(guarded_uri):
    """The roles may not log in, pass the policies by, or own anything."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
        assert execute(
            guarded_uri,
            "SELECT rolname,"
            " rolcanlogin OR rolbypassrls OR rolsuper OR rolcreaterole OR rolcreatedb,"
            " pg_has_role(current_user, oid, 'MEMBER'),"
            f" pg_has_role('{APP}', oid, 'MEMBER') AND rolname <> '{APP}',"
            f" (SELECT count(*) FROM pg_class WHERE relowner = '{APP}'::regrole)"
            f" FROM pg_roles WHERE rolname IN ('{APP}', '{MAINTENANCE}') ORDER BY 1",
        ) == [(name, False, True, False, 0) for name in (APP, MAINTENANCE)]


async def test_switching_row_security_on_keeps_what_is_there(guarded_uri):
    """Switching it on keeps what is there and every store opened afterwards finds out."""
    for rls in (False, True, False):
        async with await open_store(guarded_uri, rls=rls) as store:
            if not await store.scopes():
                await fill(store)
            assert await contents(store) == ["acme says more"]
            assert len(await store.scopes()) == 2
    async with await open_store(guarded_uri) as store:
        await store.memories.spaces.add("more", 9, None)
    assert execute(guarded_uri, f"{GUARDED} AND NOT relforcerowsecurity") == []
    with raw(guarded_uri, APP, "") as connection:
        assert rows(connection, "memory", "memory_vector_1", "memory_vector_2") == {0}


async def test_unguarded_tables_are_guarded_at_open(guarded_uri):
    """Tables left without policies are guarded when the store is opened."""
    await (await open_store(guarded_uri, rls=True)).close()
    execute(
        guarded_uri,
        "ALTER TABLE tombstone NO FORCE ROW LEVEL SECURITY",
        "ALTER VIEW remembered RESET (security_invoker)",
        "CREATE TABLE kagent_memory.later (scope_id uuid)",
    )
    await (await open_store(guarded_uri)).close()
    assert execute(guarded_uri, f"{GUARDED} AND NOT relforcerowsecurity") == []
    assert execute(guarded_uri, "SELECT reloptions FROM pg_class WHERE relname = 'remembered'") == [
        (["security_invoker=true"],)
    ]


async def test_a_later_migration_leaves_rows_guarded(guarded_uri, monkeypatch):
    """A later migration changes the rows of every scope and leaves them guarded."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
    later = Migration(9999, "later", "UPDATE memory SET content = 'upgraded'")
    steps = [*migrations("postgres"), later]
    monkeypatch.setattr(sql, "migrations", lambda _: steps)
    async with await open_store(guarded_uri) as store:
        assert await contents(store) == await contents(store, BEN) == ["upgraded"]
    assert len(execute(guarded_uri, f"{GUARDED} AND relforcerowsecurity")) > 10
    assert execute(guarded_uri, f"{GUARDED} AND NOT relforcerowsecurity") == []


@pytest.mark.parametrize("schema_name", ["Odd Name", 'quo"ted'])
async def test_a_schema_may_have_any_name(postgres_uri, schema_name):
    """Names of schemas are quoted wherever they stand."""
    async with await open_store(postgres_uri, schema=schema_name, rls=True) as store:
        await fill(store)
        assert len(await contents(store)) == 1


async def test_several_that_switch_it_on_at_once_do_it_once(postgres_uri):
    """Stores that switch row security on at the same moment all succeed."""
    stores = await asyncio.gather(*(open_store(postgres_uri, rls=True) for _ in range(6)))
    await fill(stores[0])
    for store in stores:
        assert len(await contents(store)) == 1
        await store.close()


def test_roles_made_from_another_database_meanwhile_are_taken(postgres_uri):
    """Roles that another database of the server creates at the same time are used."""
    text = sql.queries("postgres")["make_roles"].replace("kagent_memory_", "racing_")
    try:
        with psycopg.connect(postgres_uri) as first, ThreadPoolExecutor(1) as thread:
            first.execute("CREATE ROLE racing_app NOLOGIN")
            making = thread.submit(execute, postgres_uri, text)
            with pytest.raises(TimeoutError):
                making.result(0.3)
            first.commit()
            making.result(10)
    finally:
        execute(postgres_uri, "DROP ROLE IF EXISTS racing_app, racing_maintenance")


async def test_a_member_of_the_roles_works_with_all_of_it(postgres_uri):
    """A user who is only a member of the roles works with all of it."""
    await (await open_store(postgres_uri, rls=True)).close()
    with a_login(postgres_uri) as member:
        with pytest.raises(
            ConfigurationError, match="GRANT kagent_memory_app, kagent_memory_maintenance TO"
        ):
            await open_store(member)
        execute(postgres_uri, f"GRANT {APP}, {MAINTENANCE} TO {user_of(member)}")
        async with await Memories.open(member, embedding=HashEmbedder(16)) as memories:
            [id] = await memories.add(ADA, ["The bicycle is red."])
            assert [hit.memory.id for hit in await memories.recall(ADA, "bicycle")] == [id]
            assert await memories.drain()
            assert (await memories.prune()).deleted == 0
            assert len(await memories.scopes()) == 1
        with raw(member, None, None) as connection:
            assert rows(connection, "memory", "memory_vector_1") == {0}


async def test_a_user_who_may_not_make_roles_is_told_what_to_do(postgres_uri):
    """A user who may not make roles is told what to do and nothing is half done."""
    with a_login(postgres_uri) as uri:
        [[database]] = execute(
            postgres_uri, "DROP SCHEMA kagent_memory CASCADE", "SELECT current_database()"
        )
        execute(postgres_uri, f"GRANT CREATE ON DATABASE {database} TO {user_of(uri)}")
        for existing in (False, True):
            if existing:
                await (await open_store(uri)).close()
            with pytest.raises(
                ConfigurationError, match=r"superuser run once.*GRANT kagent_memory_app"
            ):
                await open_store(uri, rls=True)
            state = "SELECT to_regnamespace('kagent_memory') IS NULL, count(*) FROM pg_policies"
            assert execute(postgres_uri, state) == [(not existing, 0)]
        await (await open_store(uri)).close()


async def test_roles_that_could_pass_the_policies_by_are_refused(postgres_uri):
    """Roles that log in or bypass row security are refused at open."""
    await (await open_store(postgres_uri, rls=True)).close()
    for attribute in ("LOGIN", "BYPASSRLS", "SUPERUSER"):
        execute(postgres_uri, f"ALTER ROLE {APP} {attribute}")
        try:
            with pytest.raises(ConfigurationError, match=APP):
                await open_store(postgres_uri, rls=True)
        finally:
            execute(postgres_uri, f"ALTER ROLE {APP} NO{attribute}")


def test_migrate_switches_row_security_on(guarded_uri, capsys):
    """Migrate switches it on beforehand and doctor finds nothing lacking."""
    assert main(["migrate", "--rls", "--uri", guarded_uri]) == 0
    assert execute(guarded_uri, f"{GUARDED} AND NOT relforcerowsecurity") == []
    capsys.readouterr()
    assert main(["doctor", "--uri", guarded_uri, "--json"]) == 0
    assert "lacking" not in capsys.readouterr().out


async def test_a_guarded_store_is_embedded_anew(postgres_uri):
    """A guarded store is embedded anew and drops what its owner made before."""
    former, new = HashEmbedder(8, "before"), HashEmbedder(16, "after")
    options: dict[str, Any] = {"embedding": former, "worker": False}
    async with await Memories.open(postgres_uri, **options) as memories:
        await memories.add(ADA, ["Ada keeps bees."])  # the vectors' table is its owner's
    async with await Memories.open(postgres_uri, rls=True, **options) as memories:
        await memories.add(BEN, ["Ben keeps hens."])
        result = await memories.reembed(new, drop_old=True)
        assert (result.memories, result.dropped) == (2, ("before",))
        assert [hit.memory.content for hit in await memories.recall(BEN, "hens")] == [
            "Ben keeps hens."
        ]
    assert execute(postgres_uri, f"{GUARDED} AND NOT relforcerowsecurity") == []
