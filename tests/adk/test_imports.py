"""Importing costs nothing, and every public name is there."""

from __future__ import annotations

import subprocess
import sys


def printed_by(code: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


LATER = (
    "ingestion",
    "language.tokenizer",
    "memories.components",
    "memories.transfer",
    "models.embedding",
    "models.prompts.escaping",
    "redaction",
    "remote",
    "retention",
    "retrieval.question",
    "retrieval.ranking",
    "retrieval.retriever",
    "server",
    "stores",
)
"""What agents need only when memory is opened."""


def test_names_for_agents_load_no_store_or_model() -> None:
    """The names for agents load nothing that only opened memory needs."""
    code = (
        "import google.adk.runners, google.adk.agents, google.adk.plugins\n"
        "before = set(sys.modules)\n"
        "from kagent_memory import AutoSave, KagentMemoryService, LoadMemoryTool, MemoryPlugin, "
        "SaveMemoryTool, Scope\n"
        "from kagent_memory import auto_save_session_to_memory_callback, enable_memory\n"
        "KagentMemoryService('libsql:///x.db', embedding='ollama/nomic-embed-text', "
        "search_limit=3)\n"
        "print(*set(sys.modules) - before)"
    )
    loaded = set(printed_by(code))
    assert "kagent_memory.adk.service" in loaded
    assert loaded & {f"kagent_memory.{name}" for name in LATER} == set()
    assert {name.partition(".")[0] for name in loaded} & {
        "numpy",
        "snowballstemmer",
        "Stemmer",
        "sqlite3",
        "litellm",
        "psycopg",
        "libsql",
        "torch",
    } == set()


IMPORTED_WHERE = """
import asyncio, threading
from google.adk.agents import LlmAgent
from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import InMemorySessionService
from google.genai import types
from kagent_memory import KagentMemoryService, LoadMemoryTool, MemoryPlugin, enable_memory

HEAVY = ("numpy", "kagent_memory.stores", "kagent_memory.redaction",
"kagent_memory.language.tokenizer",
         "kagent_memory.models.prompts.escaping", "kagent_memory.ingestion",
         "kagent_memory.memories.components")
seen, on_the_loop = set(), []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in HEAVY:
            seen.add(name)
            if threading.current_thread() is threading.main_thread():
                on_the_loop.append(name)

sys.meta_path.insert(0, Watch())

async def ask():
    service = KagentMemoryService('libsql:///:memory:', llm=False)
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="app", user_id="ada")
    tea = types.Content(role="user", parts=[types.Part(text="I drink green tea.")])
    await service.add_memory(app_name="app", user_id="ada", memories=[MemoryEntry(content=tea)])
    invocation = InvocationContext(session_service=sessions, memory_service=service,
    invocation_id="1",
                                   agent=LlmAgent(name="a", model="gemini-2.5-flash"),
                                   session=session)
    answer = await LoadMemoryTool().run_async(args={"query": "green tea"},
    tool_context=Context(invocation))
    assert "green tea" in str(answer), answer
    await service.close()

asyncio.run(ask())
print(len(seen), *on_the_loop)
"""


def test_first_use_imports_off_the_callers_loop() -> None:
    """Modules of the first use are not imported on the caller's event loop."""
    seen, *on_the_loop = printed_by(IMPORTED_WHERE)
    assert (int(seen) > 1, on_the_loop) == (True, [])
