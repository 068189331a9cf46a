"""Row level security: what raw SQL sees and may do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, LiteralString, cast

import numpy as np
import psycopg
import pytest

from kagent_memory import Memories
from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError
from kagent_memory.records import Change, Scope, new_id
from kagent_memory.stores import MemoryStore, open_store, sql
from kagent_memory.stores.base import Batch, Token
from kagent_memory.stores.postgres.connection import fetch
from kagent_memory.stores.sql import Migration, migrations
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import NOW, a_job, a_memory, adding

ADA, BEN = Scope("acme", "ada", "notes"), Scope("acme-corp", "ada", "notes")
APP, MAINTENANCE = "kagent_memory_app", "kagent_memory_maintenance"
PLACES = (
    "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = "
    "'kagent_memory'::regnamespace AND relkind = 'r'"
)
SCOPED = (
    f"{PLACES} AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND "
    "attname = 'scope_id') ORDER BY 1"
)
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
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN {attributes}")
        try:
            yield uri.replace("postgres:@", f"{name}:@")
        finally:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE usename = %s AND datname = current_database()",
                (name,),
            )
            # What was granted in its name is taken back by the superuser, who granted nothing of
            # it.
            connection.execute("DROP SCHEMA IF EXISTS kagent_memory CASCADE")
            connection.execute(f"DROP OWNED BY {name} CASCADE")
            connection.execute(f"DROP ROLE {name}")


@contextmanager
def an_owner(uri: str) -> Iterator[str]:
    """The URI of a user who may make roles, in a database with nothing but pgvector."""
    with a_login(uri, "CREATEROLE") as mine:
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute("DROP SCHEMA kagent_memory CASCADE")
            # the roles belong to the server: another test has made them most likely
            for role in (APP, MAINTENANCE):
                if connection.execute(
                    "SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)
                ).fetchone():
                    connection.execute(f"DROP OWNED BY {role}")
                    try:
                        connection.execute(f"DROP ROLE {role}")
                    except (
                        psycopg.errors.DependentObjectsStillExist
                    ):  # of a database of another process's tests
                        connection.execute(f"GRANT {role} TO {user_of(mine)} WITH ADMIN OPTION")
            connection.execute(
                f"GRANT CREATE ON DATABASE {connection.info.dbname} TO {user_of(mine)}"
            )
        yield mine


@pytest.fixture(params=["superuser", "owner"])
def guarded_uri(request: pytest.FixtureRequest, postgres_uri: str) -> Iterator[str]:
    """A database's URI, for a superuser who owns the schema or an owner who is none."""
    if request.param == "superuser":
        yield postgres_uri
    else:
        with an_owner(postgres_uri) as uri:
            yield uri


async def fill(store: MemoryStore) -> None:
    """Rows of two scopes in every table that holds such."""
    space_number = (await store.memories.spaces.add("g", 4, None)).number
    for scope in (ADA, BEN):
        first, second = (
            a_memory(f"{scope.tenant} says {number}", session_id="s", event_ids=(f"{number}",))
            for number in range(2)
        )
        batch = Batch(
            changes=adding(first, second),
            vectors={one.id: np.asarray([1, 2, 3, 4], np.float32) for one in (first, second)},
            space_number=space_number,
            taken=[("s", "0"), ("s", "1")],
            jobs=[a_job(scope, "embed")],
        )
        await store.apply(scope, batch, now=NOW)
        stored = (await store.memories.get(scope, [first.id], now=NOW))[first.id]
        edited = replace(stored, content=f"{scope.tenant} says more", revision=stored.revision + 1)
        again = Batch(
            changes=[Change(kind="edit", memory=edited, who="me")],
            vectors={first.id: np.asarray([4, 3, 2, 1], np.float32)},
            space_number=space_number,
        )
        await store.apply(scope, again, now=NOW)
        await store.forget(scope, ids=[second.id], who="me", now=NOW)
        await store.memories.deliver(scope, retrieved=[first.id], delivered=[first.id], now=NOW)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kagent_memory.stores.sql.index_cache.PACKED_AT_LEAST", 1)
            await store.memories.view(scope, now=NOW).text(["says"], limit=1)
            await asyncio.wait(store.memories.indexes._packing)
        await store.memories.spaces.note_width(scope.tenant, 7, most=3)
        token = Token(id=new_id(), digest=scope.tenant, tenant=scope.tenant, created_at=NOW)
        await store.tokens.add(token)  # type: ignore[attr-defined]


def rows(connection: psycopg.Connection, table: str) -> int:
    [(count,)] = connection.execute(f"SELECT count(*) FROM {table}")  # type: ignore[arg-type]
    return count


@contextmanager
def raw(uri: str, role: str | None, setting: str | None) -> Iterator[psycopg.Connection]:
    """A session of anybody with SQL, as the role, with the setting; a superuser is one of none only
    as a role.
    """
    with psycopg.connect(uri, autocommit=True) as connection:
        if role:
            connection.execute(f"SET ROLE {role}")
        if setting is not None:
            connection.execute("SELECT set_config('kagent.scope', %s, false)", (setting,))
        yield connection


async def test_raw_sql_without_its_scopes_setting_sees_no_row(guarded_uri):
    """Raw sql with a wrong or missing setting sees no row and writes none."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
        roles = (APP,) if guarded_uri.startswith("postgresql://postgres") else (None, APP)
        with psycopg.connect(guarded_uri, autocommit=True) as connection:
            tables = [table for (table,) in connection.execute(SCOPED)]
            assert len(tables) == 11
            connection.execute(f"SET ROLE {MAINTENANCE}")
            held = {
                table: rows(connection, table) for table in (*tables, "kagent_memory.caller_width")
            }
            assert all(held.values()), held
        for role, setting in itertools.product(roles, WRONG):
            with raw(guarded_uri, role, setting) as connection:
                for table in (
                    *tables,
                    "kagent_memory.remembered",
                    "kagent_memory.token",
                    "kagent_memory.caller_width",
                ):
                    assert rows(connection, table) == 0, (role, setting, table)
                for table in tables:
                    assert connection.execute(f"DELETE FROM {table}").rowcount == 0
                    assert (
                        connection.execute(f"UPDATE {table} SET scope_id = scope_id").rowcount == 0
                    )
                for whose in (ADA, BEN):
                    with pytest.raises(
                        psycopg.errors.InsufficientPrivilege, match="row-level security"
                    ):
                        connection.execute(
                            "INSERT INTO kagent_memory.tombstone (scope_id, kind, key, at) "
                            "VALUES (%s, 'event', 'x', %s)",
                            (whose.id.hex(), NOW),
                        )
        with psycopg.connect(guarded_uri, autocommit=True) as connection:
            connection.execute(f"SET ROLE {MAINTENANCE}")
            assert {table: rows(connection, table) for table in held} == held


async def test_raw_sql_with_a_scopes_setting_sees_its_rows_alone(guarded_uri):
    """Raw sql with a scopes setting sees and writes that scopes rows alone."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
        with psycopg.connect(guarded_uri) as connection:
            tables = [table for (table,) in connection.execute(SCOPED)]
        for scope, other, form in ((ADA, BEN, ADA.id.hex()), (BEN, ADA, BEN.id.hex().upper())):
            with raw(guarded_uri, APP, form) as connection:
                for table in (*tables, "kagent_memory.remembered"):
                    found = {
                        row
                        for (row,) in connection.execute(
                            f"SELECT DISTINCT scope_id::text FROM {table}"
                        )
                    }
                    # receipts are kept by tenant
                    own = set() if "receipt" in table else {scope.id.hex()}
                    assert {one.replace("-", "") for one in found} == own, table
                [(content,)] = connection.execute("SELECT content FROM kagent_memory.remembered")
                assert content == f"{scope.tenant} says more"
                with pytest.raises(
                    psycopg.errors.InsufficientPrivilege, match="row-level security"
                ):
                    connection.execute(
                        "UPDATE kagent_memory.memory SET scope_id = %s", (other.id.hex(),)
                    )
                moved = "UPDATE kagent_memory.memory SET content = 'x' WHERE scope_id = %s"
                assert connection.execute(moved, (other.id.hex(),)).rowcount == 0
                # as a foreign key or a unique index might, a conflict tells nothing of others' rows
                added = (
                    "INSERT INTO kagent_memory.scope (scope_id, tenant, user_id, app, "
                    "version, salt) "
                )
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(
                        added
                        + (
                            "VALUES (%s, '', '', '', 1, '') ON CONFLICT (scope_id) DO UPDATE SET "
                            "version = 99"
                        ),
                        (other.id.hex(),),
                    )


async def test_a_connection_of_the_pool_carries_nothing_over(direct_or_pooled_uri):
    """A transaction's role and scope end with it, however it ends."""
    uri = direct_or_pooled_uri
    async with await open_store(uri, rls=True, pool_size=2) as store:
        await fill(store)

        async def failing(session):
            await session.rows("scope_memories", {"scope_id": ADA.id})
            raise ValueError(ADA)

        database: Any = store.memories.database  # type: ignore[attr-defined]
        for _ in range(20):
            calls = [store.memories.list(scope, now=NOW) for scope in (ADA, BEN)]
            calls += [
                store.memories.deliver(scope, retrieved=["x"], delivered=[], now=NOW)
                for scope in (ADA, BEN)
            ]
            calls += [store.memories.spaces.all(), database.within(ADA).write(failing)]
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(one).__name__ for one in ended if isinstance(one, BaseException)] == [
                "ValueError"
            ]
        for _ in range(20):
            cut = asyncio.ensure_future(store.memories.list(ADA, now=NOW))
            await asyncio.sleep(0.0005 * _)
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

        for found in await asyncio.gather(*(database.pool.use(state) for _ in range(2))):
            assert found == [{"free": True, "scope": ""}]


async def test_the_roles_may_not_log_in_or_own_anything(guarded_uri):
    """The roles may not log in, pass the policies by, or own anything."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
        with psycopg.connect(guarded_uri) as connection:
            found = connection.execute(
                "SELECT rolname, rolcanlogin, rolbypassrls, rolsuper, rolcreaterole, "
                "rolcreatedb FROM pg_roles "
                "WHERE rolname IN (%s, %s)",
                (APP, MAINTENANCE),
            ).fetchall()
            assert sorted(found) == [(APP, *[False] * 5), (MAINTENANCE, *[False] * 5)]
            owned = connection.execute(
                "SELECT count(*) FROM pg_class WHERE relowner = %s::regrole", (APP,)
            ).fetchone()
            assert owned == (0,)
            [(granted,)] = connection.execute(
                "SELECT count(DISTINCT roleid) FROM pg_auth_members WHERE member = "
                "current_user::regrole "
                "AND roleid IN (%s::regrole, %s::regrole)",
                (APP, MAINTENANCE),
            )
            assert granted == 2
            [(reached,)] = connection.execute(
                "SELECT pg_has_role(%s, %s, 'MEMBER')", (APP, MAINTENANCE)
            )
            assert not reached


async def test_a_later_embedding_space_is_guarded(guarded_uri):
    """An embedding space that is made later is guarded as it is made."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
        later = (await store.memories.spaces.add("later", 5000, None)).number
        [memory] = (await store.memories.list(ADA, now=NOW)).memories
        vector = np.ones(5000, np.float32)
        await store.apply(ADA, Batch(vectors={memory.id: vector}, space_number=later), now=NOW)
        assert await store.memories.view(ADA, now=NOW).nearest(later, [vector], limit=9) == [
            [(memory.id, 1.0)]
        ]
        assert await store.memories.view(BEN, now=NOW).nearest(later, [vector], limit=9) == [[]]
        for setting, count in (("", 0), (BEN.id.hex(), 0), (ADA.id.hex(), 1)):
            with raw(guarded_uri, APP, setting) as connection:
                assert rows(connection, f"kagent_memory.memory_vector_{later}") == count


async def test_switching_row_security_on_keeps_what_is_there(guarded_uri):
    """Switching it on keeps what is there and every store opened afterwards finds out."""
    async with await open_store(guarded_uri) as store:
        await fill(store)
        before = await store.memories.list(ADA, now=NOW)
    async with await open_store(guarded_uri, rls=True) as store:
        assert await store.memories.list(ADA, now=NOW) == before
    async with await open_store(guarded_uri) as store:  # says nothing of it
        assert await store.memories.list(ADA, now=NOW) == before
        assert len(await store.scopes()) == 2
        await store.memories.spaces.add("more", 9, None)
    with raw(guarded_uri, APP, "") as connection:
        assert rows(connection, "kagent_memory.memory") == 0
        assert rows(connection, "kagent_memory.memory_vector_2") == 0


async def test_unguarded_tables_are_guarded_at_open(guarded_uri):
    """What somebody left unguarded is guarded when the store is opened."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
    with psycopg.connect(guarded_uri, autocommit=True) as connection:
        connection.execute("ALTER TABLE kagent_memory.tombstone NO FORCE ROW LEVEL SECURITY")
        connection.execute("ALTER VIEW kagent_memory.remembered RESET (security_invoker)")
        connection.execute("CREATE TABLE kagent_memory.later (scope_id uuid)")
    await (await open_store(guarded_uri)).close()
    with psycopg.connect(guarded_uri) as connection:
        open_ones = [
            table
            for (table,) in connection.execute(
                f"{SCOPED.replace('ORDER', 'AND NOT relforcerowsecurity ORDER')}"
            )
        ]
        assert open_ones == []
        [(options,)] = connection.execute(
            "SELECT reloptions FROM pg_class WHERE relname = 'remembered'"
        )
        assert options == ["security_invoker=true"]


async def test_a_later_migration_leaves_rows_guarded(guarded_uri, monkeypatch):
    """A later migration changes the rows of every scope and leaves them guarded."""
    async with await open_store(guarded_uri, rls=True) as store:
        await fill(store)
    later = Migration(
        9999, "later", "UPDATE memory SET attribute = 'upgraded'; DELETE FROM memory_vector_1"
    )
    known = [*migrations("postgres"), later]
    monkeypatch.setattr(sql, "migrations", lambda _: known)
    async with await open_store(guarded_uri) as store:
        for scope in (ADA, BEN):
            assert {
                one.attribute for one in (await store.memories.list(scope, now=NOW)).memories
            } == {"upgraded"}
            assert await store.memories.view(scope, now=NOW).nearest(
                1, [np.ones(4, np.float32)], limit=9
            ) == [[]]
    with raw(guarded_uri, APP, "") as connection:
        placed = {
            table
            for (table,) in connection.execute(
                SCOPED.replace("= 'scope_id'", "IN ('scope_id', 'tenant')")
            )
        }
        forced = {table for (table,) in connection.execute(f"{PLACES} AND relforcerowsecurity")}
        assert forced == placed
        assert len(placed) > 10
        assert rows(connection, "kagent_memory.memory") == 0


@pytest.mark.parametrize("schema_name", ["Odd Name", 'quo"ted'])
async def test_a_schema_may_have_any_name(postgres_uri, schema_name):
    """Names of schemas are quoted wherever they stand."""
    async with await open_store(postgres_uri, schema=schema_name, rls=True) as store:
        await fill(store)
        assert len((await store.memories.list(ADA, now=NOW)).memories) == 1


async def test_several_that_switch_it_on_at_once_do_it_once(postgres_uri):
    """Stores that switch row security on at the same moment all succeed."""
    stores = await asyncio.gather(*(open_store(postgres_uri, rls=True) for _ in range(6)))
    await fill(stores[0])
    for store in stores:
        assert len((await store.memories.list(ADA, now=NOW)).memories) == 1
        await store.close()


def test_roles_made_from_another_database_meanwhile_are_taken(postgres_uri):
    """Who makes the roles while somebody else does, from any database of the server, succeeds."""
    text = sql.queries("postgres")["make_roles"].replace("kagent_memory_", "racing_")
    try:
        with (
            psycopg.connect(postgres_uri) as first,
            psycopg.connect(postgres_uri, autocommit=True) as second,
            ThreadPoolExecutor(1) as thread,
        ):
            first.execute("CREATE ROLE racing_app NOLOGIN")
            making = thread.submit(second.execute, cast("LiteralString", text))
            with pytest.raises(TimeoutError):
                making.result(0.3)
            first.commit()
            making.result(10)
    finally:
        with psycopg.connect(postgres_uri, autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS racing_app, racing_maintenance")


async def test_a_member_of_the_roles_works_with_all_of_it(postgres_uri):
    """A user who is only a member of the roles works with all of it."""
    await (await open_store(postgres_uri, rls=True)).close()
    with a_login(postgres_uri) as member:
        with pytest.raises(
            ConfigurationError, match="GRANT kagent_memory_app, kagent_memory_maintenance TO"
        ):
            await open_store(member)
        with psycopg.connect(postgres_uri, autocommit=True) as connection:
            connection.execute(f"GRANT {APP}, {MAINTENANCE} TO {user_of(member)}")
        async with await Memories.open(member, embedding=HashEmbedder(dimensions=16)) as memories:
            [id] = await memories.add(ADA, ["The bicycle is red."])
            assert [hit.memory.id for hit in await memories.recall(ADA, "bicycle")] == [id]
            assert await memories.drain()
            assert (await memories.prune()).deleted == 0
            assert len(await memories.scopes()) == 1
        with raw(member, None, None) as connection:
            assert rows(connection, "kagent_memory.memory") == 0
            assert rows(connection, "kagent_memory.memory_vector_1") == 0


async def test_a_user_who_may_not_make_roles_is_told_what_to_do(postgres_uri):
    """A user who may not make roles is told what to do and nothing is half done."""
    with a_login(postgres_uri) as uri:
        with psycopg.connect(postgres_uri, autocommit=True) as connection:
            connection.execute("DROP SCHEMA kagent_memory CASCADE")
            connection.execute(
                f"GRANT CREATE ON DATABASE {connection.info.dbname} TO {user_of(uri)}"
            )
            for existing in (False, True):
                if existing:
                    async with await open_store(uri) as store:
                        await fill(store)
                with pytest.raises(
                    ConfigurationError, match=r"superuser run once.*GRANT kagent_memory_app"
                ):
                    await open_store(uri, rls=True)
                [(there,)] = connection.execute(
                    "SELECT to_regnamespace('kagent_memory') IS NOT NULL"
                )
                assert there is existing
                [(policies,)] = connection.execute("SELECT count(*) FROM pg_policies")
                assert policies == 0
        async with await open_store(uri) as store:
            assert len((await store.memories.list(ADA, now=NOW)).memories) == 1


async def test_roles_that_could_pass_the_policies_by_are_refused(postgres_uri):
    """Roles that log in or bypass row security are refused at open."""
    await (await open_store(postgres_uri, rls=True)).close()
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        for wrong, right in (
            ("LOGIN", "NOLOGIN"),
            ("BYPASSRLS", "NOBYPASSRLS"),
            ("SUPERUSER", "NOSUPERUSER"),
        ):
            connection.execute(f"ALTER ROLE {APP} {wrong}")
            try:
                with pytest.raises(ConfigurationError, match=APP):
                    await open_store(postgres_uri, rls=True)
            finally:
                connection.execute(f"ALTER ROLE {APP} {right}")
    await (await open_store(postgres_uri)).close()


def test_migrate_switches_row_security_on(guarded_uri, capsys):
    """Migrate switches it on beforehand and doctor finds nothing lacking."""
    assert main(["migrate", "--rls", "--uri", guarded_uri]) == 0
    with raw(guarded_uri, APP, "") as connection:
        forced = (
            f"SELECT count(*) FROM ({SCOPED}) AS t JOIN pg_class AS c ON c.oid = t.oid::regclass"
        )
        assert connection.execute(f"{forced} WHERE NOT c.relforcerowsecurity").fetchone() == (0,)  # type: ignore[arg-type]
    capsys.readouterr()
    assert main(["doctor", "--uri", guarded_uri, "--json"]) == 0
    assert "lacking" not in capsys.readouterr().out


async def test_a_guarded_store_is_embedded_anew(postgres_uri):
    """A guarded store is embedded anew and drops what its owner made before."""
    former, new = HashEmbedder(8, "before"), HashEmbedder(16, "after")
    async with await Memories.open(postgres_uri, embedding=former, worker=False) as memories:
        await memories.add(ADA, ["Ada keeps bees."])  # the vectors' table is its owner's
    with psycopg.connect(postgres_uri) as connection:
        async with await Memories.open(
            postgres_uri, embedding=former, rls=True, worker=False
        ) as memories:
            await memories.add(BEN, ["Ben keeps hens."])
            done = await memories.reembed(new, drop_old=True)
            assert (done.memories, done.dropped) == (2, ("before",))
            [space] = await memories.store.memories.spaces.all()
            assert [hit.memory.content for hit in await memories.recall(BEN, "hens")] == [
                "Ben keeps hens."
            ]
        guarded = connection.execute(
            "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE relname = %s",
            (f"memory_vector_{space.number}",),
        ).fetchone()
        assert guarded == (True,)
