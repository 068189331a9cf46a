"""The schema of a libSQL database: made whole in a new one, migrated in an old one, in one
transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ...errors import ConfigurationError
from ..codec import to_iso
from ..sql import Migration, migrations, missing, schema
from .connection import Connection
from .session import DIALECT

_HAS_LEDGER = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migration'"
_APPLIED = "SELECT number, name FROM schema_migration"
_RECORD = "INSERT INTO schema_migration (number, name, applied_at) VALUES (:number, :name, :at)"


def migrate(connection: Connection, known: Sequence[Migration] | None = None) -> None:
    """Bring the database to the newest schema. Who comes second waits for the first one's lock and
    finds it done.

    Args:
        connection: to the database.
        known: the migrations, in place of the package's own.

    Raises:
        ConfigurationError: a newer kagent_memory has written it, or one from before the first
            release.
        Busy: another connection is writing.
    """
    steps = migrations(DIALECT) if known is None else known
    if has_ledger(connection) and not _missing(connection, steps):
        return
    with connection.transaction(write=True):
        if not has_ledger(connection):
            connection.run_script(schema(DIALECT))
            _record(connection, steps)
            return
        for step in _missing(connection, steps):
            connection.run_script(step.script)
            _record(connection, [step])


def has_ledger(connection: Connection) -> bool:
    """Return whether the database was migrated once."""
    return bool(connection.rows(_HAS_LEDGER, {}))


def _record(connection: Connection, steps: Sequence[Migration]) -> None:
    at = to_iso(datetime.now(UTC))
    for step in steps:
        connection.run(_RECORD, {"number": step.number, "name": step.name, "at": at})


def _missing(connection: Connection, steps: Sequence[Migration]) -> Sequence[Migration]:
    applied = dict(connection.tuples(_APPLIED, {}))
    lacking = missing(steps, applied)
    if applied.keys() - {step.number for step in steps}:
        raise ConfigurationError(
            "A newer kagent_memory wrote this libSQL database; upgrade this installation."
        )
    return lacking
