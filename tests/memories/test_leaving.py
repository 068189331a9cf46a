"""A script that ends without closing its memories ends quietly, and what it added is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kagent_memory import KagentMemoryService, Scope

SCOPE = Scope("", "ada", "app")
HEAD = """
import asyncio, sys
from kagent_memory import Memories, Scope
uri, scope = sys.argv[1], Scope("", "ada", "app")
"""
WAYS = {
    "blocking": """
from kagent_memory import KagentMemoryService
KagentMemoryService(uri).sync.add(scope, ["tea"])
""",
    "asyncio.run": """
from kagent_memory import KagentMemoryService
async def main():
    memories = await Memories.open(uri)
    await memories.add(scope, ["tea"])
    await KagentMemoryService(uri).memories.list(scope)
asyncio.run(main())
""",
}


@pytest.mark.parametrize(
    ("way", "store_uri"),
    [("blocking", "libsql"), ("asyncio.run", "postgres")],
    indirect=["store_uri"],
)
def test_a_script_that_does_not_close_prints_no_traceback(store_uri: str, way: str):
    """A script that ends without closing prints nothing, and what it saved is there."""
    uri = store_uri
    command = [sys.executable, "-c", HEAD + WAYS[way], uri]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (process.returncode, process.stdout) == (0, "")
    assert "Traceback" not in process.stderr
    assert "Task was destroyed" not in process.stderr
    with KagentMemoryService(uri, worker=False) as service:
        assert [memory.content for memory in service.sync.list(SCOPE).memories] == ["tea"]
