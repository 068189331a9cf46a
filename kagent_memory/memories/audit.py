"""The audit of a store: find defects and report memory ids as evidence, never their text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ..concurrency import LONG, run_in_thread
from ..ingestion.echoes import Statements, unmasked
from ..language.tokenizer import identity
from ..records import Memory, Message, Scope
from ..redaction import texts_of
from ..stores.decisions import is_visible
from ..stores.planning import said, slot_of, was_to_replace
from ..stores.values import Whole, every_state
from .opened import Opened

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect.

    Attributes:
        scope: the scope of the memories.
        memory_ids: the evidence; for duplicates and contradictions all memories involved.
        detail: a description without any text of a memory.
    """

    defect: Defect
    scope: Scope
    memory_ids: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of an audit.

    Attributes:
        scopes: the number of scopes audited.
        memories: the number of their memories in any state.
        counts: the number of findings by defect, for the defects that were looked for.
        findings: the findings, limited for each defect.
    """

    scopes: int = 0
    memories: int = 0
    counts: Mapping[Defect, int] = field(default_factory=dict[Defect, int])
    findings: tuple[Finding, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return True if the audit found nothing."""
        return not any(self.counts.values())

    def plus(self, other: Audit, most: int) -> Audit:
        """Combine two audits, keeping at most `most` findings of each defect."""
        every = (*self.findings, *other.findings)
        counts = Counter(self.counts)
        counts.update(other.counts)
        findings = [
            finding
            for defect in DEFECTS
            for finding in [each for each in every if each.defect == defect][:most]
        ]
        return Audit(
            scopes=self.scopes + other.scopes,
            memories=self.memories + other.memories,
            counts=dict(counts),
            findings=tuple(findings),
        )


Case: TypeAlias = tuple[tuple[str, ...], str]
"""The ids of the memories that a defect is about, and what was found."""


async def audit_scope(
    memories: Opened, scope: Scope, defects: Sequence[Defect], most: int
) -> Audit:
    """Audit one scope, holding all its memories in memory."""
    wholes = [whole async for part in memories.wholes(scope) for whole in part]
    found = await run_in_thread(LONG + 1, lambda: Contents(memories, wholes).find(defects))
    return Audit(
        scopes=1,
        memories=len(wholes),
        counts={defect: len(cases) for defect, cases in found.items()},
        findings=tuple(
            Finding(defect=defect, scope=scope, memory_ids=ids, detail=detail)
            for defect, cases in found.items()
            for ids, detail in cases[:most]
        ),
    )


class Contents:
    """All memories of one scope and the visible ones among them; each method finds the defect of
    its name.
    """

    def __init__(self, memories: Opened, wholes: Sequence[Whole]) -> None:
        self.redactors = memories.redactors
        self.wholes = wholes
        now = memories.clock()
        self.visible = [whole.memory for whole in wholes if is_visible(whole.memory, now)]

    def find(self, defects: Sequence[Defect]) -> Mapping[Defect, Sequence[Case]]:
        """Find these defects."""
        return {defect: sorted(getattr(self, defect)()) for defect in defects}

    def exact_duplicate(self) -> Iterator[Case]:
        """Find memories, turns or facts, that say the same word for word."""
        for ids in _groups(self.visible, lambda memory: identity(memory.content, verbatim=False)):
            yield ids, f"{len(ids)} say the same, word for word"

    def near_duplicate(self) -> Iterator[Case]:
        """Find linked facts of which none was to replace the other."""
        for older, newer in self._linked():
            if not was_to_replace(older, newer):
                yield (older.id, newer.id), "linked as the same"

    def contradiction(self) -> Iterator[Case]:
        """Find slots with several values, and explicit saves that a linked fact was to replace."""
        for ids in _groups(self.visible, slot_of):
            yield ids, f"{len(ids)} values of one attribute"
        for older, newer in self._linked():
            slot = slot_of(older)
            if was_to_replace(older, newer) and (slot is None or slot != slot_of(newer)):
                yield (older.id, newer.id), "one was to replace the other, a saved one"

    def _linked(self) -> Iterator[Sequence[Memory]]:
        """Yield linked facts in pairs, the one that was said first before the other."""
        facts = {memory.id: memory for memory in self.visible if not memory.verbatim}
        pairs = {frozenset((id, other)) for id in facts for other in facts[id].links}
        for pair in pairs:
            if pair <= facts.keys():
                yield sorted(map(facts.__getitem__, pair), key=lambda fact: (said(fact), fact.id))

    def recall_loop(self) -> Iterator[Case]:
        """Find texts of agents and tools that repeat older memories."""
        known = Statements()
        for memory in sorted(self.visible, key=lambda memory: (memory.created_at, memory.id)):
            spoken = Message(text=memory.content, role="agent")
            if memory.origin in ("agent", "tool") and not unmasked(spoken, known):
                yield (memory.id,), f"what the {memory.origin} said repeats an older memory"
            known.add_memory(memory)

    def secret(self) -> Iterator[Case]:
        """Find secrets, by our redaction or by the store's own."""
        return self._holding(self.redactors.secret_kinds)

    def personal_data(self) -> Iterator[Case]:
        """Find personal data; without the setting `pii` only the kinds that need no library."""
        return self._holding(self.redactors.personal_kinds)

    def _holding(self, kinds: Callable[[str], Iterable[str]]) -> Iterator[Case]:
        """Find memories in any state whose text or history contains something of a kind."""
        for whole in self.wholes:
            texts = {revision.why for revision in whole.revisions}.union(
                *map(texts_of, every_state(whole.memory, whole.revisions))
            )
            if found := {kind for text in texts for kind in kinds(text)}:
                yield (whole.memory.id,), ", ".join(sorted(found))


def _groups(
    memories: Iterable[Memory], key: Callable[[Memory], Hashable]
) -> Iterator[tuple[str, ...]]:
    """Yield the ids of memories that share a key other than None."""
    groups = defaultdict[Hashable, list[str]](list)
    for memory in memories:
        groups[key(memory)].append(memory.id)
    groups.pop(None, None)
    return (tuple(ids) for ids in groups.values() if len(ids) > 1)
