"""Memories as the tests of this folder open them, here or through a server."""

from __future__ import annotations

from typing import Any

import httpx

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
