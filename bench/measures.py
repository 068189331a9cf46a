"""Measure ranked answers against the memories that hold the evidence."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

NAMES = ("recall@5", "recall@10", "hit@5", "MRR", "nDCG@10")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one system to one question.

    Attributes:
        group: the group of the memories, such as a conversation.
        ranked: the ids of the memories, best first; repeated ids count once.
        evidence: the ids that should be found; never empty.
    """

    group: str
    category: str
    ranked: tuple[str, ...]
    evidence: frozenset[str]


def measured(answer: Answer) -> tuple[float, ...]:
    """Return the measures of `NAMES`, in their order, over the first ten."""
    top = list(dict.fromkeys(answer.ranked))[:10]
    relevant = [key in answer.evidence for key in top]
    total = len(answer.evidence)
    gain = sum(1 / math.log2(rank + 2) for rank, good in enumerate(relevant) if good)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(total, 10)))
    first = next((1 / (rank + 1) for rank, good in enumerate(relevant) if good), 0.0)
    return (
        sum(relevant[:5]) / total,
        sum(relevant) / total,
        float(any(relevant[:5])),
        first,
        gain / ideal,
    )


def means(answers: Iterable[Answer]) -> dict[str, float]:
    """Return the mean of every measure over the answers."""
    rows = [measured(answer) for answer in answers]
    if not rows:
        return {}
    return {
        name: sum(column) / len(rows)
        for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)
    }


def by(key: Callable[[Answer], str], answers: Sequence[Answer]) -> dict[str, dict[str, float]]:
    """Return the means for each value of a key."""
    groups: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        groups[key(answer)].append(answer)
    return {name: means(group) for name, group in sorted(groups.items())}


def recall_at(k: int, answers: Sequence[Answer]) -> float:
    """Return the mean share of the evidence among the first k."""
    shares = [
        len(set(answer.ranked[:k]) & answer.evidence) / len(answer.evidence) for answer in answers
    ]
    return sum(shares) / len(shares)
