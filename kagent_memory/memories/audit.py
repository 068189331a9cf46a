"""The audit of what a store holds: defects with their evidence, which names memories and never
quotes them.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

from ..concurrency import run_in_thread
from ..ingestion.consolidation.similarity import is_saved, said, slot_of
from ..ingestion.echoes import known_memories, mask_recalled
from ..language.tokenizer import STOP_WORDS, denying_terms, identity, query_terms, tokens
from ..records import Filter, Memory, Message, Scope
from ..redaction import kinds_in
from ..redaction.personal_data import WITHOUT_LIBRARIES, PersonalData
from ..stores.base import EXTERNAL
from ..stores.values import Whole, every_state
from ..stores.view import texts
from .components import Components
from .findings import DEFECTS, Audit, Defect, Finding, Progress

PART = 200
NEW = timedelta(days=1)  # what is younger was not delivered because nobody asked yet
MAX_UNEMBEDDED = 100_000
CANDIDATES = 10  # older memories that a suspect of a recall loop is compared with


async def audit_scope(
    parts: Components,
    scope: Scope,
    *,
    defects: Sequence[Defect],
    most: int,
    progress: Progress | None = None,
) -> Audit:
    """Audit one scope. Holds the digests of all its memories, and the contents of `PART` at a
    time.
    """
    store, now = parts.store.memories, parts.clock()
    report = _Report(scope, defects, most)
    await parts.deliveries.flush()  # what was delivered a moment ago has been delivered
    ids = await store.kept(scope, Filter())
    known = frozenset(ids)
    shapes: list[_Shape] = []
    for start in range(0, len(ids), PART):
        some = await store.whole(scope, ids[start : start + PART])
        shapes += await _look_at(parts, some, known, report, now)
        if progress is not None:
            progress(len(some))
    _compare(shapes, report)
    await _look_beside(parts, report, now)
    findings = sorted(report.findings, key=lambda one: (DEFECTS.index(one.defect), one.memory_ids))
    counts: dict[Defect, int] = {defect: report.counts[defect] for defect in defects}
    return Audit(scopes=1, memories=len(ids), counts=counts, findings=tuple(findings))


async def _look_at(
    parts: Components, some: Sequence[Whole], known: Set[str], report: _Report, now: datetime
) -> list[_Shape]:
    """Report what is wrong with each memory by itself; return what is compared of the visible."""
    size = sum(len(one.memory.content) * (1 + len(one.revisions)) for one in some)
    if report.wants("secret", "personal_data"):
        await run_in_thread(size, _look_for_secrets, parts, some, report)
    visible: list[Memory] = []
    for memory in (one.memory for one in some):
        if memory.superseded_by is not None and memory.superseded_by not in known:
            report.add("orphan", [memory.id], "superseded by a memory that is gone")
        if not _is_visible(memory, now):
            continue
        visible.append(memory)
        if not memory.usage.delivered_total and memory.created_at <= now - NEW:
            added = memory.created_at.date().isoformat()
            report.add("never_delivered", [memory.id], f"added {added}")
    if report.wants("recall_loop"):
        await _look_for_loops(parts, visible, report, now)
    return await run_in_thread(size, lambda: [_shape(memory) for memory in visible])


@dataclass(slots=True)
class _Report:
    """The findings of one scope.

    Attributes:
        echoes: the ids of what repeats older memories.
    """

    scope: Scope
    defects: Sequence[Defect]
    most: int
    counts: Counter[Defect] = field(default_factory=Counter[Defect])
    findings: list[Finding] = field(default_factory=list[Finding])
    echoes: set[str] = field(default_factory=set[str])

    def wants(self, *defects: Defect) -> bool:
        """Return True if one of these is looked for."""
        return not {*defects}.isdisjoint(self.defects)

    def add(self, defect: Defect, ids: Iterable[str], detail: str) -> None:
        """Count a finding, and keep the first `most` of its defect."""
        if defect not in self.defects:
            return
        self.counts[defect] += 1
        if self.counts[defect] <= self.most:
            self.findings.append(
                Finding(defect=defect, scope=self.scope, memory_ids=tuple(ids), detail=detail)
            )

    def add_group(self, defect: Defect, ids: Collection[str], detail: str) -> None:
        """Count a finding about several memories together, if they are several."""
        if len(ids) > 1:
            self.add(defect, sorted(ids), detail)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is compared of a memory once it is no longer at hand.

    Attributes:
        text: digest of what it says, word for word.
        words: digest of the words that tell what it is about, whatever their order; None: there
            are none, or it is a turn.
        denies: it denies something, or says that it ended.
        slot: digest of the attribute that it states.
        links: the ids of those that it is linked with.
        said_at: when it was said.
        is_saved: only an explicit call may change it.
        replaces: it was to take the place of another one.
    """

    id: str
    text: bytes
    words: bytes | None
    denies: bool
    slot: bytes | None
    links: Sequence[str]
    said_at: datetime
    is_saved: bool
    replaces: bool


def _shape(memory: Memory) -> _Shape:
    terms, fact = tokens(memory.content), not memory.verbatim
    content = sorted(term for term in terms if term not in STOP_WORDS | denying_terms())
    slot = slot_of(memory) if fact else None
    return _Shape(
        id=memory.id,
        text=_text_of(memory),
        words=_digest("\0".join(content)) if content and fact else None,
        denies=not denying_terms().isdisjoint(terms),
        slot=_digest(slot) if slot is not None else None,
        links=memory.links if fact else (),
        said_at=said(memory),
        is_saved=is_saved(memory),
        replaces=memory.valid_from is not None,
    )


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _is_visible(memory: Memory, now: datetime) -> bool:
    lives = memory.pinned or memory.expires_at is None or memory.expires_at > now
    return memory.state == "active" and lives


def _compare(shapes: Sequence[_Shape], report: _Report) -> None:
    """Report equal texts, equal facts in other words, and facts that contradict each other."""
    same: dict[bytes, list[str]] = defaultdict(list)
    by_slot: dict[bytes, dict[bytes, str]] = defaultdict(dict)
    by_words: dict[bytes, dict[bytes, _Shape]] = defaultdict(dict)
    for shape in shapes:
        same[shape.text].append(shape.id)
        if shape.slot is not None:
            by_slot[shape.slot].setdefault(shape.text, shape.id)
        if shape.words is not None and shape.id not in report.echoes:
            by_words[shape.words].setdefault(shape.text, shape)
    for ids in same.values():
        report.add_group("exact_duplicate", ids, f"{len(ids)} say the same, word for word")
    for values in by_slot.values():
        detail = f"{len(values)} values of one attribute"
        report.add_group("contradiction", values.values(), detail)
    for alike in by_words.values():
        denying = [one.id for one in alike.values() if one.denies]
        others = [one.id for one in alike.values() if not one.denies]
        if denying and others:
            detail = "one denies what the other says"
            report.add_group("contradiction", (*denying, *others), detail)
        report.add_group("near_duplicate", denying, "the same in other words")
        report.add_group("near_duplicate", others, "the same in other words")
    _compare_linked(shapes, report)


def _compare_linked(shapes: Sequence[_Shape], report: _Report) -> None:
    """Report linked facts of other words, which say the same or were to replace each other."""
    by_id = {shape.id: shape for shape in shapes}
    pairs = {
        frozenset((one.id, other))
        for one in by_id.values()
        for other in one.links
        if other in by_id and other != one.id
    }
    for pair in sorted(map(sorted, pairs)):
        older, newer = sorted((by_id[id] for id in pair), key=lambda one: one.said_at)
        if older.is_saved and newer.replaces:
            if older.slot is None or older.slot != newer.slot:  # told as values of one attribute
                report.add("contradiction", pair, "one was to replace the other, a saved one")
        elif older.words != newer.words and report.echoes.isdisjoint(pair):
            report.add("near_duplicate", pair, "the same in other words")


def _look_for_secrets(parts: Components, some: Sequence[Whole], report: _Report) -> None:
    """Report secrets and personal data in memories and in their history.

    Without the setting `pii` only those kinds of personal data that no library is needed for.
    """
    rules, redact = parts.settings.pii, parts.redactors.secrets
    data = (
        PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
        if rules is not None
        else PersonalData(WITHOUT_LIBRARIES)
    )
    for one in some:
        now = {*_texts_of(one.memory)}
        states = every_state(one.memory, one.revisions)
        then = {text for memory in states for text in _texts_of(memory)} - now
        then |= {revision.why for revision in one.revisions}
        for place, spoken in (("", now), ("in its history: ", then)):
            secrets: set[str] = set()
            personal: set[str] = set()
            for text in spoken:
                masked = redact(text)
                # a secret that only the store's own redactor knows has no name
                secrets.update(kinds_in(text) or (("secret",) if masked != text else ()))
                personal.update(kind for _, _, kind in data.spans(masked))
            if secrets:
                report.add("secret", [one.memory.id], place + ", ".join(sorted(secrets)))
            if personal:
                report.add("personal_data", [one.memory.id], place + ", ".join(sorted(personal)))


async def _look_for_loops(
    parts: Components, visible: Sequence[Memory], report: _Report, now: datetime
) -> None:
    """Report what agents and tools said that repeats older memories."""
    suspects = [one for one in visible if one.origin in ("agent", "tool")]
    view = parts.store.memories.view(report.scope, now=now)
    queries = [query_terms(memory.content) for memory in suspects]
    matches = [one.matches for one in await texts(view, queries, limit=CANDIDATES)]
    held = await view.memories(list({id for found in matches for id in found}))

    def echoes() -> Iterator[tuple[Memory, Sequence[str]]]:
        for memory, found in zip(suspects, matches, strict=True):
            older = [held[id] for id in found if id in held and _is_older(held[id], memory)]
            spoken = [Message(text=memory.content, role="agent")]
            [left], sources = mask_recalled(
                spoken, known_memories(older), names=(report.scope.user,)
            )
            if not left.text and sources:
                yield memory, sources

    size = CANDIDATES * sum(len(one.content) for one in held.values())
    for memory, sources in await run_in_thread(size, lambda: [*echoes()]):
        report.echoes.add(memory.id)
        detail = f"what the {memory.origin} said repeats an older memory"
        report.add("recall_loop", [memory.id, *sources], detail)


def _is_older(other: Memory, memory: Memory) -> bool:
    """Return True if `other` came before a memory and says something else, word for word."""
    came_before = (other.created_at, other.id) < (memory.created_at, memory.id)
    return came_before and _text_of(other) != _text_of(memory)


def _text_of(memory: Memory) -> bytes:
    """Return a digest that memories share which say the same word for word, turns or facts."""
    return identity(memory.content, verbatim=False)


async def _look_beside(parts: Components, report: _Report, now: datetime) -> None:
    """Report missing vectors, and rows without their memory."""
    store = parts.store.memories
    if report.wants("without_vector"):
        # of the vectors that searches go by; those that callers bring lie beside them
        for space in await store.spaces.all():
            if space.state != "current" or space.name.startswith(EXTERNAL):
                continue
            lacking = await store.unembedded(
                report.scope, space.number, limit=MAX_UNEMBEDDED, now=now
            )
            for memory in lacking:
                if memory.state != "short_term":
                    detail = f"of the embedding space {space.name}"
                    report.add("without_vector", [memory.id], detail)
    if report.wants("orphan"):
        for id, tables in sorted((await store.orphans(report.scope)).items()):
            report.add("orphan", [id], f"without its memory: {', '.join(tables)}")


def _texts_of(memory: Memory) -> Iterator[str]:
    """Yield all texts of a memory that somebody wrote."""
    yield from filter(None, (memory.content, memory.subject, memory.attribute, memory.author))
    yield from (*memory.topics, *memory.tags)
    left: list[object] = [memory.metadata]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            for name, inner in cast("Mapping[str, object]", value).items():
                # a secret is known by the name that stands before it
                yield from (name, f"{name}={inner}") if isinstance(inner, str) else (name,)
                left += () if isinstance(inner, str) else (inner,)
        elif isinstance(value, (list, tuple)):
            left += cast("Sequence[object]", value)
