r"""Measure what `handover_floor` holds back, and what it costs.

    python bench/relevance.py beam.json locomo.json realtalk.json --vectors FOLDER \
        [--model-python PYTHON]

Each conversation is asked its own questions, the general requests of `general_requests.txt`, which
touch nothing stored, and some questions of the other conversations. Shown per set and mode: the
share of each that is handed nothing, and the recall@10 that the own questions lose by it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from conversations import Conversation, conversations
from recorded_answers import NOW, RecordedVectors, stored

from kagent_memory import Memories, Scope

FLOORS = (0.3, 0.34, 0.38, 0.42, 0.5)
FIRST, DEPTH = 5, 10
OTHERS = 36  # questions of other conversations, asked of each
GENERAL = Path(__file__).with_name("general_requests.txt").read_text("utf-8").splitlines()


async def measured(
    talks: Sequence[Conversation], others: Sequence[str], embedder: RecordedVectors | None
) -> dict[str, list[tuple[float, float]]]:
    """Return the highest relevance of the first hits and the recall@10 of each question, by its
    kind.
    """
    chance = random.Random(3)
    results: dict[str, list[tuple[float, float]]] = {"own": [], "general": [], "other": []}
    async with await Memories.open(
        "libsql:///:memory:", embedding=embedder, llm=False, clock=lambda: NOW
    ) as memories:
        for talk in talks:
            scope = Scope(tenant="", user=talk.user, app="relevance")
            keys = await stored(memories, scope, talk)
            mine = {question.text: question.evidence for question in talk.questions}
            requests = [
                *(("own", question.text) for question in talk.questions),
                *(("general", request) for request in GENERAL),
                *(("other", text) for text in chance.sample(others, OTHERS) if text not in mine),
            ]
            for kind, question in requests:
                hits = await memories.recall(scope, question, limit=DEPTH, deliver=False)
                best = max((hit.relevance for hit in hits[:FIRST]), default=0.0)
                evidence = {keys[key] for key in mine.get(question, ())}
                recall = (
                    len(evidence & {hit.memory.id for hit in hits}) / len(evidence)
                    if evidence
                    else 0.0
                )
                results[kind].append((best, recall))
    return results


def show(name: str, mode: str, results: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Print one row per floor."""
    for floor in FLOORS:
        empty = {kind: np.mean([best < floor for best, _ in of]) for kind, of in results.items()}
        lost = np.mean([recall * (best < floor) for best, recall in results["own"]])
        print(
            (
                f"| {name} | {mode} | {floor} | {empty['general']:.2f} | {empty['other']:.2f} | "
                f"{lost:.3f} |"
            ),
            flush=True,
        )


async def main(options: argparse.Namespace) -> None:
    """Print the table."""
    sets = {path.stem: conversations(path, prefix=False) for path in options.data}
    others = [
        question.text for talks in sets.values() for talk in talks for question in talk.questions
    ]
    embedder = RecordedVectors(options.vectors) if options.vectors else None
    print(
        "| set | mode | floor | general: nothing | others' questions: nothing | recall@10 lost |\n|"
        + "---|" * 6
    )
    for mode, chosen in {"keyword": None, **({"hybrid": embedder} if embedder else {})}.items():
        for name, talks in sets.items():
            results = await measured(talks, others, chosen)
            while chosen and chosen.embed_missing(options.model_python):
                results = await measured(talks, others, chosen)
            show(name, mode, results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="+", help="JSON files in LoCoMo's shape")
    parser.add_argument(
        "--vectors", type=Path, help="measure hybrid search too; where vectors are kept"
    )
    parser.add_argument("--model-python", default=sys.executable, help="a Python that has MiniLM")
    asyncio.run(main(parser.parse_args()))
