"""Which file a URI means, and whether it can serve as a database."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...errors import ConfigurationError

MEMORY = ":memory:"


def to_path(uri: str) -> str:
    """The path in `libsql:///relative.db` or `libsql:////absolute.db`, or ":memory:".

    Raises:
        ConfigurationError: the URI names a host, nothing, or has a query.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc:
        raise ConfigurationError(
            "This URI names a host; a libSQL store is a file: libsql:///relative.db or libsql:////absolute.db."
        )
    if parts.query or parts.fragment:
        raise ConfigurationError(
            f"{uri!r} has a query that libSQL does not know; write ? as %3F and # as %23 in names."
        )
    if not path or "\0" in path:
        raise ConfigurationError(f"{uri!r} names no file; write, for example, libsql:///kagent_memory.db.")
    return path


def check_file(path: str) -> None:
    """Looks before the driver does, whose answer would be a bare number.

    Raises:
        ConfigurationError: there is no such directory, the path is one, or rights are missing.
    """
    if path == MEMORY:
        return
    file, directory = Path(path), Path(path).parent
    try:
        is_directory = file.is_dir()
    except PermissionError as error:
        raise ConfigurationError(
            f"{directory} cannot be read; give this user permission to enter it and the directories above it."
        ) from error
    if is_directory:
        raise ConfigurationError(f"{path} is a directory; name a file in it.")
    if not directory.is_dir():
        raise ConfigurationError(f"The directory {directory} does not exist; create it first.")
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        raise ConfigurationError(f"{path} cannot be read and written; make it readable and writable for this user.")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{directory} cannot be written; libSQL keeps its log there: make it writable.")
