"""The audit of what a store holds: defects with their evidence, which names memories and never
quotes them.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import cast

from ..concurrency import run_in_thread
from ..errors import ConfigurationError
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
CANDIDATES = 10  # memories that one is compared with


async def audit_scope(
    parts: Components,
    scope: Scope,
    *,
    defects: Sequence[Defect],
    most: int,
    progress: Progress | None = None,
) -> Audit:
    """Audit one scope. Holds the ids of the scope's memories, and the contents of `PART` of them at
    a time.
    """
    run = _ScopeAudit(parts, scope, frozenset(defects), most)
    await parts.deliveries.flush()  # what was delivered a moment ago has been delivered
    ids = await parts.store.memories.kept(scope, Filter())
    known = frozenset(ids)
    for start in range(0, len(ids), PART):
        some = await parts.store.memories.whole(scope, ids[start : start + PART])
        await run.look_at(some, known)
        if progress is not None:
            progress(len(some))
    await run.compare_all()
    await run.look_beside()
    return Audit(
        scopes=1,
        memories=len(ids),
        counts={defect: run.counts[defect] for defect in defects},
        findings=tuple(
            sorted(run.findings, key=lambda one: (DEFECTS.index(one.defect), one.memory_ids))
        ),
        left_out=run.left_out,
    )


class _ScopeAudit:
    """The audit of one scope, some memories at a time.

    Attributes:
        texts: digest of what a memory says → the ids of those that say just that.
        slots: digest of a slot → the ids of those that fill it.
    """

    def __init__(
        self, parts: Components, scope: Scope, defects: frozenset[Defect], most: int
    ) -> None:
        self._parts, self._scope, self._defects, self._most = parts, scope, defects, most
        self._now = parts.clock()
        self.counts: dict[Defect, int] = defaultdict(int)
        self.findings: list[Finding] = []
        self.left_out: tuple[str, ...] = ()
        self._texts: dict[bytes, list[str]] = defaultdict(list)
        self._slots: dict[bytes, list[str]] = defaultdict(list)
        self._near: dict[str, set[str]] = defaultdict(set)
        self._opposed: set[tuple[str, str]] = set()
        self._personal: PersonalData | None = None
        if "personal_data" in defects:
            rules = parts.settings.pii
            try:
                self._personal = (
                    PersonalData()
                    if rules is None
                    else PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
                )
            except ConfigurationError as error:
                if rules is not None:
                    raise
                self.left_out = (f"personal_data but {', '.join(WITHOUT_LIBRARIES)}: {error}",)
                self._personal = PersonalData(WITHOUT_LIBRARIES)

    def _found(self, defect: Defect, ids: Iterable[str], detail: str = "") -> None:
        if defect in self._defects:
            self.counts[defect] += 1
            if self.counts[defect] <= self._most:
                finding = Finding(
                    defect=defect, scope=self._scope, memory_ids=tuple(ids), detail=detail
                )
                self.findings.append(finding)

    async def look_at(self, some: Sequence[Whole], known: frozenset[str]) -> None:
        """Check each memory by itself, and collect what to compare with others."""
        size = sum(len(one.memory.content) * (1 + len(one.revisions)) for one in some)
        if {"secret", "personal_data"} & self._defects:
            await run_in_thread(size, self._look_for_secrets, some)
        for one in some:
            successor = one.memory.superseded_by
            if successor is not None and successor not in known:
                self._found("orphan", [one.memory.id], "superseded by a memory that is gone")
        active = [one.memory for one in some if one.memory.state == "active"]
        visible = [
            one
            for one in active
            if one.pinned or one.expires_at is None or one.expires_at > self._now
        ]
        await run_in_thread(size, self._note, visible)
        if "recall_loop" in self._defects:
            suspects = [one for one in visible if one.origin in ("agent", "tool")]
            matches = await self._matches(suspects)
            size = sum(len(one.content) for of_one in matches for one in of_one)
            for memory, sources in await run_in_thread(size, self._echoes, suspects, matches):
                self._near[memory.id].update(sources)
                detail = f"what the {memory.origin} said repeats an older memory"
                self._found("recall_loop", [memory.id, *sources], detail)
        if {"near_duplicate", "contradiction"} & self._defects:
            facts = [one for one in visible if not one.verbatim]
            matches = await self._matches(facts)
            size = 10 * sum(len(one.content) for of_one in matches for one in of_one)
            await run_in_thread(size, self._note_likes, facts, matches)

    def _note(self, visible: Sequence[Memory]) -> None:
        for memory in visible:
            if not memory.usage.delivered_total and memory.created_at <= self._now - NEW:
                self._found(
                    "never_delivered", [memory.id], f"added {memory.created_at.date().isoformat()}"
                )
            self._texts[_said_by(memory)].append(memory.id)
            if not memory.verbatim and (slot := slot_of(memory)) is not None:
                self._slots[hashlib.blake2b(slot.encode(), digest_size=16).digest()].append(
                    memory.id
                )

    def _look_for_secrets(self, some: Sequence[Whole]) -> None:
        redact = self._parts.redactors.secrets
        for one in some:
            now = set(_texts_of(one.memory))
            then = {
                text
                for memory in every_state(one.memory, one.revisions)
                for text in _texts_of(memory)
            } - now
            then |= {revision.why for revision in one.revisions}
            for place, spoken in (("", now), ("in its history: ", then)):
                # a secret that only the store's own redactor knows has no name
                named = {
                    text: kinds_in(text) or (["secret"] if redact(text) != text else [])
                    for text in spoken
                }
                kinds = sorted({kind for of_text in named.values() for kind in of_text})
                if kinds:
                    self._found("secret", [one.memory.id], place + ", ".join(kinds))
                data = self._personal
                kinds = (
                    sorted({kind for text in spoken for _, _, kind in data.spans(redact(text))})
                    if data
                    else []
                )
                if kinds:
                    self._found("personal_data", [one.memory.id], place + ", ".join(kinds))

    async def _matches(self, memories: Sequence[Memory]) -> Sequence[Sequence[Memory]]:
        """For each memory the visible others that share its rarest words."""
        queries = [query_terms(memory.content) for memory in memories]
        view = self._parts.store.memories.view(self._scope, now=self._now)
        matches = [one.matches for one in await texts(view, queries, limit=CANDIDATES)]
        held = await view.memories(list({id for found in matches for id in found}))
        return [
            [held[id] for id in found if id in held and id != memory.id]
            for memory, found in zip(memories, matches, strict=True)
        ]

    def _echoes(
        self, suspects: Sequence[Memory], matches: Sequence[Sequence[Memory]]
    ) -> list[tuple[Memory, Sequence[str]]]:
        echoes: list[tuple[Memory, Sequence[str]]] = []
        for memory, matching in zip(suspects, matches, strict=True):
            same = _said_by(memory)
            older = [one for one in matching if _came_before(one, memory) and _said_by(one) != same]
            said = [Message(text=memory.content, role="agent")]
            [left], sources = mask_recalled(said, known_memories(older), names=(self._scope.user,))
            if not left.text and sources:
                echoes.append((memory, sources))
        return echoes

    def _note_likes(self, facts: Sequence[Memory], matches: Sequence[Sequence[Memory]]) -> None:
        for memory, matching in zip(facts, matches, strict=True):
            for other in matching:
                if (
                    other.verbatim
                    or not _came_before(other, memory)
                    or _said_by(other) == _said_by(memory)
                ):
                    continue
                if other.id in self._near[memory.id]:
                    continue  # a recall loop already
                same_words = _content_words(memory) == _content_words(other)
                if _contradicts(memory, other) or (
                    same_words and _denials(memory) != _denials(other)
                ):
                    self._opposed.add((other.id, memory.id))
                elif other.id in memory.links or same_words:
                    self._near[memory.id].add(other.id)
                    self._found(
                        "near_duplicate", sorted((memory.id, other.id)), "the same in other words"
                    )

    async def compare_all(self) -> None:
        """Report equal texts and slots of several values, once all memories were read."""
        for ids in self._texts.values():
            if len(ids) > 1:
                self._found(
                    "exact_duplicate", sorted(ids), f"{len(ids)} say the same, word for word"
                )
        if "contradiction" not in self._defects:
            return
        of_slots: set[tuple[str, str]] = set()
        for ids in self._slots.values():
            if len(ids) < 2:
                continue
            filled = list(
                (await self._parts.store.memories.get(self._scope, ids, now=self._now)).values()
            )
            values = await run_in_thread(
                10 * sum(len(one.content) for one in filled), _values, filled
            )
            if len(values) > 1:
                of_slots |= {(a, b) for a in ids for b in ids}
                self._found(
                    "contradiction", sorted(values), f"{len(values)} values of one attribute"
                )
        for pair in sorted(self._opposed - of_slots):
            self._found(
                "contradiction", pair, "one denies what the other says, or was to replace it"
            )

    async def look_beside(self) -> None:
        """Check the tables beside the memories for missing and surplus rows."""
        store = self._parts.store
        if "without_vector" in self._defects:
            # of the vectors that searches go by; those that callers bring lie beside them
            spaces = [
                one
                for one in await store.memories.spaces.all()
                if not one.name.startswith(EXTERNAL)
            ]
            space = next((one for one in spaces if one.state == "current"), None)
            if space is not None:
                for one in await store.memories.unembedded(
                    self._scope, space.number, limit=MAX_UNEMBEDDED, now=self._now
                ):
                    if one.state != "short_term":
                        detail = f"of the embedding space {space.name}"
                        self._found("without_vector", [one.id], detail)
        if "orphan" in self._defects:
            for id, tables in sorted((await store.memories.orphans(self._scope)).items()):
                self._found("orphan", [id], f"without its memory: {', '.join(tables)}")


def _said_by(memory: Memory) -> bytes:
    """The same for all memories that say the same word for word, turns or facts."""
    return identity(memory.content, verbatim=False, event_ids=())


def _texts_of(memory: Memory) -> Iterator[str]:
    """All texts of a memory that somebody wrote."""
    yield from (
        text for text in (memory.content, memory.subject, memory.attribute, memory.author) if text
    )
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


def _came_before(other: Memory, memory: Memory) -> bool:
    return (other.created_at, other.id) < (memory.created_at, memory.id)


def _content_words(memory: Memory) -> Sequence[str]:
    """Return the words of a memory that tell what it is about, whatever their forms and order."""
    return sorted(
        term for term in tokens(memory.content) if term not in STOP_WORDS | denying_terms()
    )


def _denials(memory: Memory) -> bool:
    """Return True if a memory denies something, or says that it ended."""
    return not denying_terms().isdisjoint(tokens(memory.content))


def _contradicts(a: Memory, b: Memory) -> bool:
    """Return True for linked memories of which the later was to replace the other, which a caller
    saved.
    """
    older, newer = sorted((a, b), key=said)
    return b.id in a.links and is_saved(older) and newer.valid_from is not None


def _values(memories: Sequence[Memory]) -> list[str]:
    """Return the ids of memories of which no two say the same word for word."""
    values: dict[bytes, str] = {}
    for memory in sorted(memories, key=lambda one: one.id):
        values.setdefault(_said_by(memory), memory.id)
    return list(values.values())
