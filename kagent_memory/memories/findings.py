"""Findings of an audit: values that name memories and never quote them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias, get_args

from ..records import Scope

Defect: TypeAlias = Literal[
    "exact_duplicate",
    "near_duplicate",
    "contradiction",
    "recall_loop",
    "secret",
    "personal_data",
]
DEFECTS: tuple[Defect, ...] = get_args(Defect)
MAX_FINDINGS = 1000
Progress: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect.

    Attributes:
        scope: whose memories.
        memory_ids: the evidence; of duplicates and contradictions all that are concerned.
        detail: what was found, never a word of a memory.
    """

    defect: Defect
    scope: Scope
    memory_ids: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Result of an audit.

    Attributes:
        scopes: how many were audited.
        memories: how many memories they hold, whatever their state.
        counts: defect → how many there are; of those that were looked for.
        findings: at most as many of each defect as were asked for.
    """

    scopes: int = 0
    memories: int = 0
    counts: Mapping[Defect, int] = field(default_factory=dict[Defect, int])
    findings: tuple[Finding, ...] = ()

    @property
    def is_clean(self) -> bool:
        """True if the audit found nothing."""
        return not any(self.counts.values())

    def plus(self, other: Audit, most: int) -> Audit:
        """Return both audits as one, with at most so many findings of each defect."""
        every = (*self.findings, *other.findings)
        counts = Counter(self.counts)
        counts.update(other.counts)
        by_defect = [
            [finding for finding in every if finding.defect == defect][:most] for defect in DEFECTS
        ]
        return Audit(
            scopes=self.scopes + other.scopes,
            memories=self.memories + other.memories,
            counts=dict(counts),
            findings=tuple(chain.from_iterable(by_defect)),
        )
