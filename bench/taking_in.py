"""Measure the CPU time that taking in a conversation's turns costs without a model.

    python bench/taking_in.py beam.json [--turns 188]

Every session is queued and worked off by itself, as `remember` does; shown is the process's CPU
time a turn, after half of the turns and after all: a cost that grows with what is stored would
show.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from itertools import groupby
from pathlib import Path

from conversations import conversations

from kagent_memory import Memories, Scope
from kagent_memory.records import Message

SCOPE = Scope("", "ada", "bench")


async def measure(path: Path, turns: int) -> None:
    """Take in the first turns of a file and print what they cost."""
    notes = [note for talk in conversations(path, prefix=False) for note in talk.notes][:turns]
    spent, count = 0.0, 0
    async with await Memories.open("libsql:///:memory:", llm=False, worker=False) as memories:
        begun = time.process_time()
        for role in ("user", "agent"):  # what a process loads once is no turn's cost
            await memories.remember(
                Scope("", "warm", "bench"), [Message(text="I like tea.", role=role)], role
            )
            await memories.work(until_idle=True)
        print(f"start: {1000 * (time.process_time() - begun):.0f} ms")
        for session, some in groupby(notes, key=lambda note: note.session):
            messages = [
                Message(
                    text=note.text,
                    role="user" if note.author.lower() == "user" else "agent",
                    event_id=note.key,
                    at=note.at,
                )
                for note in some
            ]
            begun = time.process_time()
            await memories.remember(SCOPE, messages, session)
            await memories.work(until_idle=True)
            spent += time.process_time() - begun
            count += len(messages)
            print(f"{count} turns: {1000 * spent / count:.2f} ms a turn")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--turns", type=int, default=188)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.file, arguments.turns))


if __name__ == "__main__":
    main()
