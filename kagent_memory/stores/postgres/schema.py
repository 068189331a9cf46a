"""Migrate a database to the newest schema, switch row level security on, and distribute the tables
over a Citus cluster. Many processes may do so at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from ..sql import Migration, queries, upgrade
from ..sql.session import Row
from .connection import DIALECT, AnyConnection, Traits, fetch, within

MIGRATION_SECONDS = 1800.0
STATEMENTS = queries(DIALECT)


async def look(connection: AnyConnection, schema: str) -> Row:
    """Look up a schema: `migrated` is True if it exists with its tables; if it cannot be created,
    `trouble` says why.
    """
    [state] = await fetch(connection, STATEMENTS["look"], {"schema": schema})
    return state


async def prepare(
    connection: AnyConnection,
    traits: Traits,
    *,
    row_security: bool = False,
    shards: int | None = None,
    dry_run: bool = False,
) -> Mapping[str, str] | None:
    """Migrate the schema if needed. Guard its rows if asked to or if they were guarded before, and
    distribute its tables if asked to or if others are distributed already.

    Args:
        connection: a connection that nothing else uses.
        traits: its traits.
        row_security: True to switch row level security on.
        shards: the number of shards of each table with rows of scopes; 0: the server's setting, or
            two a node, but at least 4; None: distribute new tables only beside others.
        dry_run: True to roll everything back.

    Returns:
        Table → placement of its rows, for newly distributed tables; None if there was nothing to
        do.

    Raises:
        psycopg.Error: the user lacks a privilege, pgvector or Citus is missing, the server is too
            old, a role does not fit, this node is not the coordinator, the rows are guarded, or the
            database went away.
        ConfigurationError: a build from before the first release created the database.
    """
    guard = row_security or traits.row_security
    if shards is None:
        check = _is_ready(connection, traits, guard=guard)
        if await within(connection, traits.target.answer_seconds, check):
            return None
    work = _prepare(connection, traits, guard=guard, shards=shards, dry_run=dry_run)
    places = await within(connection, MIGRATION_SECONDS, work)
    if shards is not None and places and not dry_run:
        await connection.execute(STATEMENTS["drop_local_rows"])
    return places


async def _is_ready(connection: AnyConnection, traits: Traits, *, guard: bool) -> bool:
    """Return True if no migration is missing, and with `guard` row level security is on."""
    schema = traits.target.schema
    if guard:
        [row] = await fetch(connection, STATEMENTS["guarded"], {"schema": schema})
        if not row["guarded"]:
            return False
    return traits.halfvec is not None and not await _missing_steps(connection, schema)


async def _missing_steps(connection: AnyConnection, schema: str) -> Sequence[Migration]:
    if not (await look(connection, schema))["migrated"]:
        return upgrade(DIALECT, None)
    ledger = sql.Identifier(schema, "schema_migration")
    query = sql.SQL("SELECT number, name FROM {}").format(ledger)
    return upgrade(DIALECT, await fetch(connection, query))


async def _prepare(
    connection: AnyConnection,
    traits: Traits,
    *,
    guard: bool,
    shards: int | None,
    dry_run: bool,
) -> Mapping[str, str]:
    schema = traits.target.schema
    values = {"schema": schema, "guarded": guard, "shards": shards, "dry_run": dry_run}
    async with connection.transaction(force_rollback=dry_run):
        await connection.execute(STATEMENTS["begin_migration"], values)
        await connection.execute(STATEMENTS["hold_migrations"])
        if guard:  # without the role, a guarded schema cannot be read
            await connection.execute(STATEMENTS["make_roles"])
        await connection.execute(STATEMENTS["make_schema"])
        steps = await _missing_steps(connection, schema)
        if steps:
            await connection.execute(STATEMENTS["unguard_tables"])
        for step in steps:
            for command in step.commands:
                await connection.execute(command)
            values = {"number": step.number, "name": step.name}
            await connection.execute(STATEMENTS["note_migration"], values)
        for change in ("distribute", *(("guard_schema", "guard_tables") if guard else ())):
            await connection.execute(STATEMENTS[change])
        [row] = await fetch(connection, STATEMENTS["places"])
        return row["places"] or {}
