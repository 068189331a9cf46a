"""Bringing a database to the newest schema, guarded by row level security and spread over the nodes
of a Citus cluster where that is asked for; safely when many processes do so at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from ..sql import Migration, queries, upgrade
from ..sql.session import Row
from .connection import DIALECT, AnyConnection, Traits, fetch, within

MIGRATION_SECONDS = 1800.0
_TEXT = queries(DIALECT)


async def look(connection: AnyConnection, schema: str) -> Row:
    """Return whether a schema is there before it is opened, and why it could not be made."""
    [state] = await fetch(connection, _TEXT["look"], {"schema": schema})
    return state


async def prepare(
    connection: AnyConnection,
    traits: Traits,
    *,
    row_security: bool = False,
    shards: int | None = None,
    dry_run: bool = False,
) -> Mapping[str, str] | None:
    """Migrate the schema where it must be; guard its rows where that is asked for or was once, and
    distribute tables where that is asked for or the others are.

    Args:
        connection: one of its own.
        traits: what is known of it.
        row_security: switches row level security on.
        shards: how many parts tables of scopes have; 0: as many as the server's setting says, or
            8; None: distribute only beside others.
        dry_run: take all of it back.

    Returns:
        The tables that were not distributed yet and are to be, each with where its rows go; None:
        there was nothing to do at all.

    Raises:
        psycopg.Error: the user's rights, a missing pgvector, roles that are not fit or an old
            server do not allow it, or the database went away; or it has no Citus, this node is not
            the coordinator, or the rows are guarded.
        ConfigurationError: a build from before the first release made the database.
    """
    guarded = row_security or traits.row_security
    if shards is None:
        looking = _is_ready(connection, traits, guarded=guarded)
        if await within(connection, traits.target.answer_seconds, looking):
            return None
    work = _prepare(connection, traits, guarded=guarded, shards=shards, dry_run=dry_run)
    left = await within(connection, MIGRATION_SECONDS, work)
    if shards is not None and left and not dry_run:
        await connection.execute(_TEXT["drop_local_rows"])
    return left


async def _is_ready(connection: AnyConnection, traits: Traits, *, guarded: bool) -> bool:
    """Return True if nothing is left to migrate or to guard."""
    schema = traits.target.schema
    if guarded:
        [row] = await fetch(connection, _TEXT["guarded"], {"schema": schema})
        if not row["guarded"]:
            return False
    return traits.halfvec is not None and not await _missing_steps(connection, schema)


async def _missing_steps(connection: AnyConnection, schema: str) -> Sequence[Migration]:
    if not (await look(connection, schema))["migrated"]:
        return upgrade(DIALECT, None)
    ledger = sql.Identifier(schema, "schema_migration")
    rows = await fetch(connection, sql.SQL("SELECT number, name FROM {}").format(ledger))
    return upgrade(DIALECT, {row["number"]: row["name"] for row in rows})


async def _prepare(
    connection: AnyConnection,
    traits: Traits,
    *,
    guarded: bool,
    shards: int | None,
    dry_run: bool,
) -> Mapping[str, str]:
    schema = traits.target.schema
    values = {"schema": schema, "guarded": guarded, "shards": shards, "dry_run": dry_run}
    async with connection.transaction(force_rollback=dry_run):
        await connection.execute(_TEXT["begin_migration"], values)
        await connection.execute(_TEXT["hold_migrations"])
        if guarded:  # else not even a guarded schema may be looked into
            await connection.execute(_TEXT["make_roles"])
        await connection.execute(_TEXT["make_schema"])
        steps = await _missing_steps(connection, schema)
        if steps:
            await connection.execute(_TEXT["unguard_tables"])
        for step in steps:
            await connection.execute(step.script)
            values = {"number": step.number, "name": step.name}
            await connection.execute(_TEXT["note_migration"], values)
        for change in ("distribute", *(("guard_schema", "guard_tables") if guarded else ())):
            await connection.execute(_TEXT[change])
        [left] = await fetch(connection, _TEXT["places"])
        return left["places"] or {}
