"""Learn the weights of ranking over several data sets at once, and what each sign is worth.

    python bench/learn.py locomo.json realtalk.json [--keyword-only]

Every question is searched by the package's own index and ranking, with all weights at 1, so that
the signs come out as they are; a weight vector is then tried in milliseconds. The weights minimise
the cross-entropy of a softmax over a question's candidates, its evidence turns sharing the one,
with an L2 penalty; both data sets and modes count alike. Shown: the defaults; learnt and shown on
the same; nested cross-validation (each conversation by weights learnt on all others); cross-data
(learnt on one set, shown on the other); the defaults with each sign off; and what each sign gains
in development (with it and without, learnt on the set that is shown) and across (learnt on the
other).
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from conversations import Conversation, Note, conversations
from minilm import DEFAULT_CACHE, MiniLM

from kagent_memory.language.tokenizer import index_terms, spelling
from kagent_memory.records import new_id
from kagent_memory.retrieval.question import Question as Asked
from kagent_memory.retrieval.ranking import RankSettings
from kagent_memory.retrieval.ranking.rank import highest_score, rank
from kagent_memory.retrieval.ranking.table import Near, dense_text
from kagent_memory.retrieval.search import LEG, SHORTLIST, Search
from kagent_memory.stores.columns import NO_ROWS
from kagent_memory.stores.index import Entry, ScopeIndex
from kagent_memory.stores.postings import packed
from kagent_memory.stores.vectors import Nearest

SIGNS = ("match", "window", "session", "answer", "time", "author", "substance")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEFAULTS = RankSettings()
UNITS = replace(DEFAULTS, **dict.fromkeys(SIGNS, 1.0))
PENALTY, STEPS, RATE = 1e-3, 150, 0.25


@dataclass(frozen=True)
class Question:
    """One question's candidates: their signs (a row each), whether each is evidence, and how much
    evidence there is.
    """

    group: str
    signs: np.ndarray
    evidence: np.ndarray
    wanted: int


class Scope:
    """One conversation, indexed as a store does it."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self.ids: dict[str, str] = {}
        self.notes: list[Note] = []
        by_spelling: dict[str, str] = {}
        places: list[Entry] = []
        positions: dict[str, int] = {}
        for note in talk.notes:
            known = by_spelling.get(spelling(note.text))
            self.ids[note.key] = known or new_id()
            if known:
                continue
            by_spelling[spelling(note.text)] = self.ids[note.key]
            position = positions[note.session] = positions.get(note.session, -1) + 1
            self.notes.append(note)
            entry = Entry(
                id=self.ids[note.key],
                session_id=note.session,
                position=position,
                author=note.author,
                created_at=NOW,
                happened_at=note.at,
                chars=len(note.text),
                asks=note.text.rstrip().endswith("?"),
                postings=packed(index_terms(note.text, note.author)),
            )
            places.append(entry)
        self.index = ScopeIndex().updated(places)
        self.visible = self.index.visible(NOW)
        rows = [self.index.row_of(self.ids[note.key]) for note in self.notes]
        self.rows = np.array(rows, np.int64)
        self.vectors: np.ndarray | None = None

    def dated(self, question: Asked) -> np.ndarray:
        windows = (
            self.index.newest(SHORTLIST, self.visible, *ends) for ends in question.windows[:3]
        )
        return np.unique(np.concatenate([NO_ROWS, *windows]))

    def nearest(self, vector: np.ndarray) -> Nearest:
        assert self.vectors is not None
        return Nearest.best(self.rows, (self.vectors @ vector).round(6), LEG)


async def asked(scope: Scope, embedder: MiniLM | None) -> list[Question]:
    """All questions of a conversation, searched."""
    if embedder is not None:
        vectors = await embedder.embed([note.text for note in scope.notes], kind="document")
        scope.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    questions: list[Question] = []
    for one in scope.talk.asked:
        question = Asked.read(one.question, NOW)
        search = Search(scopes=(), text=one.question, question=question, now=NOW, explain=True)
        view: Any = SimpleNamespace(index=scope.index, visible=scope.visible, seen=scope.visible)
        search.view, search.dated = view, scope.dated(search.question)
        undated = search.question.undated if search.dated.size else None
        search.date_only = undated is not None
        search.terms = search.question.terms if undated is None else undated
        matches = scope.index.text(search.terms, LEG, scope.visible)
        nearest = Nearest()
        if embedder is not None:
            (vector,) = await embedder.embed([dense_text(one.question, matches)], kind="query")
            nearest = scope.nearest(vector)
        found, _ = rank(search, matches, Near(nearest, nearest), UNITS)
        found.sort()
        added = [hit.why["scores"] for hit in found]
        # the signs are shares of the highest score, which a rare name doubles
        whole = highest_score(UNITS) * (2 if any("exact" in scores for scores in added) else 1)
        signs = np.array([[whole * scores.get(name, 0.0) for name in SIGNS] for scores in added])
        signs = signs.reshape(-1, len(SIGNS))
        evidence = {scope.ids[key] for key in one.evidence}
        answers = scope.index.ids_of(np.array([hit.row for hit in found], np.int64))
        held = np.array([id in evidence for id in answers], bool)
        questions.append(Question(scope.talk.user, signs, held, len(evidence)))
    return questions


def recall(questions: Sequence[Question], weights: np.ndarray) -> np.ndarray:
    """Mean recall@5 and @10."""
    shares: list[tuple[float, float]] = []
    for one in questions:
        best = one.evidence[np.argsort(-(one.signs @ weights), kind="stable")[:10]]
        shares.append((best[:5].sum() / one.wanted, best.sum() / one.wanted))
    return np.array(shares).mean(axis=0)


def learn(parts: Sequence[Sequence[Question]], off: int | None = None) -> np.ndarray:
    """The weights that fit all parts alike, by Adam on the whole of them; none falls below 0, that
    of `off` is 0.
    """
    packs = [_pack([one for one in part if one.evidence.any()]) for part in parts]
    used = (np.arange(len(SIGNS)) != off).astype(float)
    weights, first, second = used, np.zeros(len(SIGNS)), np.zeros(len(SIGNS))
    for step in range(1, STEPS + 1):
        slope = 2 * PENALTY * weights
        for signs, wanted, numbers, starts in packs:
            scores = signs @ weights
            scores = np.exp(scores - np.maximum.reduceat(scores, starts)[numbers])
            share = scores / np.add.reduceat(scores, starts)[numbers]
            slope = slope + signs.T @ (share - wanted) / len(starts) / len(packs)
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        pace = RATE * (1 - 0.9 * step / STEPS)
        weights = weights - pace * (first / (1 - 0.9**step)) / (
            np.sqrt(second / (1 - 0.99**step)) + 1e-8
        )
        weights = np.maximum(weights, 0.0) * used
    return weights


def _pack(questions: Sequence[Question]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    sizes = [len(one.evidence) for one in questions]
    wanted = np.concatenate([one.evidence / one.evidence.sum() for one in questions])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return (
        np.concatenate([one.signs for one in questions]),
        wanted,
        np.repeat(np.arange(len(sizes)), sizes),
        starts,
    )


Parts = dict[tuple[str, str], list[Question]]


def held_out(parts: Parts, name: str) -> dict[str, np.ndarray]:
    """Recall of each mode on one data set, each conversation by weights learnt without it."""
    totals: dict[str, np.ndarray] = {}
    modes = [mode for data, mode in parts if data == name]
    groups = {one.group for one in parts[name, modes[0]]}
    for group in sorted(groups):
        rest = [
            [one for one in part if data != name or one.group != group]
            for (data, _), part in parts.items()
        ]
        weights = learn(rest)
        for mode in modes:
            mine = [one for one in parts[name, mode] if one.group == group]
            totals[mode] = totals.get(mode, np.zeros(2)) + recall(mine, weights) * len(mine)
    return {mode: total / len(parts[name, mode]) for mode, total in totals.items()}


def show(parts: Parts) -> None:
    names = list(dict.fromkeys(name for name, _ in parts))
    given = np.array([getattr(DEFAULTS, name) for name in SIGNS])
    both = learn(list(parts.values()))
    alone = {
        name: learn([part for (data, _), part in parts.items() if data == name]) for name in names
    }
    out = {name: held_out(parts, name) for name in names}

    def row(title: str, figures: dict[tuple[str, str], np.ndarray]) -> None:
        cells = [f"{value[0]:.3f} / {value[1]:.3f}" for value in figures.values()]
        print("| " + " | ".join((title, *cells)) + " |", flush=True)

    print("| recall@5 / @10 | " + " | ".join(f"{name}, {mode}" for name, mode in parts) + " |")
    print("|---" * (len(parts) + 1) + "|")
    row("the defaults", {key: recall(part, given) for key, part in parts.items()})
    row("learnt on both, shown on both", {key: recall(part, both) for key, part in parts.items()})
    row("held out by conversation", {key: out[key[0]][key[1]] for key in parts})
    row("learnt on the same set", {key: recall(part, alone[key[0]]) for key, part in parts.items()})
    others = {name: next(other for other in names if other != name) for name in names}
    row(
        "learnt on the other set",
        {key: recall(part, alone[others[key[0]]]) for key, part in parts.items()},
    )
    for place, name in enumerate(SIGNS):
        off = given * (np.arange(len(SIGNS)) != place)
        row(f"without `{name}`", {key: recall(part, off) for key, part in parts.items()})
    print("\n| weight | default | " + " | ".join(("both", *names)) + " |")
    print("|---" * (len(names) + 3) + "|")
    for place, name in enumerate(SIGNS):
        cells = [
            f"{one[place] / one[:3].sum() * given[:3].sum():.2f}" for one in (both, *alone.values())
        ]
        print("| " + " | ".join((f"`{name}`", f"{given[place]:.2f}", *cells)) + " |")
    print(
        "\n| what a sign gains @5: development − across | "
        + " | ".join(f"{name}, {mode}" for name, mode in parts)
        + " |"
    )
    print("|---" * (len(parts) + 1) + "|")
    for place, sign in enumerate(SIGNS):
        lesser = {
            name: learn([part for (data, _), part in parts.items() if data == name], off=place)
            for name in names
        }
        cells = list[str]()
        for (name, _), part in parts.items():
            here, across = (
                recall(part, alone[data])[0] - recall(part, lesser[data])[0]
                for data in (name, others[name])
            )
            cells.append(f"{here:+.3f} − {across:+.3f} = {here - across:+.3f}")
        print("| " + " | ".join((f"`{sign}`", *cells)) + " |", flush=True)


async def main(options: argparse.Namespace) -> None:
    assert {field.name for field in fields(RankSettings)} >= set(SIGNS)
    parts: Parts = {}
    embedders: dict[str, Any] = {"keyword": None}
    if not options.keyword_only:
        embedders["hybrid"] = MiniLM(options.cache)
    for path in options.data:
        for mode, embedder in embedders.items():
            talks = conversations(path, prefix=False)
            parts[path.stem, mode] = [
                one for talk in talks for one in await asked(Scope(talk), embedder)
            ]
    show(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs=2, help="two JSON files in LoCoMo's shape")
    parser.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help="where embeddings are kept"
    )
    parser.add_argument("--keyword-only", action="store_true", help="without vectors")
    asyncio.run(main(parser.parse_args()))
