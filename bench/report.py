"""Ask every system every question, and print the answers' measures as tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conversations import Note, Question
from measures import NAMES, Answer, by, means, recall_at
from systems import Opened

from kagent_memory.models.embedding import Embedder

DEPTHS = (1, 2, 3, 5, 8, 10, 15, 20)


async def embed_all(
    embedder: Embedder, users: Mapping[str, tuple[Sequence[Note], Sequence[Question]]]
) -> None:
    """Embed notes and questions beforehand, so that a slow first time runs into no time-out."""
    texts = {
        text
        for notes, _ in users.values()
        for note in notes
        for text in (note.text, f"{note.author}: {note.text}")
    }
    texts |= {question.text for _, questions in users.values() for question in questions}
    started = time.perf_counter()
    vectors = await embedder.embed(sorted(texts, key=len), kind="document")
    seconds = (time.perf_counter() - started) / len(texts)
    print(
        (
            f"{embedder.name}: {vectors.shape[1]} dimensions, {len(texts)} texts, {seconds * 1000:.2f} "  # noqa: E501
            "ms each"
        ),
        flush=True,
    )


async def compare(
    systems: Mapping[str, Callable[[], Opened]],
    users: Mapping[str, tuple[Sequence[Note], Sequence[Question]]],
) -> dict[str, list[Answer]]:
    """Return every system's answers; a system holds the notes of all users, each under its own
    user.
    """
    results: dict[str, list[Answer]] = {}
    for name, opener in systems.items():
        started = time.perf_counter()
        answers: list[Answer] = []
        async with opener() as system:
            for user, (notes, _) in users.items():
                await system.fill(user, notes)
            stored = time.perf_counter()
            for user, (notes, questions) in users.items():
                twins = _twins(notes)
                for question in questions:
                    ranked = tuple(
                        twins.get(key, key) for key in await system.find(user, question.text)
                    )
                    evidence = frozenset(twins[key] for key in question.evidence)
                    answers.append(Answer(user, question.category, ranked, evidence))
        results[name] = answers
        searched = time.perf_counter() - stored
        print(
            (
                f"{name}: stored in {stored - started:.1f} s, {len(answers)} questions in "
                f"{searched:.1f} s"
            ),
            flush=True,
        )
    return results


def _twins(notes: Sequence[Note]) -> dict[str, str]:
    # The same words twice are one memory to a store of facts: either stands for both.
    first: dict[str, str] = {}
    return {
        note.key: first.setdefault(" ".join(note.text.casefold().split()).rstrip(".! "), note.key)
        for note in notes
    }


def show(results: Mapping[str, Sequence[Answer]]) -> None:
    """Print the tables: overall, and recall@5 by category and by group."""
    print()
    _table("system", NAMES, {name: means(answers) for name, answers in results.items()})
    for title, key in (("category", _category), ("group", _group)):
        names = sorted({key(answer) for answers in results.values() for answer in answers})
        rows = {
            name: {group: figures["recall@5"] for group, figures in by(key, answers).items()}
            for name, answers in results.items()
        }
        if len(names) <= 12:
            print(f"\nrecall@5 by {title}\n")
            _table("system", names, rows)


def write(path: Path, results: Mapping[str, Sequence[Answer]]) -> None:
    """Write the figures as JSON: overall, by category, by group, and recall at several depths."""
    figures: dict[str, Any] = {
        name: {
            "overall": means(answers),
            "by category": by(_category, answers),
            "by group": by(_group, answers),
            "recall at": {str(depth): recall_at(depth, answers) for depth in DEPTHS},
            "questions": len(answers),
        }
        for name, answers in results.items()
    }
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _category(answer: Answer) -> str:
    return answer.category


def _group(answer: Answer) -> str:
    return answer.group


def _table(corner: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, float]]) -> None:
    print("| " + " | ".join((corner, *columns)) + " |")
    print("|" + "---|" * (len(columns) + 1))
    for name, figures in rows.items():
        cells = (f"{figures[column]:.3f}" if column in figures else "" for column in columns)
        print("| " + " | ".join((name, *cells)) + " |")
