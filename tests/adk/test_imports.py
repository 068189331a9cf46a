"""Importing costs nothing, and every public name is there."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {
    "fastapi",
    "libsql",
    "litellm",
    "psycopg",
    "sqlite3",
    "torch",
    "kagent_memory.server",
}
"""What agents need only when memory is opened."""

WATCHED = """
import google.adk.runners, google.adk.plugins
import asyncio, threading
from google.adk.agents import LlmAgent
from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import InMemorySessionService
from google.genai import types

seen, on_the_loop = set(), []

class Watch:
    def find_spec(self, name, path=None, target=None):
        seen.add(name)
        if threading.current_thread() is threading.main_thread():
            on_the_loop.append(name)

before = set(sys.modules)
from kagent_memory import AutoSave, KagentMemoryService, LoadMemoryTool, MemoryPlugin
from kagent_memory import SaveMemoryTool, Scope, auto_save_session_to_memory_callback, enable_memory
KagentMemoryService('libsql:///x.db', embedding='ollama/nomic-embed-text', search_limit=3)
loaded = set(sys.modules) - before
sys.meta_path.insert(0, Watch())

async def ask():
    service = KagentMemoryService('libsql:///:memory:', llm=False)
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="app", user_id="ada")
    tea = types.Content(role="user", parts=[types.Part(text="I drink green tea.")])
    await service.add_memory(app_name="app", user_id="ada", memories=[MemoryEntry(content=tea)])
    agent = LlmAgent(name="a", model="gemini-2.5-flash")
    context = Context(InvocationContext(
        session_service=sessions, memory_service=service, invocation_id="1", agent=agent,
        session=session,
    ))
    answer = await LoadMemoryTool().run_async(args={"query": "green tea"}, tool_context=context)
    assert "green tea" in str(answer), answer
    await service.close()

asyncio.run(ask())
print(json.dumps([list(loaded), list(seen), on_the_loop]))
"""


def test_agents_load_little_and_nothing_on_their_loop():
    """The names for agents load nothing that only opened memory needs, and the first use does not
    load that on the caller's event loop.
    """
    process = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{WATCHED}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    loaded, on_first_use, on_the_loop = map(set, json.loads(process.stdout))
    assert "kagent_memory.adk.service" in loaded
    assert loaded & HEAVY == set()
    assert "sqlite3" in on_first_use
    assert on_the_loop & HEAVY == set()
