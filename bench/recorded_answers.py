r"""Record what a version of the package answers to every question, and compare two records.

    python bench/recorded_answers.py record before.json beam.json locomo.json realtalk.json \
        --vectors vectors --model-python torch-venv/bin/python
    PYTHONPATH=../changed python bench/recorded_answers.py record after.json beam.json …
    python bench/recorded_answers.py compare before.json after.json --show 10

Every turn is added as a memory of its conversation's user, and every question is asked of that
user: by keyword, and with `--vectors` also in hybrid mode. PYTHONPATH names the checkout to ask,
because only the public `Memories` is used (`open`, `add`, `recall`) and turns are known by their
key in the data. Two records of one version are equal to the byte: the clock stands still, and a
vector is computed once and kept in the folder. A change that embeds other texts gets their vectors
from the Python that `--model-python` names, which has the model and needs nothing of the package.

Of conversations between `user` and `assistant` exchanges are counted beside messages: a user's
message with the answers to it, found when one of its messages is among the first k.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from conversations import Conversation, Note, conversations, exchanges
from measures import Answer, recall_at
from minilm import DIMENSIONS, MiniLM

import kagent_memory
from kagent_memory import Fact, Memories, Scope

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEPTH = 20
BATCH = 64
DIGITS = 6
Answers = list[dict[str, Any]]


class RecordedVectors:
    """An embedder that looks vectors up, and collects the texts that have none."""

    name = MiniLM.name

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._vectors = MiniLM(folder)
        self._missing: set[str] = set()

    async def embed(
        self, texts: Sequence[str], *, kind: Literal["document", "query"]
    ) -> npt.NDArray[np.float32]:
        """Return one row per text, a placeholder for a text without a vector."""
        rows = [self._vectors.recorded(text) for text in texts]
        self._missing.update(text for text, row in zip(texts, rows, strict=True) if row is None)
        placeholder = np.full(DIMENSIONS, DIMENSIONS**-0.5, np.float32)
        return np.stack([placeholder if row is None else row for row in rows])

    def embed_missing(self, python: str) -> int:
        """Embed the missing texts in a process of that Python, and return their number."""
        missing, self._missing = sorted(self._missing, key=lambda text: (len(text), text)), set()
        if missing:
            command = [python, str(Path(__file__).with_name("minilm.py")), str(self._folder)]
            subprocess.run(command, input=json.dumps(missing), text=True, check=True)
        return len(missing)


async def answers_of(
    talks: Mapping[str, Sequence[Conversation]], uri: str, embedder: RecordedVectors | None
) -> dict[str, Answers]:
    """Return the answers to every question of every set, from a store made for this."""
    app = f"recorded-{uuid.uuid4()}"
    answers: dict[str, Answers] = {name: [] for name in talks}
    with tempfile.TemporaryDirectory() as folder:
        placed = uri.replace("{folder}", folder)
        async with await Memories.open(
            placed, embedding=embedder, llm=False, clock=lambda: NOW
        ) as memories:
            for name, conversations_of_set in talks.items():
                for talk in conversations_of_set:
                    scope = Scope(tenant="", user=talk.user, app=app)
                    answers[name] += await _answers(memories, scope, talk, embedder is not None)
    return answers


async def stored(memories: Memories, scope: Scope, talk: Conversation) -> dict[str, str]:
    """Store a conversation; return the memory's id by the note's key."""
    ids: list[str] = []
    for start in range(0, len(talk.notes), BATCH):
        facts = [_fact(note) for note in talk.notes[start : start + BATCH]]
        ids += await memories.add(scope, facts)
    return {note.key: id for id, note in zip(ids, talk.notes, strict=True)}


async def _answers(memories: Memories, scope: Scope, talk: Conversation, hybrid: bool) -> Answers:
    ids = await stored(memories, scope, talk)
    first: dict[str, str] = {}  # the same words twice are one memory, known by the first key
    keys = {note.key: first.setdefault(ids[note.key], note.key) for note in talk.notes}
    answers: Answers = []
    for question in talk.questions:
        recalled = await memories.recall(scope, question.text, limit=DEPTH, deliver=False)
        if recalled.degraded or recalled.mode != ("hybrid" if hybrid else "keyword"):
            raise SystemExit(f"{question.text!r}: {recalled.mode} only, {recalled.degraded}")
        answers.append(
            {
                "user": talk.user,
                "question": question.text,
                "category": question.category,
                "evidence": sorted({keys[key] for key in question.evidence}),
                "keys": [first[hit.memory.id] for hit in recalled],
                "scores": [round(hit.score, DIGITS) for hit in recalled],
            }
        )
    return answers


def _fact(note: Note) -> Fact:
    return Fact(
        text=note.text,
        author=note.author,
        origin="agent" if note.author == "assistant" else "user",
        session_id=note.session,
        happened_at=note.at,
        ttl_days=0,
    )


def recalls(answers: Answers, talks: Sequence[Conversation]) -> dict[str, dict[str, float]]:
    """Return recall@5 and @10 by unit: messages, and exchanges if there are any."""
    by_user = {talk.user: exchanges(talk) for talk in talks}
    units: dict[str, list[Answer]] = {"messages": []}
    for answer in answers:
        user, category, keys, evidence = (
            answer[name] for name in ("user", "category", "keys", "evidence")
        )
        units["messages"].append(Answer(user, category, tuple(keys), frozenset(evidence)))
        if unit := by_user[user]:
            ranked, relevant = (
                tuple(unit[key] for key in keys),
                frozenset(unit[key] for key in evidence),
            )
            units.setdefault("exchanges", []).append(Answer(user, category, ranked, relevant))
    return {
        unit: {f"recall@{k}": recall_at(k, measured) for k in (5, 10)}
        for unit, measured in units.items()
    }


async def record(options: argparse.Namespace) -> None:
    """Write the answers and recalls of every mode and set to a file."""
    talks = {path.stem: conversations(path, prefix=False) for path in options.data}
    embedder = RecordedVectors(options.vectors) if options.vectors else None
    print(f"asking {Path(kagent_memory.__file__).parent}", flush=True)
    modes = {"keyword": None, **({"hybrid": embedder} if embedder else {})}
    made: dict[str, Any] = {}
    for mode, chosen in modes.items():
        started = time.perf_counter()
        answers = await answers_of(talks, options.uri, chosen)
        while chosen and (count := chosen.embed_missing(options.model_python)):
            print(f"{count} texts were new and have been embedded; asking again", flush=True)
            answers = await answers_of(talks, options.uri, chosen)
        print(f"{mode}: {time.perf_counter() - started:.0f} s", flush=True)
        made[mode] = {
            name: {"recall": recalls(answers[name], talks[name]), "answers": answers[name]}
            for name in talks
        }
    text = json.dumps(made, indent=1, ensure_ascii=False)
    options.record.write_text(text + "\n", encoding="utf-8")
    show(made)


def show(made: Mapping[str, Any]) -> None:
    """Print the recalls of a record."""
    print("| set | mode | unit | questions | recall@5 | recall@10 |\n|---|---|---|---|---|---|")
    for mode, sets in made.items():
        for name, answers in sets.items():
            for unit, recall in answers["recall"].items():
                figures = " | ".join(f"{recall[f'recall@{k}']:.3f}" for k in (5, 10))
                print(f"| {name} | {mode} | {unit} | {len(answers['answers'])} | {figures} |")


def compare(options: argparse.Namespace) -> None:
    """Print the differences between two records, by mode and set."""
    before, after = (
        json.loads(path.read_text("utf-8")) for path in (options.before, options.after)
    )
    changes: list[str] = []
    heads = ("set", "mode", "identical", "other scores", "other ranks", "recall@5", "recall@10")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for mode in [mode for mode in before if mode in after]:
        for name in [name for name in before[mode] if name in after[mode]]:
            old, new = before[mode][name], after[mode][name]
            pairs = _pairs(old["answers"], new["answers"])
            kinds = [_difference(*pair) for pair in pairs]
            counts = [str(kinds.count(kind)) for kind in heads[2:5]]
            changes += [
                (
                    f"{name}, {mode}: {before['question']}\n  before {before['keys']}\n  after  "
                    f"{other['keys']}"
                )
                for (before, other), kind in zip(pairs, kinds, strict=True)
                if kind == "other ranks"
            ]
            for unit in old["recall"]:
                cells = [_change(old["recall"][unit], new["recall"][unit], k) for k in (5, 10)]
                print(f"| {name}, {unit} | {mode} | " + " | ".join((*counts, *cells)) + " |")
    print("\n".join(["", *changes[: options.show]]))


def _pairs(before: Answers, after: Answers) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    pairs = list(zip(before, after, strict=True))
    if any(before["question"] != other["question"] for before, other in pairs):
        raise SystemExit("The records are of different questions.")
    return pairs


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if before["keys"] != after["keys"]:
        return "other ranks"
    return "identical" if before["scores"] == after["scores"] else "other scores"


def _change(before: Mapping[str, float], after: Mapping[str, float], k: int) -> str:
    old, new = before[f"recall@{k}"], after[f"recall@{k}"]
    return f"{old:.3f} → {new:.3f} ({new - old:+.3f})"


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    recorder = commands.add_parser("record", help="ask every question and write the answers")
    recorder.add_argument("record", type=Path, help="the file to write")
    recorder.add_argument("data", type=Path, nargs="+", help="JSON files in LoCoMo's shape")
    recorder.add_argument(
        "--vectors", type=Path, help="ask in hybrid mode too; where vectors are kept"
    )
    recorder.add_argument("--model-python", default=sys.executable, help="a Python that has MiniLM")
    recorder.add_argument(
        "--uri",
        default="libsql:///{folder}/memory.db",
        help="the store; {folder} becomes a temporary folder",
    )
    recorder.set_defaults(run=lambda options: asyncio.run(record(options)))
    other = commands.add_parser("compare", help="say what differs between two records")
    other.add_argument("before", type=Path)
    other.add_argument("after", type=Path)
    other.add_argument("--show", type=int, default=0, help="changed questions to show")
    other.set_defaults(run=compare)
    return parser.parse_args()


if __name__ == "__main__":
    chosen = parsed()
    chosen.run(chosen)
