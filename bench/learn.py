"""Learn the weights of ranking from two data sets, and measure what each sign is worth.

    python bench/learn.py locomo.json realtalk.json [--keyword-only]

Every question is searched by the package's own index and ranking, with all weights at 1, so that
the signs come out as they are; a weight vector is then tried in milliseconds. The weights minimise
the cross-entropy of a softmax over a question's candidates, its evidence turns sharing the one,
with an L2 penalty; both data sets and modes count alike. The tables show recall with the defaults;
with weights learnt on the same set; nested cross-validation (each conversation with weights learnt
on all others); across data (weights learnt on the other set); with the defaults and one sign off;
and what each sign gains in development (learnt on the set shown) and across (learnt on the other).
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

from kagent_memory import RankSettings
from kagent_memory.language.tokenizer import index_terms, spelling
from kagent_memory.records import new_id
from kagent_memory.retrieval.question import Question
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
class Candidates:
    """The candidates of one question.

    Attributes:
        group: the user whose conversation it is.
        signs: a row for each candidate, a column for each sign.
        evidence: True for each candidate that is evidence.
        total: the amount of evidence.
    """

    group: str
    signs: np.ndarray
    evidence: np.ndarray
    total: int


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
            same = by_spelling.get(spelling(note.text))
            self.ids[note.key] = same or new_id()
            if same:
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

    def dated(self, question: Question) -> np.ndarray:
        windows = (
            self.index.newest(SHORTLIST, self.visible, *ends) for ends in question.windows[:3]
        )
        return np.unique(np.concatenate([NO_ROWS, *windows]))

    def nearest(self, vector: np.ndarray) -> Nearest:
        assert self.vectors is not None
        return Nearest.best(self.rows, (self.vectors @ vector).round(6), LEG)


async def searched(scope: Scope, embedder: MiniLM | None) -> list[Candidates]:
    """Search all questions of a conversation."""
    if embedder is not None:
        vectors = await embedder.embed([note.text for note in scope.notes], kind="document")
        scope.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    answers: list[Candidates] = []
    for asked in scope.talk.questions:
        question = Question.read(asked.text, NOW)
        search = Search(scopes=(), text=asked.text, question=question, now=NOW, explain=True)
        view: Any = SimpleNamespace(index=scope.index, visible=scope.visible, seen=scope.visible)
        search.view, search.dated = view, scope.dated(search.question)
        undated = search.question.undated if search.dated.size else None
        search.date_only = undated is not None
        search.terms = search.question.terms if undated is None else undated
        matches = scope.index.text(search.terms, LEG, scope.visible)
        nearest = Nearest()
        if embedder is not None:
            (vector,) = await embedder.embed([dense_text(asked.text, matches)], kind="query")
            nearest = scope.nearest(vector)
        hits, _ = rank(search, matches, Near(nearest, nearest), UNITS)
        hits.sort()
        shares = [hit.why["scores"] for hit in hits]
        # the signs are shares of the highest score, which a rare name doubles
        highest = highest_score(UNITS) * (2 if any("exact" in scores for scores in shares) else 1)
        signs = np.array([[highest * scores.get(name, 0.0) for name in SIGNS] for scores in shares])
        signs = signs.reshape(-1, len(SIGNS))
        evidence = {scope.ids[key] for key in asked.evidence}
        ids = scope.index.ids_of(np.array([hit.row for hit in hits], np.int64))
        is_evidence = np.array([id in evidence for id in ids], bool)
        answers.append(Candidates(scope.talk.user, signs, is_evidence, len(evidence)))
    return answers


def recall(answers: Sequence[Candidates], weights: np.ndarray) -> np.ndarray:
    """Return the mean recall@5 and @10."""
    shares: list[tuple[float, float]] = []
    for answer in answers:
        best = answer.evidence[np.argsort(-(answer.signs @ weights), kind="stable")[:10]]
        shares.append((best[:5].sum() / answer.total, best.sum() / answer.total))
    return np.array(shares).mean(axis=0)


def learn(parts: Sequence[Sequence[Candidates]], off: int | None = None) -> np.ndarray:
    """Return the weights that fit all parts alike, found by Adam over all questions at once; none
    is below 0, and that of the sign `off` is 0.
    """
    packs = [_pack([answer for answer in part if answer.evidence.any()]) for part in parts]
    used = (np.arange(len(SIGNS)) != off).astype(float)
    weights, first, second = used, np.zeros(len(SIGNS)), np.zeros(len(SIGNS))
    for step in range(1, STEPS + 1):
        slope = 2 * PENALTY * weights
        for signs, target, numbers, starts in packs:
            scores = signs @ weights
            scores = np.exp(scores - np.maximum.reduceat(scores, starts)[numbers])
            share = scores / np.add.reduceat(scores, starts)[numbers]
            slope = slope + signs.T @ (share - target) / len(starts) / len(packs)
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        pace = RATE * (1 - 0.9 * step / STEPS)
        weights = weights - pace * (first / (1 - 0.9**step)) / (
            np.sqrt(second / (1 - 0.99**step)) + 1e-8
        )
        weights = np.maximum(weights, 0.0) * used
    return weights


def _pack(answers: Sequence[Candidates]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    sizes = [len(answer.evidence) for answer in answers]
    target = np.concatenate([answer.evidence / answer.evidence.sum() for answer in answers])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return (
        np.concatenate([answer.signs for answer in answers]),
        target,
        np.repeat(np.arange(len(sizes)), sizes),
        starts,
    )


Parts = dict[tuple[str, str], list[Candidates]]


def held_out(parts: Parts, name: str) -> dict[str, np.ndarray]:
    """Return the recall of each mode on one data set, each conversation with weights learnt
    without it.
    """
    totals: dict[str, np.ndarray] = {}
    modes = [mode for data, mode in parts if data == name]
    groups = {answer.group for answer in parts[name, modes[0]]}
    for group in sorted(groups):
        rest = [
            [answer for answer in part if data != name or answer.group != group]
            for (data, _), part in parts.items()
        ]
        weights = learn(rest)
        for mode in modes:
            mine = [answer for answer in parts[name, mode] if answer.group == group]
            totals[mode] = totals.get(mode, np.zeros(2)) + recall(mine, weights) * len(mine)
    return {mode: total / len(parts[name, mode]) for mode, total in totals.items()}


def show(parts: Parts) -> None:
    names = list(dict.fromkeys(name for name, _ in parts))
    defaults = np.array([getattr(DEFAULTS, name) for name in SIGNS])
    joint = learn(list(parts.values()))
    alone = {
        name: learn([part for (data, _), part in parts.items() if data == name]) for name in names
    }
    out = {name: held_out(parts, name) for name in names}

    def row(title: str, figures: dict[tuple[str, str], np.ndarray]) -> None:
        cells = [f"{value[0]:.3f} / {value[1]:.3f}" for value in figures.values()]
        print("| " + " | ".join((title, *cells)) + " |", flush=True)

    print("| recall@5 / @10 | " + " | ".join(f"{name}, {mode}" for name, mode in parts) + " |")
    print("|---" * (len(parts) + 1) + "|")
    row("the defaults", {key: recall(part, defaults) for key, part in parts.items()})
    row("learnt on both, shown on both", {key: recall(part, joint) for key, part in parts.items()})
    row("held out by conversation", {key: out[key[0]][key[1]] for key in parts})
    row("learnt on the same set", {key: recall(part, alone[key[0]]) for key, part in parts.items()})
    others = {name: next(other for other in names if other != name) for name in names}
    row(
        "learnt on the other set",
        {key: recall(part, alone[others[key[0]]]) for key, part in parts.items()},
    )
    for place, name in enumerate(SIGNS):
        off = defaults * (np.arange(len(SIGNS)) != place)
        row(f"without `{name}`", {key: recall(part, off) for key, part in parts.items()})
    print("\n| weight | default | " + " | ".join(("both", *names)) + " |")
    print("|---" * (len(names) + 3) + "|")
    for place, name in enumerate(SIGNS):
        cells = [
            f"{weights[place] / weights[:3].sum() * defaults[:3].sum():.2f}"
            for weights in (joint, *alone.values())
        ]
        print("| " + " | ".join((f"`{name}`", f"{defaults[place]:.2f}", *cells)) + " |")
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
                answer for talk in talks for answer in await searched(Scope(talk), embedder)
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
