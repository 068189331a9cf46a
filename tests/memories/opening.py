"""Memories as the tests of this folder open them, here or through a server."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import httpx
import psycopg

from kagent_memory import Memories
from kagent_memory.remote import RemoteMemories
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access


async def opened(uri: str = "libsql:///:memory:", **options: Any) -> Memories:
    """Open memories that call no model unless told to, and work only when asked."""
    return await Memories.open(uri, **{"llm": False, "worker": False, **options})


async def through_a_server(memories: Memories, token: str = "", **options: Any) -> RemoteMemories:
    """Open memories through a server of theirs; with a token the server asks for one."""
    app = create_app(memories, Access(required=True)) if token else create_app(memories)
    return await RemoteMemories.open(
        "http://127.0.0.1",
        transport=httpx.ASGITransport(app),
        **({"token": token} if token else {}),
        **options,
    )


def execute(uri: str, *statements: str) -> Any:
    """Run statements as somebody with the database's password; return the rows of the last."""
    connection: Any = (
        sqlite3.connect(uri.removeprefix("libsql:///"))
        if uri.startswith("libsql")
        else psycopg.connect(uri.partition("&rls")[0], options="-c search_path=kagent_memory")
    )
    with closing(connection), connection:
        cursors = [connection.execute(statement) for statement in statements]
        return cursors[-1].fetchall() if cursors[-1].description else None
