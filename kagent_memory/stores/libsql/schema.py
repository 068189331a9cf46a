"""Migrations of a libSQL database: all that are missing in one transaction, each with its row in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache

from ...errors import ConfigurationError
from ..codec import to_iso
from ..sql import Migration, migrations
from .connection import Connection
from .session import DIALECT
from .statement import split

_HAS_LEDGER = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migration'"
_CREATE_LEDGER = (
    "CREATE TABLE schema_migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL)"
)
_APPLIED = "SELECT number FROM schema_migration"
_RECORD = "INSERT INTO schema_migration (number, name, applied_at) VALUES (:number, :name, :at)"
_statements = cache(split)  # a process may open many new files


def migrate(connection: Connection, known: Sequence[Migration] | None = None) -> None:
    """Brings the database to the newest schema. Who comes second waits for the first one's lock and finds it done.

    Raises:
        ConfigurationError: a newer kagent_memory has written it.
        Busy: another connection is writing.
    """
    steps = migrations(DIALECT) if known is None else known
    if not _missing(connection, steps):
        return
    with connection.transaction(write=True):
        if not has_ledger(connection):
            connection.run(_CREATE_LEDGER, {})
        for step in _missing(connection, steps):
            connection.run_script(_statements(step.script))
            record = {"number": step.number, "name": step.name, "at": to_iso(datetime.now(UTC))}
            connection.run(_RECORD, record)


def has_ledger(connection: Connection) -> bool:
    """Whether the database was migrated once."""
    return bool(connection.rows(_HAS_LEDGER, {}))


def _missing(connection: Connection, steps: Sequence[Migration]) -> Sequence[Migration]:
    if not has_ledger(connection):
        return steps
    applied = {row[0] for row in connection.tuples(_APPLIED, {})}
    if applied - {step.number for step in steps}:
        raise ConfigurationError("A newer kagent_memory wrote this libSQL database; upgrade this installation.")
    return [step for step in steps if step.number not in applied]
