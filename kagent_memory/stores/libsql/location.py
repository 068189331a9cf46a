"""Which file or server a URI means, and whether a file can serve as a database."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import ConfigurationError

MEMORY = ":memory:"
_FILES = (".db", ".sqlite", ".sqlite3")  # no host's name ends like this
_HTTP = {"libsql": "https", "libsql+https": "https", "libsql+http": "http"}


@dataclass(frozen=True, slots=True)
class Server:
    """A libSQL server: Turso, or sqld.

    Attributes:
        url: what comes before `/v2/pipeline`.
        token: what it lets in by; "" where it lets everybody in.
    """

    url: str
    token: str = field(repr=False)

    @classmethod
    def parse(cls, uri: str) -> Self:
        """The server that a URI means.

        Raises:
            ConfigurationError: it means none, or has what no server takes.
        """
        parts = urlsplit(uri)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host or parts.scheme not in _HTTP or set("@{}") & set(parts.netloc):
            # in words of our own: the URI may hold the token
            raise ConfigurationError(
                "A libSQL server is libsql://host?authToken=…, or libsql+http://host:port "
                "without TLS; it must "
                "not contain a user or a password."
            )
        if not port and host.endswith(_FILES):
            raise ConfigurationError(
                f"libsql://{host} names a server; a file has one more slash: libsql:///{host}, "
                f"or libsql:////var/{host}."
            )
        given = parse_qsl(parts.query, keep_blank_values=True)
        if parts.fragment or any(name != "authToken" for name, _ in given) or len(given) > 1:
            raise ConfigurationError(
                "The URI of a libSQL server takes one query parameter, authToken."
            )
        token = given[0][1] if given else ""
        if given and not (token and token.isascii() and token.isprintable() and " " not in token):
            raise ConfigurationError(
                "authToken is empty or contains characters that no token has; use the one that "
                "the server issued."
            )
        named = f"[{host}]" if ":" in host else host
        at = f":{port}" if port else ""
        return cls(f"{_HTTP[parts.scheme]}://{named}{at}{parts.path.rstrip('/')}", token)


def to_place(uri: str) -> str | Server:
    """The path in `libsql:///relative.db` or `libsql:////absolute.db`, ":memory:", or the server in
    `libsql://host`.

    Raises:
        ConfigurationError: the URI names nothing, or has what its kind does not take.
    """
    parts = urlsplit(uri)
    if parts.netloc or parts.scheme != "libsql":
        return Server.parse(uri)
    path = unquote(parts.path.removeprefix("/"))
    if parts.query or parts.fragment:
        raise ConfigurationError(
            f"{uri!r} has a query that libSQL does not know; write ? as %3F and # as %23 in names."
        )
    if not path or "\0" in path:
        raise ConfigurationError(f"{uri!r} names no file; write, for example, libsql:///memory.db.")
    if "{tenant}" in path:
        raise ConfigurationError(
            f"{uri!r} names a file for each tenant, and a store is one file; open one service "
            "per file, or use "
            "PostgreSQL with row level security."
        )
    return path


def check_file(path: str) -> None:
    """Look before the driver does, whose answer would be a bare number.

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
            f"{directory} cannot be read; give this user permission to enter it and the "
            "directories above it."
        ) from error
    if is_directory:
        raise ConfigurationError(f"{path} is a directory; name a file in it.")
    if not directory.is_dir():
        raise ConfigurationError(f"The directory {directory} does not exist; create it first.")
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        raise ConfigurationError(
            f"{path} cannot be read and written; make it readable and writable for this user."
        )
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"{directory} cannot be written; libSQL keeps its log there: make it writable."
        )
