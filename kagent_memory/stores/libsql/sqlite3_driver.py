"""The standard library's sqlite3 as a driver. It lets go of Python's global lock while the database
works.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ...errors import ConfigurationError

if TYPE_CHECKING:
    from .driver import Driver

OLDEST = (3, 35, 0)
STATEMENTS = 512  # all of ours are kept prepared


def connect(path: str, key: str | None) -> Driver:
    """A connection that waits for nobody's lock and begins no transaction by itself; `load` lets no
    key come here.

    Raises:
        ConfigurationError: this Python's SQLite is too old, or built without JSON.
    """
    if sqlite3.sqlite_version_info < OLDEST:
        raise ConfigurationError(
            f"This Python has SQLite {sqlite3.sqlite_version}, and a memory file needs 3.35 or "
            "newer: take a newer "
            "Python or system."
        )
    connection = sqlite3.connect(
        path, timeout=0, isolation_level=None, cached_statements=STATEMENTS
    )
    if sqlite3.sqlite_version_info < (3, 41):
        connection.create_function("unhex", 1, bytes.fromhex, deterministic=True)
    return connection


def is_failure(error: BaseException) -> bool:
    """Return True if an error is the driver's."""
    return isinstance(error, sqlite3.Error)
