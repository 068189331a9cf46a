"""Call the verbs: awaited, blocking, and through a server. A type checker knows each of them.

SERVER=http://127.0.0.1:8080 and TOKEN=kmem_… also call a running `kagent-memory serve`.
"""

from __future__ import annotations

import asyncio
import os
from typing import assert_type

from google.adk.agents import LlmAgent

from kagent_memory import (
    AutoSave,
    Fact,
    Filter,
    ForgetMemoryTool,
    Hit,
    KagentMemoryService,
    Memories,
    Memory,
    Recall,
    Scope,
    enable_memory,
    tenant,
)


def blocking(memory: KagentMemoryService, scope: Scope) -> list[str]:
    """Call verbs from a thread without an event loop."""
    [id] = memory.sync.add(scope, [Fact("Ada rows at dawn.", tags=("sport",))])
    recall = assert_type(
        memory.sync.recall(scope, "rowing", limit=3, filter=Filter(tags=("sport",))), Recall
    )
    stored = assert_type(memory.sync.get(scope, id), Memory)
    return [hit.memory.content for hit in recall if assert_type(hit, Hit).memory.id == stored.id]


async def awaited(memories: Memories, scope: Scope) -> list[str]:
    """Call verbs of a service or a server from any event loop."""
    [id] = await memories.add(scope, ["Ada likes tea."], who="a sample")
    assert_type(await memories.edit(scope, id, content="Ada likes green tea."), Memory)
    lines = [line async for line in memories.export(tenant=scope.tenant)]
    page = await memories.list(scope, order="newest")
    return [memory.content for memory in page.memories if len(lines) > 1]


async def main() -> None:
    agent = LlmAgent(name="assistant", model="gemini-2.5-flash", instruction="Help.")
    tools = [ForgetMemoryTool(confirm="person")]
    assert_type(enable_memory(agent, tools=tools, auto_save=AutoSave(every_turns=3)), LlmAgent)
    async with KagentMemoryService(
        "libsql:///:memory:", embedding=None, llm=False, search_limit=3
    ) as memory:
        with tenant("acme"):
            scope = memory.scope("demo", "ada")
        print(await awaited(memory.memories, scope))
        print(await asyncio.to_thread(blocking, memory, scope))
    if server := os.environ.get("SERVER"):
        async with await Memories.open(server, token=os.environ.get("TOKEN")) as remote:
            print(await awaited(remote, scope))


if __name__ == "__main__":
    asyncio.run(main())
