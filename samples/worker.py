"""Run a separate worker: the agent's process queues a session, and another process ingests it."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from kagent_memory import Memories, Message, Scope

SCOPE = Scope("", "ada", "desk")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        uri = f"libsql:///{Path(folder)}/memory.db"
        async with await Memories.open(uri, worker=False) as memories:
            messages = [Message(text="The staging cluster is called heron.", event_id="e1")]
            job = await memories.remember(SCOPE, messages, "session-1")
            print(
                "queued:",
                job is not None,
                "· known so far:",
                len((await memories.list(SCOPE)).memories),
            )

            worker = [
                sys.executable,
                "-m",
                "kagent_memory",
                "worker",
                "--until-idle",
                "--uri",
                uri,
            ]
            await asyncio.to_thread(subprocess.run, worker, check=True)

            hits = await memories.recall(SCOPE, "What is staging called?")
            print("ingested:", hits[0].memory.content)


if __name__ == "__main__":
    asyncio.run(main())
