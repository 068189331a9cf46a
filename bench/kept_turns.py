r"""Measure what an extractor that loses two facts of three costs, with and without kept turns.

    python bench/kept_turns.py beam.json locomo.json realtalk.json \
        --vectors vectors --model-python …

Sessions are saved as agents save them (`remember`, then the worker). Three ways: as turns, without
a model; facts alone; facts with their turns. The scripted extractor finds one fact in every third
turn: its first sentence. A hit counts for its own events and for those of the turns handed over
with it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from conversations import Conversation, Note, conversations
from recorded_answers import NOW, RecordedVectors, exchanges

from kagent_memory import Fact, Filter, Memories, Message, PassthroughSummary, Scope
from kagent_memory.ingestion.summary_provider import Transcript

DEPTH = 10
AT = (5, 10)
SENTENCE_CHARS = 240


class EveryThird:
    """A summary provider that extracts one fact of three."""

    name = "every-third"
    keeps_turns = True

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return the first sentence of every third message."""
        return [
            Fact(
                text=message.text.split("\n")[0].split(". ")[0][:SENTENCE_CHARS],
                origin="agent" if message.role == "agent" else "user",
                author=message.author or None,
                event_ids=(message.event_id,),
                happened_at=message.at,
            )
            for message in transcript.messages[::3]
            if message.text.strip()
        ]


WAYS: Mapping[str, Mapping[str, Any]] = {
    "turns": {"summary": PassthroughSummary()},
    "facts": {"summary": EveryThird(), "keep_turns": False},
    "facts and turns": {"summary": EveryThird(), "keep_turns": True},
}


def sessions(talk: Conversation) -> Iterator[tuple[str, list[Message]]]:
    """Yield the sessions of a conversation as messages."""
    for session, notes in groupby(talk.notes, key=lambda note: note.session):
        yield session, [_message(note) for note in notes]


def _message(note: Note) -> Message:
    role = "agent" if note.author == "assistant" else "user"
    return Message(text=note.text, role=role, author=note.author, event_id=note.key, at=note.at)


async def measure(
    talks: Sequence[Conversation], embedder: RecordedVectors | None, way: str
) -> dict[str, float]:
    """Fill a store in one of the ways, ask all questions, and return recall and costs."""
    app = f"kept-{uuid.uuid4()}"
    shares_at: dict[int, list[float]] = {k: [] for k in AT}
    rows = writing = 0.0
    options = {
        "embedding": embedder,
        "llm": False,
        "worker": False,
        "clock": lambda: NOW,
        "ttl_days": 0,
    }
    with tempfile.TemporaryDirectory() as folder:
        async with await Memories.open(
            f"libsql:///{folder}/memory.db", **options, **WAYS[way]
        ) as memories:
            for talk in talks:
                scope = Scope(tenant="", user=talk.user, app=app)
                started = time.perf_counter()
                for session, messages in sessions(talk):
                    await memories.remember(scope, messages, session_id=session)
                await memories.work(until_idle=True)
                writing += time.perf_counter() - started
                rows += await _count(memories, scope)
                units = exchanges(talk)
                for question in talk.questions:
                    recalled = await memories.recall(
                        scope, question.text, limit=DEPTH, deliver=False
                    )
                    keys = [_events(hit) for hit in recalled]
                    for k in AT:
                        recalled_units = {units.get(key, key) for some in keys[:k] for key in some}
                        evidence = {units.get(key, key) for key in question.evidence}
                        shares_at[k].append(len(evidence & recalled_units) / len(evidence))
    return {
        **{f"@{k}": sum(shares) / len(shares) for k, shares in shares_at.items()},
        "rows": rows,
        "seconds": writing,
    }


async def _count(memories: Memories, scope: Scope) -> int:
    total, cursor = 0, None
    while True:
        page = await memories.list(scope, filter=Filter(superseded=True), limit=500, cursor=cursor)
        total, cursor = total + len(page.memories), page.cursor
        if cursor is None:
            return total


def _events(hit: Any) -> list[str]:
    return [event for memory in (hit.memory, *hit.sources) for event in memory.event_ids]


async def main(options: argparse.Namespace) -> None:
    """Print one table of all sets, modes and ways."""
    print("| set | mode | way | @5 | @10 | rows | s to write |\n|---|---|---|---|---|---|---|")
    embedder = RecordedVectors(options.vectors) if options.vectors else None
    for path in options.data:
        talks = conversations(path, prefix=False)
        for mode, chosen in (("keyword", None), *((("hybrid", embedder),) if embedder else ())):
            for way in WAYS:
                figures = await measure(talks, chosen, way)
                while chosen and chosen.embed_missing(options.model_python):
                    figures = await measure(talks, chosen, way)
                cells = (
                    f"{figures['@5']:.3f} | {figures['@10']:.3f} | {figures['rows']:.0f} | "
                    f"{figures['seconds']:.1f}"
                )
                print(f"| {path.stem} | {mode} | {way} | {cells} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="+", help="JSON files in LoCoMo's shape")
    parser.add_argument(
        "--vectors", type=Path, help="ask in hybrid mode too; where vectors are kept"
    )
    parser.add_argument("--model-python", default=sys.executable, help="a Python that has MiniLM")
    asyncio.run(main(parser.parse_args()))
