"""What a hit's `relevance` is worth: how many hits with so much of it were evidence, and what `nothing_below` costs.

    python bench/relevance.py locomo.json realtalk.json [--keyword-only]

Beside each conversation's own questions it is asked some of the other conversations', about things never said in it:
as they are, and with its own people's names put in place of theirs, which makes them hard to tell from its own.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from conversations import Conversation, conversations
from learn import DEFAULTS, NOW, Scope
from minilm import DEFAULT_CACHE, MiniLM

from kagent_memory.language.tokenizer import query_terms
from kagent_memory.retrieval.query.completion import split
from kagent_memory.retrieval.ranking import bare_dates, dense_text, join, rank, shortlist

FIRST = 5
NEVER_SAID = 60  # questions a conversation
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
FLOORS = (0.05, 0.06, 0.07, 0.08, 0.1, 0.15, 0.2)
Hits = list[tuple[str, float]]


async def first_hits(scope: Scope, embedder: MiniLM | None, question: str) -> Hits:
    """The first five hits, each with its relevance."""
    dated = scope.dated(question)
    rest = bare_dates(question) if dated else None
    terms = query_terms(question if rest is None else rest)
    matches = scope.index.search(terms, scope.index.visible(NOW), DEFAULTS.text_limit)
    nearest: list[list[tuple[str, float]]] = []
    full: list[list[tuple[str, float]]] | None = None
    if embedder is not None:
        texts = [question, *(dense_text(sentence, matches) for sentence in split(question))]
        nearest = [scope.nearest(vector) for vector in await embedder.embed(texts, kind="query")]
        full, nearest = nearest[:1], nearest[1:]
    candidates = join(terms, matches, nearest, full)
    wanted = list(dict.fromkeys((*shortlist(candidates), *dated)))
    features = scope.index.places(wanted, DEFAULTS.reach, NOW)
    found = rank(question, candidates, features, now=NOW, dated=dated, date_only=rest is not None)
    return [(hit.id, found.relevance(hit.id)) for hit in found.ranked[:FIRST]]


def never_said(talk: Conversation, others: Sequence[Conversation], chance: random.Random) -> list[list[str]]:
    """Questions of the other conversations; once more, about this one's people."""
    mine = sorted({note.author.split()[0] for note in talk.notes})
    theirs = sorted({note.author.split()[0] for other in others for note in other.notes})
    asked = [one.question for other in others for one in other.asked if other.user != talk.user]
    plain = chance.sample(asked, NEVER_SAID)
    named: list[str] = []
    for question in plain:
        for name in theirs:
            question = question.replace(name, chance.choice(mine))
        named.append(question)
    return [plain, named]


async def measured(
    talks: Sequence[Conversation], others: Sequence[Conversation], embedder: MiniLM | None
) -> tuple[list[tuple[Hits, set[str]]], list[list[Hits]]]:
    """The hits and the evidence of each question, and the hits of both kinds of those about things never said."""
    told: list[tuple[Hits, set[str]]] = []
    untold: list[list[Hits]] = [[], []]
    chance = random.Random(3)
    for talk in talks:
        scope = Scope(talk)
        if embedder is not None:
            vectors = await embedder.embed([note.text for note in scope.notes], kind="document")
            scope.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        told += [
            (await first_hits(scope, embedder, one.question), {scope.ids[key] for key in one.evidence})
            for one in talk.asked
        ]
        for hits, questions in zip(untold, never_said(talk, others, chance), strict=True):
            hits += [await first_hits(scope, embedder, question) for question in questions]
    return told, untold


def show(told: Sequence[tuple[Hits, set[str]]], untold: Sequence[Sequence[Hits]]) -> None:
    hits = np.array([(relevance, id in evidence) for found, evidence in told for id, relevance in found])
    cells = (hits[hits[:, 0] >= share, 1] for share in SHARES)
    print(
        "evidence among hits at >= x:",
        *(f"{x}: {of.mean():.2f} of {len(of)};" for x, of in zip(SHARES, cells, strict=True)),
    )
    for floor in FLOORS:
        plain, named = (
            np.mean([max((relevance for _, relevance in found), default=0.0) < floor for found in hits])
            for hits in untold
        )
        lost = [
            sum(id in evidence for id, _ in found) / len(evidence)
            for found, evidence in told
            if max((relevance for _, relevance in found), default=0.0) < floor
        ]
        cost = sum(lost) / len(told)
        print(
            f"nothing_below={floor}: nothing for {plain:.2f} of what was never said,",
            f"{named:.2f} with this conversation's names; recall@5 -{cost:.3f}",
        )


async def main(options: argparse.Namespace) -> None:
    sets = {path.stem: conversations(path, prefix=False) for path in options.data}
    everyone = [talk for talks in sets.values() for talk in talks]
    embedders: dict[str, Any] = (
        {"keyword": None} if options.keyword_only else {"keyword": None, "hybrid": MiniLM(options.cache)}
    )
    for mode, embedder in embedders.items():
        for name, talks in sets.items():
            print(f"\n{name}, {mode}")
            show(*await measured(talks, everyone, embedder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="JSON files in LoCoMo's shape")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where embeddings are kept")
    parser.add_argument("--keyword-only", action="store_true", help="without vectors")
    asyncio.run(main(parser.parse_args()))
