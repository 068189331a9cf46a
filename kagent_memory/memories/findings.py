"""What an audit looks for and finds: values, in which memories are named and never quoted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ..errors import InvalidInput
from ..records import Scope

Defect: TypeAlias = Literal[
    "exact_duplicate",
    "near_duplicate",
    "contradiction",
    "recall_loop",
    "secret",
    "personal_data",
    "never_delivered",
    "without_vector",
    "orphan",
]
DEFECTS: tuple[Defect, ...] = get_args(Defect)
MAX_FINDINGS = 1000
Progress: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect.

    Attributes:
        scope: whose memories.
        memory_ids: the evidence; of duplicates and contradictions all that are concerned, of a
            recall loop the suspect and then what it repeats.
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
        """Both audits as one, with at most so many findings of each defect."""
        kept: dict[Defect, int] = defaultdict(int)
        findings: list[Finding] = []
        for one in (*self.findings, *other.findings):
            kept[one.defect] += 1
            if kept[one.defect] <= most:
                findings.append(one)
        names: list[Defect] = [one for one in DEFECTS if one in self.counts or one in other.counts]
        return Audit(
            scopes=self.scopes + other.scopes,
            memories=self.memories + other.memories,
            counts={name: self.counts.get(name, 0) + other.counts.get(name, 0) for name in names},
            findings=tuple(findings),
        )


def checked_defects(defects: Collection[str] | None) -> tuple[Defect, ...]:
    """The defects to look for, in our order; None: all.

    Raises:
        InvalidInput: one is unknown, or none is named.
    """
    if defects is None:
        return DEFECTS
    named = {*defects}
    if not named or not named <= {*DEFECTS}:
        raise InvalidInput(
            f"Name defects out of {', '.join(DEFECTS)}; not {sorted(map(str, named - {*DEFECTS}))}."
        )
    return tuple(defect for defect in DEFECTS if defect in named)
