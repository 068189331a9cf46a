"""Bringing a database to the newest schema, guarded by row level security and spread over the nodes
of a Citus cluster where that is asked for; safely when many processes do so at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import psycopg
from psycopg import errors, sql

from ...errors import ConfigurationError
from ..sql import Upgrade, queries, upgrade
from ..sql.session import Row
from .connection import DIALECT, AnyConnection, Target, Traits, fetch, set_up, within
from .errors import ours
from .session import PostgresSession

MIGRATION_SECONDS = 1800.0
SHARDS = 32
ROLES = ("kagent_memory_app", "kagent_memory_maintenance")
MIN_GUARDED_VERSION = 15_00_00  # views look with their caller's eyes from here on
DISTRIBUTED = (
    "scope", "memory", "memory_stats", "memory_revision", "ingest_job", "taken_event", "tombstone",
    "scope_index",
    "receipt_chain", "receipt",
)  # fmt: skip
"""Tables with rows of scopes: spread by `scope_id`, as are the vectors of each embedding space."""
REFERENCE = ("embedder", "token", "lease", "caller_width", "schema_migration")
"""Tables that every node has whole."""
Place: TypeAlias = Literal["by scope", "on every node"]
_LOCK = 0x6B61_6765_6E74_6D65  # for all schemas of a database: they make the same extension
_TEXT = queries(DIALECT)


async def look(connection: AnyConnection, schema: str) -> Row:
    """Return what stands in a database before it is opened, and what its user may make."""
    [found] = await fetch(connection, _TEXT["look"], {"schema": schema})
    return found


async def prepare(
    connection: AnyConnection,
    traits: Traits,
    *,
    row_security: bool = False,
    shards: int | None = None,
) -> bool:
    """Migrate the schema where it must be; guard its rows, and distribute its tables, where that is
    asked for or was once.

    Args:
        connection: one of its own.
        traits: what is known of it.
        row_security: switches row level security on.
        shards: distributes the tables, those of scopes in so many parts.

    Returns:
        Whether there was something to do.

    Raises:
        ConfigurationError: the user's rights, a missing pgvector, roles that are not fit or an old
            server do not allow it, or a build from before the first release made the database.
        StoreError: the database went away.
    """
    guarded = row_security or traits.row_security
    seconds = traits.target.answer_seconds
    try:
        is_ready = await within(connection, seconds, _is_ready(connection, traits, guarded=guarded))
        if is_ready and shards is None:
            return False
        work = _prepare(connection, traits, guarded=guarded, shards=shards)
        await within(connection, MIGRATION_SECONDS, work)
    except psycopg.Error as error:
        raise ours(error) from error
    return True


async def _is_ready(connection: AnyConnection, traits: Traits, *, guarded: bool) -> bool:
    """Return True if nothing is left to migrate or to guard."""
    if guarded:
        found = await _guard_of(connection, traits.target)
        if not found["member"] or found["unguarded"] or found["unfit"]:
            return False
    return traits.halfvec is not None and not (await _upgrade(connection, traits.target)).steps


async def _prepare(
    connection: AnyConnection, traits: Traits, *, guarded: bool, shards: int | None
) -> None:
    async with connection.transaction():
        await connection.execute("SELECT set_config('statement_timeout', '0', true)")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if guarded:  # else not even a guarded schema may be looked into
            await _join_roles(connection, traits.target)
        await _migrate(connection, traits)
        is_spread = await PostgresSession(connection, traits).is_distributed()
        if guarded and (is_spread or shards):
            raise ConfigurationError(
                "Row level security and Citus exclude each other: Citus hands no transaction's "
                "scope on to its nodes. Leave out rls, or --distribute."
            )
        if guarded and (await _guard_of(connection, traits.target))["unguarded"]:
            for name in ("guard_schema", "guard_tables"):
                await connection.execute(_TEXT[name])
        if is_spread or shards:
            await _distribute(connection, shards or SHARDS)


async def _upgrade(connection: AnyConnection, target: Target) -> Upgrade:
    """Return how to bring the schema to the newest one.

    Raises:
        ConfigurationError: a build from before the first release made it.
    """
    if not (await look(connection, target.schema))["migrated"]:
        return upgrade(DIALECT, None)
    ledger = sql.Identifier(target.schema, "schema_migration")
    rows = await fetch(connection, sql.SQL("SELECT number, name FROM {}").format(ledger))
    return upgrade(DIALECT, {row["number"]: row["name"] for row in rows})


async def _migrate(connection: AnyConnection, traits: Traits) -> None:
    """Migrate in a transaction. All is set for it alone: behind a pooler the session is somebody
    else's a moment later.
    """
    target = traits.target
    await _make_extension(connection)
    path = (await set_up(connection, target, pooled=True)).path
    if not (await look(connection, target.schema))["made"]:
        await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(target.schema)))
    await connection.execute("SELECT set_config('search_path', %s, true)", (path,))
    needed = await _upgrade(connection, target)
    if traits.row_security and needed.steps:
        await connection.execute(_TEXT["unguard_tables"])
    for script in needed.scripts:
        await connection.execute(script)
    for step in needed.steps:
        values = {"number": step.number, "name": step.name}
        await connection.execute(_TEXT["note_migration"], values)


async def _make_extension(connection: AnyConnection) -> None:
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (
        errors.FeatureNotSupported,
        errors.UndefinedFile,
        errors.InsufficientPrivilege,
    ) as error:
        raise ConfigurationError(
            "The pgvector extension is missing: `CREATE EXTENSION vector` needs pgvector "
            "installed on the server and a user who may create extensions; run it once as such a "
            f"user. ({' '.join(str(error).split())})"
        ) from error
    if not await fetch(connection, "SELECT FROM pg_type WHERE typname = 'halfvec'"):
        raise ConfigurationError(
            "The installed pgvector has no halfvec; update the extension to 0.7 or newer."
        )


# -- row level security -------------------------------------------------------------------------


async def _guard_of(connection: AnyConnection, target: Target) -> Row:
    [found] = await fetch(connection, _TEXT["guard"], {"schema": target.schema})
    return found


async def _join_roles(connection: AnyConnection, target: Target) -> None:
    """Make the roles, and let the user act as both, where that is left to do.

    Raises:
        ConfigurationError: the server is too old, a role is not fit, or the user may not make or
            grant the roles.
    """
    found = await _guard_of(connection, target)
    if found["version"] < MIN_GUARDED_VERSION:
        raise ConfigurationError(
            "rls needs PostgreSQL 15 or newer; leave it out, or update the server."
        )
    if found["unfit"]:
        raise ConfigurationError(
            f"rls needs roles that see only what their policies allow: {found['unfit']} can log "
            "in or bypass row level security. Run ALTER ROLE … NOLOGIN NOBYPASSRLS NOSUPERUSER."
        )
    if found["member"] and not found["superuser"]:
        return
    try:
        await connection.execute(_TEXT["make_roles"])
    except errors.InsufficientPrivilege as error:
        name = sql.Identifier(found["login"]).as_string(connection)
        app, maintenance = ROLES
        raise ConfigurationError(
            f"rls needs two roles, which the user {found['login']!r} may not make or grant "
            f"({' '.join(str(error).split())}). Let a superuser run once: CREATE ROLE {app} "
            f"NOLOGIN; CREATE ROLE {maintenance} NOLOGIN; GRANT {app}, {maintenance} TO {name};"
        ) from error


# -- Citus --------------------------------------------------------------------------------------


async def left_to_distribute(connection: AnyConnection) -> Mapping[str, Place]:
    """Return the tables that are not spread yet, in the order in which they must be, and how each
    is to be.

    Raises:
        ConfigurationError: the database has no Citus.
    """
    [found] = await fetch(connection, _TEXT["has_citus"])
    if not found["citus"]:
        raise ConfigurationError(
            "The tables are distributed by Citus, which this database does not have: install it "
            "on all nodes, run CREATE EXTENSION citus and add the worker nodes "
            "(docs/how-to/databases.md), or leave --distribute out."
        )
    there = {row["name"] for row in await fetch(connection, _TEXT["distributed"])}
    spaces = await fetch(connection, _TEXT["embedding_spaces"]) if found["migrated"] else ()
    vectors = [f"memory_vector_{row['number']}" for row in spaces]
    places: dict[str, Place] = dict.fromkeys((*DISTRIBUTED, *vectors), "by scope")
    places |= dict.fromkeys(REFERENCE, "on every node")
    return {name: place for name, place in places.items() if name not in there}


async def _distribute(connection: AnyConnection, shards: int) -> None:
    """Spread what is not spread yet, in the transaction that migrates.

    Raises:
        ConfigurationError: the database has no Citus, or this node is not the coordinator.
    """
    try:
        for name, place in (await left_to_distribute(connection)).items():
            if name == "scope":
                await connection.execute(_TEXT["distribute_scope"], {"shards": shards})
            else:
                made = "distribute_table" if place == "by scope" else "refer_to_table"
                await connection.execute(_TEXT[made], {"name": name})
    except psycopg.Error as error:
        if "not allowed on this node" in str(error):
            raise ConfigurationError(
                "Tables are distributed from the coordinator, and this is another node of the "
                "cluster: correct --uri."
            ) from error
        raise


async def drop_local_rows(connection: AnyConnection) -> None:
    """Empty what the coordinator itself still keeps of tables that are spread."""
    for row in await fetch(connection, _TEXT["distributed"]):
        await connection.execute(_TEXT["truncate_local"], {"name": row["name"]})
