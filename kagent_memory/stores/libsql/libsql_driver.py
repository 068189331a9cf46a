"""The libsql package as a driver. It keeps Python's global lock during every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libsql

if TYPE_CHECKING:
    from .driver import Driver


def connect(path: str, key: str | None) -> Driver:
    """A connection that waits for nobody's lock and begins no transaction by itself."""
    return libsql.connect(path, timeout=0, isolation_level=None, encryption_key=key)


def is_failure(error: BaseException) -> bool:
    """Return True if an error is the driver's: all of them are ValueError or a panic."""
    return isinstance(error, ValueError) or type(error).__name__ == "PanicException"
