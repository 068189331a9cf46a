"""The audit of a store: find defects and report memory ids as evidence, never their text."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ..concurrency import batched, run_in_thread
from ..ingestion.echoes import mask_recalled
from ..language.tokenizer import identity
from ..records import Filter, Memory, Message, Scope
from ..redaction import redact
from ..redaction.personal_data import WITHOUT_LIBRARIES, PersonalData
from ..stores.filter_match import is_visible
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
PART = 200
CANDIDATES = 10  # older memories to compare with a suspect of a recall loop


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


Evidence: TypeAlias = Iterator[tuple[Sequence[str], str]]
"""For each defect the ids of the memories that it is about, and what was found."""
Key: TypeAlias = Callable[[Memory], Hashable]


async def audit_scope(
    memories: Opened, scope: Scope, *, defects: Sequence[Defect], most: int
) -> Audit:
    """Audit one scope, holding all its memories in memory."""
    store = memories.store.memories
    ids, every = await store.kept(scope, Filter()), list[Whole]()
    for part in batched(ids, PART):
        every += await store.whole(scope, part)
    contents, counts, findings = Contents(memories, every), Counter[Defect](), list[Finding]()
    if "recall_loop" in defects:
        await contents.match(scope)
    size = sum(len(whole.memory.content) * (1 + len(whole.revisions)) for whole in every)
    for defect in dict.fromkeys(defects):
        evidence: Evidence = getattr(contents, defect)()
        cases = await run_in_thread(size, list[tuple[Sequence[str], str]], evidence)
        counts[defect] = len(cases)
        findings += [
            Finding(defect=defect, scope=scope, memory_ids=tuple(ids), detail=detail)
            for ids, detail in sorted(cases[:most])
        ]
    return Audit(scopes=1, memories=len(ids), counts=dict(counts), findings=tuple(findings))


class Contents:
    """All memories of one scope and the visible ones among them; each method finds the defect of
    its name.
    """

    def __init__(self, memories: Opened, every: Sequence[Whole]) -> None:
        self.memories, self.all, self.now = memories, every, memories.clock()
        self.visible = [whole.memory for whole in every if is_visible(whole.memory, self.now)]
        self.suspects = [each for each in self.visible if each.origin in ("agent", "tool")]
        self.matches: Sequence[Iterable[str]] = ()

    async def match(self, scope: Scope) -> None:
        """Search the store for the memories that a suspect of a recall loop may repeat."""
        view = await self.memories.store.memories.view(scope, now=self.now)
        said = [memory.content for memory in self.suspects]
        answers = await view.texts(said, limit=CANDIDATES)
        self.matches = [view.index.ids_of(answer.matches.rows) for answer in answers]

    def exact_duplicate(self) -> Evidence:
        """Find memories that say the same word for word."""
        for ids in _groups(self.visible, _text, lambda memory: memory.id):
            yield ids, f"{len(ids)} say the same, word for word"

    def near_duplicate(self) -> Evidence:
        """Find linked facts of which none was to replace the other."""
        for older, newer in self._linked():
            if not was_to_replace(older, newer):
                yield [older.id, newer.id], "linked as the same"

    def contradiction(self) -> Evidence:
        """Find slots with several values, and explicit saves that a linked fact was to replace."""
        for ids in _groups(self.visible, slot_of, _text):
            yield ids, f"{len(ids)} values of one attribute"
        for older, newer in self._linked():
            slot = slot_of(older)
            if was_to_replace(older, newer) and (slot is None or slot != slot_of(newer)):
                yield [older.id, newer.id], "one was to replace the other, a saved one"

    def _linked(self) -> Iterator[tuple[Memory, Memory]]:
        """Yield linked facts in pairs, the one that was said first before the other."""
        facts = {memory.id: memory for memory in self.visible if not memory.verbatim}
        pairs = {
            frozenset((id, other))
            for id, fact in facts.items()
            for other in fact.links
            if other in facts and other != id
        }
        for pair in pairs:
            older, newer = sorted(
                (facts[id] for id in pair), key=lambda fact: (said(fact), fact.id)
            )
            yield older, newer

    def secret(self) -> Evidence:
        """Find secrets, by our redaction or by the store's own."""
        own = self.memories.redactors.secrets
        masks = [own] if own is redact else [own, redact]
        return self._holding(lambda text: ["secret" for mask in masks if mask(text) != text])

    def personal_data(self) -> Evidence:
        """Find personal data; without the setting `pii` only the kinds that need no library."""
        redactors = self.memories.redactors
        data, secrets = redactors.personal or PersonalData(WITHOUT_LIBRARIES), redactors.secrets
        return self._holding(lambda text: [kind for _, _, kind in data.spans(secrets(text))])

    def _holding(self, kinds: Callable[[str], Iterable[str]]) -> Evidence:
        """Find memories in any state whose text or history contains something of a kind."""
        for whole in self.all:
            now = {*_texts(whole.memory)}
            states = every_state(whole.memory, whole.revisions)
            then = {text for state in states for text in _texts(state)} - now
            then |= {revision.why for revision in whole.revisions}
            for place, written in (("", now), ("in its history: ", then)):
                if unmasked := {kind for text in written for kind in kinds(text)}:
                    yield [whole.memory.id], place + ", ".join(sorted(unmasked))

    def recall_loop(self) -> Evidence:
        """Find texts of agents and tools that repeat older memories."""
        visible = {memory.id: memory for memory in self.visible}
        for memory, ids in zip(self.suspects, self.matches, strict=True):
            near = (visible[id] for id in ids if id in visible)
            older = [
                other
                for other in near
                if (other.created_at, other.id) < (memory.created_at, memory.id)
                and _text(other) != _text(memory)
            ]
            spoken = [Message(text=memory.content, role="agent")]
            [left] = mask_recalled(spoken, older)
            if not left.text:
                yield [memory.id], f"what the {memory.origin} said repeats an older memory"


def _groups(memories: Iterable[Memory], key: Key, differing: Key) -> Iterator[Sequence[str]]:
    """Yield the ids of distinct memories that share a key other than None."""
    groups = defaultdict[Hashable, dict[Hashable, str]](dict)
    for memory in memories:
        if (shared := key(memory)) is not None:
            groups[shared].setdefault(differing(memory), memory.id)
    return ([*group.values()] for group in groups.values() if len(group) > 1)


def _text(memory: Memory) -> bytes:
    """Return a digest that is equal for memories, turns or facts, with the same words."""
    return identity(memory.content, verbatim=False)


def _texts(memory: Memory) -> Iterator[str]:
    """Yield all texts of a memory that somebody wrote."""
    yield from filter(None, (memory.content, memory.subject, memory.attribute, memory.author))
    yield from (*memory.topics, *memory.tags)
    if memory.metadata:  # a secret may be recognized by the name before it
        yield json.dumps(memory.metadata, ensure_ascii=False)
