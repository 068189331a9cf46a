"""Forgotten content is gone to the byte and stays gone, however long the conversation goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from adk.scripted import SCOPE, Chat, assistant, call, contents, responses, scripted

from kagent_memory import (
    AutoSave,
    ForgetMemoryTool,
    KagentMemoryService,
    LoadMemoryTool,
    MemoryPlugin,
    SaveMemoryTool,
)
from kagent_memory.adk.prefetch import Prefetch

CANARY = "xylophone quokka marmalade"
SECRET = f"Ada keeps a {CANARY} in the attic"


def disk(uri: str) -> Callable[[], str]:
    """Return a function that reads all texts of a database, from its files or its tables."""
    path = urlsplit(uri).path[1:]

    def files() -> str:
        from pathlib import Path

        return "".join(
            file.read_bytes().decode("latin-1")
            for file in Path(path).parent.iterdir()
            if file.is_file()
        )

    def tables() -> str:
        import psycopg

        with psycopg.connect(uri) as connection:
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'kagent_memory'"
            ).fetchall()
            rows = [
                connection.execute(
                    f"SELECT t::text FROM kagent_memory.{name} AS t".encode()
                ).fetchall()
                for (name,) in names
            ]
        return json.dumps(rows, ensure_ascii=False)

    return files if uri.startswith("libsql") else tables


def recalling(way: str) -> tuple[list[Any], Any]:
    """Return the model's first steps, which recall the secret, and the prefetch to use."""
    if way == "a tool":
        return [call("load_memory", query="attic"), f"You keep a {CANARY} in the attic."], None
    return [f"You keep a {CANARY} in the attic."], Prefetch(every_turn=True)


@pytest.mark.parametrize(
    ("way", "every_turns", "restarted"),
    [("a tool", 1, True), ("prefetch", 2, False), ("prefetch", None, True)],
)
async def test_forgotten_text_is_not_written_again(
    store_uri: str, way: str, every_turns: int | None, restarted: bool
):
    """Further turns of a conversation never write forgotten text again."""
    texts = disk(store_uri)
    service = KagentMemoryService(store_uri, llm=False)
    [id] = await service.memories.add(SCOPE, [SECRET])
    steps, prefetch = recalling(way)
    model = scripted(
        *steps,
        f"As I said, you keep a {CANARY} in the attic.",
        "Done.",
        "I know of nothing in the attic.",
        f"Ada keeps a {CANARY} in the attic",
    )
    plugin = MemoryPlugin(auto_save=AutoSave(every_turns=every_turns), prefetch=prefetch)
    chat = Chat(assistant(model, tools=[LoadMemoryTool()]), service, plugins=[plugin])
    await chat.say("What do I keep in the attic?")
    await chat.say("Where was it again?")
    assert CANARY in texts()
    await service.memories.forget(SCOPE, id)
    assert CANARY not in texts()
    if restarted:
        await service.drain()
        await service.close()
    for question in ("Please forget it", "Now what is in the attic?", "Are you sure?"):
        await chat.say(question)
        assert CANARY not in texts(), question
    await service.end_session(await chat.session())
    assert CANARY not in texts()
    assert await service.drain() is True
    assert CANARY not in texts()
    memories = await contents(service)
    assert any("Now what is in the attic?" in text for text in memories)
    assert not any("quokka" in text for text in memories)
    await service.close()
    assert CANARY not in texts()


async def test_forgetting_by_tool_leaves_nothing_in_the_queue(store_uri: str):
    """A memory that tools saved and forgot is in no file, table or queue afterwards."""
    texts = disk(store_uri)
    async with KagentMemoryService(store_uri, llm=False) as service:
        model = scripted(
            call("save_memory", content=SECRET),
            "Saved.",
            call("forget_memory", query="attic"),
            f"That is: {SECRET}. Shall I?",
            lambda request: call(
                "forget_memory", ids=[ids[0]], token=responses(request)[-1]["token"]
            ),
            "Gone.",
            "Nothing.",
        )
        tools = [SaveMemoryTool(), ForgetMemoryTool(), LoadMemoryTool()]
        plugin = MemoryPlugin(auto_save=AutoSave(every_turns=None), prefetch=None)
        chat = Chat(assistant(model, tools=tools), service, plugins=[plugin])
        await chat.say("Remember what I keep in the attic")
        ids = [memory.id for memory in (await service.memories.list(SCOPE)).memories]
        await chat.say("Forget what I keep in the attic")
        await chat.say("Yes, do")
        await asyncio.sleep(0)
        await chat.say("What is in the attic?")
        assert CANARY not in texts()
        await service.end_session(await chat.session())
        assert await service.drain() is True
        assert CANARY not in texts()
