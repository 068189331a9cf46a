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

from conversations import Note, Question, conversations
from measures import Answer, means
from minilm import DEFAULT_CACHE, MiniLM
from systems import DEPTH, Service

from kagent_memory import KagentMemoryService
from kagent_memory.models.llm import Answer as Schema
from kagent_memory.records import new_id

Users = Mapping[str, tuple[Sequence[Note], Sequence[Question]]]
NOBODY_SAYS = "zarf quibble oblong marmalade flux"
ADVERSARIES = (
    "another conversation's question",
    "another question of this one",
    "words nobody says",
)


class Model:
    """A model that answers every prompt with the same words, until `words` changes."""

    name = "scripted"
    words = ""

    async def complete(self, prompt: str, *, schema: type[Schema]) -> Schema:
        """Return the words in every field of the schema."""
        return schema.model_validate(dict.fromkeys(schema.model_fields, self.words))


def answers(path: Path) -> dict[tuple[str, str], str]:
    """Return the reference answers of the data by user and question."""
    return {
        (str(item["sample_id"]), question["question"]): str(question["answer"])
        for item in json.loads(path.read_text(encoding="utf-8"))
        for question in item["qa"]
        if question.get("answer")
    }


def scripts(
    users: Users, references: Mapping[tuple[str, str], str]
) -> dict[str, dict[tuple[str, str], str]]:
    """Return the answer of each model to each user's question."""
    chance = random.Random(5)
    keys = [
        (user, question.text) for user, (_, questions) in users.items() for question in questions
    ]
    others = {user: [text for other, text in keys if other != user] for user in users}
    mine = {user: [text for other, text in keys if other == user] for user in users}
    return {
        "the answer": {key: f"{key[1]} {references[key]}" for key in keys if key in references},
        ADVERSARIES[0]: {key: chance.choice(others[key[0]]) for key in keys},
        ADVERSARIES[1]: {key: chance.choice(mine[key[0]]) for key in keys},
        ADVERSARIES[2]: dict.fromkeys(keys, NOBODY_SAYS),
    }


async def measured(users: Users, path: Path, embedder: MiniLM | None, step: int) -> dict[str, str]:
    """Return recall@5 / @10 with each model, and without a model for the same questions."""
    model, rows = Model(), dict[str, str]()
    references = answers(path)
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
                for title, script in scripts(users, references).items():
                    if not script or (not rewrites and title in ADVERSARIES[1:]):
                        # the data has no answers; the same questions as the first adversary's
                        continue
                    answered = await ask_all(Service(service), users, script, model, step)
                    figures = means(answered)
                    cell = (
                        f"{figures['recall@5']:.3f} / {figures['recall@10']:.3f} of {len(answered)}"
                    )
                    rows[f"{title}, {'rewrite' if rewrites else 'without a model'}"] = cell
    return rows


async def ask_all(
    service: Service, users: Users, script: Mapping[tuple[str, str], str], model: Model, step: int
) -> list[Answer]:
    """Ask every n-th question for which the script has an answer."""
    answered: list[Answer] = []
    for user, (_, questions) in users.items():
        for question in questions[::step]:
            if (words := script.get((user, question.text))) is not None:
                model.words = words
                keys = await service.find(user, question.text)
                answered.append(Answer(user, question.category, keys, question.evidence))
    return answered


async def main(options: argparse.Namespace) -> None:
    for path in options.data:
        users: Users = {
            talk.user: (talk.notes, talk.questions) for talk in conversations(path, prefix=False)
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
