"""Row level security: the database itself keeps scopes apart, whatever a statement forgets to ask
for.
"""

from __future__ import annotations

from psycopg import errors, sql
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from ...errors import ConfigurationError
from ..sql import queries
from ..sql.session import Row
from .connection import DIALECT, AnyConnection, Target, fetch

ROLES = ("kagent_memory_app", "kagent_memory_maintenance")
OLDEST_VERSION = 15_00_00  # views look with their caller's eyes from here on
ATTEMPTS = 5


async def join_roles(connection: AnyConnection, target: Target) -> None:
    """Let the user act as both roles where it may not yet.

    Raises:
        ConfigurationError: it may not let itself.
    """
    found = await _look(connection, target)
    if not found["member"]:
        await _make_roles(connection, found["login"])


async def is_guarded(connection: AnyConnection, target: Target) -> bool:
    """Return True if every table is guarded, and the roles are as they must be."""
    found = await _look(connection, target)
    return not found["unguarded"] and not found["unfit"]


async def guard(connection: AnyConnection, target: Target) -> None:
    """Make the roles and guard every table, in the transaction that migrates; harmless where that
    was done.

    Raises:
        ConfigurationError: the server is too old, a role is not fit, or the user may not make or
        grant the roles. psycopg.Error: the user owns no tables here, say.
    """
    found = await _look(connection, target)
    if found["version"] < OLDEST_VERSION:
        raise ConfigurationError(
            "rls needs PostgreSQL 15 or newer; leave it out, or update the server."
        )
    if found["unfit"]:
        raise ConfigurationError(
            f"rls needs roles that see only what their policies allow: {found['unfit']} can log "
            "in or bypass row "
            "level security. Run ALTER ROLE … NOLOGIN NOBYPASSRLS NOSUPERUSER."
        )
    if found["superuser"] or not found["member"] or len(found["roles"]) < len(ROLES):
        await _make_roles(connection, found["login"])
    if not (await _look(connection, target))["unguarded"]:
        return
    for name in ("guard_schema", "guard_tables"):
        await connection.execute(queries(DIALECT)[name])


async def _look(connection: AnyConnection, target: Target) -> Row:
    text = queries(DIALECT)["guard"]
    [found] = await fetch(connection, text, {"schema": target.schema})
    return found


# roles are the whole server's: somebody may make them from another database at the same moment
@retry(
    retry=retry_if_exception_type(
        (errors.UniqueViolation, errors.DuplicateObject, errors.InternalError_)
    ),
    stop=stop_after_attempt(ATTEMPTS),
    wait=wait_random(0.05, 0.2),
    reraise=True,
)
async def _make_roles(connection: AnyConnection, login: str) -> None:
    try:
        async with connection.transaction():
            await connection.execute(queries(DIALECT)["make_roles"])
    except errors.InsufficientPrivilege as error:
        name = sql.Identifier(login).as_string(connection)
        app, maintenance = ROLES
        raise ConfigurationError(
            f"rls needs two roles, which the user {login!r} may not make or grant "
            f"({' '.join(str(error).split())}). Let a superuser run once: CREATE ROLE {app} "
            "NOLOGIN; "
            f"CREATE ROLE {maintenance} NOLOGIN; GRANT {app}, {maintenance} TO {name};"
        ) from error
