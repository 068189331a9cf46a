"""Measure what a model that rewrites queries is worth, at best and at worst.

    python bench/rewriting.py locomo.json realtalk.json [--every 2]

The real service, the model a script: the oracle's rewrite is the question with the data's own
answer (only questions that come with one); the others answer with a question about another
conversation, with another one about this, or with words that nobody says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conversations import Asked, Note, conversations
from measures import Answer, means
from minilm import DEFAULT_CACHE, MiniLM
from systems import DEPTH, Service

from kagent_memory import KagentMemoryService
from kagent_memory.models.llm import Answer as Schema
from kagent_memory.records import new_id

Users = Mapping[str, tuple[Sequence[Note], Sequence[Asked]]]
NOBODY_SAYS = "zarf quibble oblong marmalade flux"
ADVERSARIES = (
    "another conversation's question",
    "another question of this one",
    "words nobody says",
)


class Model:
    """Answers every prompt with the same words, until it is given others."""

    name = "scripted"
    words = ""

    async def complete(self, prompt: str, *, schema: type[Schema]) -> Schema:
        """The words, as the schema has them."""
        return schema.model_validate(dict.fromkeys(schema.model_fields, self.words))


def answers(path: Path) -> dict[tuple[str, str], str]:
    """The answers that the data gives, by user and question."""
    return {
        (str(one["sample_id"]), asked["question"]): str(asked["answer"])
        for one in json.loads(path.read_text(encoding="utf-8"))
        for asked in one["qa"]
        if asked.get("answer")
    }


def scripts(
    users: Users, known: Mapping[tuple[str, str], str]
) -> dict[str, dict[tuple[str, str], str]]:
    """Return the answer of each model to each user's question."""
    chance = random.Random(5)
    every = [(user, one.question) for user, (_, asked) in users.items() for one in asked]
    others = {user: [question for other, question in every if other != user] for user in users}
    mine = {user: [one.question for one in asked] for user, (_, asked) in users.items()}
    return {
        "the answer": {key: f"{key[1]} {known[key]}" for key in every if key in known},
        ADVERSARIES[0]: {key: chance.choice(others[key[0]]) for key in every},
        ADVERSARIES[1]: {key: chance.choice(mine[key[0]]) for key in every},
        ADVERSARIES[2]: dict.fromkeys(every, NOBODY_SAYS),
    }


async def measured(users: Users, path: Path, embedder: MiniLM | None, every: int) -> dict[str, str]:
    """recall@5 / @10 with each model, and without one of the same questions."""
    model, rows = Model(), dict[str, str]()
    known = answers(path)
    with tempfile.TemporaryDirectory() as folder:
        uri = f"libsql:///{folder}/memory.db"
        patient: dict[str, Any] = {"search_limit": DEPTH, "search_timeout_seconds": 120.0}
        async with KagentMemoryService(uri, embedding=embedder, **patient) as service:
            for user, (notes, _) in users.items():
                await Service(service).fill(user, notes)
        for rewrites in (False, True):
            llm = model if rewrites else False
            async with KagentMemoryService(
                uri, embedding=embedder, llm=llm, rewrite=rewrites, **patient
            ) as service:
                for title, script in scripts(users, known).items():
                    if not script or (not rewrites and title in ADVERSARIES[1:]):
                        # the data has no answers; the same questions as the first adversary's
                        continue
                    found = await asked_all(Service(service), users, script, model, every)
                    figures = means(found)
                    cell = f"{figures['recall@5']:.3f} / {figures['recall@10']:.3f} of {len(found)}"
                    rows[f"{title}, {'rewrite' if rewrites else 'without a model'}"] = cell
    return rows


async def asked_all(
    service: Service, users: Users, script: Mapping[tuple[str, str], str], model: Model, every: int
) -> list[Answer]:
    """Every n-th question for which the script has an answer."""
    found: list[Answer] = []
    for user, (_, asked) in users.items():
        for one in asked[::every]:
            if (words := script.get((user, one.question))) is not None:
                model.words = words
                keys = await service.find(user, one.question)
                found.append(Answer(user, one.category, keys, one.evidence))
    return found


async def main(options: argparse.Namespace) -> None:
    for path in options.data:
        users: Users = {
            one.user: (one.notes, one.asked) for one in conversations(path, prefix=False)
        }
        for mode, embedder in (("keyword", None), ("hybrid", MiniLM(options.cache))):
            if embedder is not None:
                # the model is loaded before any search waits for it
                await embedder.embed([new_id()], kind="query")
            print(f"\n{path.stem}, {mode}", flush=True)
            for title, cell in (await measured(users, path, embedder, options.every)).items():
                print(f"  {title}: {cell}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="+", help="JSON files in LoCoMo's shape")
    parser.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help="where embeddings are kept"
    )
    parser.add_argument("--every", type=int, default=1, help="ask every n-th question")
    asyncio.run(main(parser.parse_args()))
