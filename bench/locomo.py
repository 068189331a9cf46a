"""Evidence recall on LoCoMo: each turn is one memory of one user; how many of a question's evidence turns are found?

    python bench/locomo.py locomo10.json [--pgserver] [--only hybrid] [--out results.json]

Takes REALTALK in the same shape; there a turn has a time of its own (`at`).

The data set (Maharana et al. 2024, "Evaluating Very Long-Term Conversational Memory of LLM Agents") is not part of this
repository. Its categories: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minilm import DEFAULT_CACHE, MiniLM
from report import Asked, compare, embed_all, show, write
from systems import Note, catalogue

from kagent_memory.models.embedding import open_embedder
from kagent_memory.settings import MemorySettings

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D\d+:\d+")


@dataclass(frozen=True)
class Conversation:
    """One user's turns, and what is asked of them."""

    user: str
    notes: list[Note]
    asked: list[Asked]


def conversations(path: Path, *, prefix: bool) -> list[Conversation]:
    """The conversations of a LoCoMo file; questions whose evidence names no turn are left out.

    Args:
        path: the JSON file.
        prefix: put "Speaker: " before each text, for stores that know no author.
    """
    return [_conversation(one, prefix=prefix) for one in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(one: Mapping[str, Any], *, prefix: bool) -> Conversation:
    notes = _notes(one["conversation"], prefix=prefix)
    known = {note.key for note in notes}
    asked: list[Asked] = []
    for question in one["qa"]:
        named = _TURN.findall(" ".join(question.get("evidence") or ()))
        evidence = frozenset(named) & known
        if evidence:
            asked.append(Asked(question["question"], CATEGORIES[question["category"]], evidence))
    return Conversation(str(one["sample_id"]), notes, asked)


def _notes(talk: Mapping[str, Any], *, prefix: bool) -> list[Note]:
    numbers = sorted(int(found[1]) for name in talk if (found := _SESSION.fullmatch(name)))
    notes: list[Note] = []
    for number in numbers:
        at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in talk[f"session_{number}"]:
            text = f"{turn['speaker']}: {turn['text']}" if prefix else turn["text"]
            said_at = datetime.fromisoformat(turn["at"]) if turn.get("at") else at
            notes.append(Note(turn["dia_id"], text, turn["speaker"], f"session_{number}", said_at))
    return notes


async def run(options: argparse.Namespace) -> None:
    users = {one.user: (one.notes, one.asked) for one in conversations(options.data, prefix=options.prefix)}
    embedder = open_embedder(options.embedding, MemorySettings()) or MiniLM(options.cache)
    await embed_all(embedder, users)
    uris = ["libsql:///{folder}/memory.db", *(["pgserver:///{folder}/postgres"] if options.pgserver else [])]
    systems = catalogue([*uris, *options.uri], embedder)
    chosen = {name: opener for name, opener in systems.items() if not options.only or options.only in name}
    results = await compare(chosen, users)
    show(results)
    if options.out:
        write(options.out, results)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a LoCoMo JSON file")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where embeddings are kept")
    parser.add_argument("--embedding", help="an embedder as embedding= names it; none: MiniLM, kept in --cache")
    parser.add_argument("--uri", action="append", default=[], help="another store; {folder} becomes a temporary folder")
    parser.add_argument("--pgserver", action="store_true", help="also on a private PostgreSQL (extra [pgserver])")
    parser.add_argument("--prefix", action="store_true", help="store 'Speaker: text' instead of text with an author")
    parser.add_argument("--only", default="", help="only systems whose name holds this")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, for plot.py")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(run(parsed()))
