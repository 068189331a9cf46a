"""The audit of what a store holds: defects with their evidence, which names memories and never
quotes them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TypeAlias

from ..concurrency import run_in_thread
from ..ingestion.comparing import is_saved, said
from ..ingestion.echoes import mask_recalled
from ..language.tokenizer import STOP_WORDS, denying_terms, identity, query_terms, tokens
from ..records import Filter, Memory, Message, Scope
from ..redaction import kinds_in
from ..redaction.personal_data import WITHOUT_LIBRARIES, PersonalData
from ..stores.filter_match import is_visible
from ..stores.planning import slot_of
from ..stores.spaces import EXTERNAL
from ..stores.values import Whole, every_state
from .components import Components
from .findings import Audit, Defect, Finding, Progress

PART = 200
NEW = timedelta(days=1)  # what is younger was not delivered because nobody asked yet
MAX_UNEMBEDDED = 100_000
CANDIDATES = 10  # older memories that a suspect of a recall loop is compared with

Evidence: TypeAlias = tuple[Iterable[str], str]
"""The ids of the memories that a defect is about, and what was found."""
Key: TypeAlias = Callable[[Memory], Hashable]


async def audit_scope(
    parts: Components,
    scope: Scope,
    *,
    defects: Sequence[Defect],
    most: int,
    progress: Progress | None = None,
) -> Audit:
    """Audit one scope, all of whose memories are held meanwhile."""
    store = parts.store.memories
    await parts.deliveries.flush()  # what was delivered a moment ago has been delivered
    ids, every = await store.kept(scope, Filter()), list[Whole]()
    for start in range(0, len(ids), PART):
        part = await store.whole(scope, ids[start : start + PART])
        every += part
        if progress is not None:
            progress(len(part))
    contents, counts, findings = Contents(parts, scope, every), Counter[Defect](), list[Finding]()
    size = sum(len(whole.memory.content) * (1 + len(whole.revisions)) for whole in every)
    for defect in defects:
        check: Iterator[Evidence] | AsyncIterator[Evidence] = getattr(contents, defect)()
        pairs = (
            [finding async for finding in check]
            if isinstance(check, AsyncIterator)
            else await run_in_thread(size, list[Evidence], check)
        )
        counts[defect] = len(pairs)
        findings += [
            Finding(defect=defect, scope=scope, memory_ids=ids, detail=detail)
            for ids, detail in sorted((tuple(ids), detail) for ids, detail in pairs[:most])
        ]
    return Audit(scopes=1, memories=len(ids), counts=dict(counts), findings=tuple(findings))


class Contents:
    """All memories of one scope, and those of them that are visible now; a method finds the defect
    of its name.
    """

    def __init__(self, parts: Components, scope: Scope, every: Sequence[Whole]) -> None:
        self.parts, self.scope, self.all, self.now = parts, scope, every, parts.clock()
        self.visible = [whole.memory for whole in every if is_visible(whole.memory, self.now)]

    def exact_duplicate(self) -> Iterator[Evidence]:
        """Find memories that say the same word for word."""
        for same in _groups(self.visible, _text):
            if len(same) > 1:
                yield _ids(same), f"{len(same)} say the same, word for word"

    def near_duplicate(self) -> Iterator[Evidence]:
        """Find facts of the same words, and linked ones none of which was to replace the other."""
        detail = "the same in other words"
        for alike in _differing(self.visible, _statement):
            yield _ids(alike), detail
        for older, newer in _linked(self.visible):
            if not _was_to_replace(newer, older) and _words(older) != _words(newer):
                yield _ids((older, newer)), detail

    def contradiction(self) -> Iterator[Evidence]:
        """Find several values of one slot, facts one of which denies the other, and saved ones that
        a linked one was to replace.
        """
        for values in _differing(self.visible, slot_of):
            yield _ids(values), f"{len(values)} values of one attribute"
        for alike in _differing(self.visible, _words):
            if len({_denies(memory) for memory in alike}) > 1:
                yield _ids(alike), "one denies what the other says"
        for older, newer in _linked(self.visible):
            slot = slot_of(older)
            if _was_to_replace(newer, older) and (slot is None or slot != slot_of(newer)):
                yield _ids((older, newer)), "one was to replace the other, a saved one"

    def secret(self) -> Iterator[Evidence]:
        """Find secrets; one that only the store's own redactor knows has no name."""
        redact = self.parts.redactors.secrets
        return self._holding(
            lambda text: kinds_in(text) or (("secret",) if redact(text) != text else ())
        )

    def personal_data(self) -> Iterator[Evidence]:
        """Find personal data; without the setting `pii` only the kinds that no library is needed
        for.
        """
        rules, redact = self.parts.settings.pii, self.parts.redactors.secrets
        data = (
            PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
            if rules is not None
            else PersonalData(WITHOUT_LIBRARIES)
        )
        return self._holding(lambda text: [kind for _, _, kind in data.spans(redact(text))])

    def _holding(self, kinds: Callable[[str], Iterable[str]]) -> Iterator[Evidence]:
        """Find memories in any state that hold something of a kind, or did in their history."""
        for whole in self.all:
            now = {*_texts(whole.memory)}
            states = every_state(whole.memory, whole.revisions)
            then = {text for state in states for text in _texts(state)} - now
            then |= {revision.why for revision in whole.revisions}
            for place, written in (("", now), ("in its history: ", then)):
                if unmasked := {kind for text in written for kind in kinds(text)}:
                    yield [whole.memory.id], place + ", ".join(sorted(unmasked))

    def never_delivered(self) -> Iterator[Evidence]:
        """Find what is not new and was handed to nobody."""
        for memory in self.visible:
            if not memory.usage.delivered_total and memory.created_at <= self.now - NEW:
                yield [memory.id], f"added {memory.created_at.date().isoformat()}"

    async def recall_loop(self) -> AsyncIterator[Evidence]:
        """Find what agents and tools said that repeats older memories."""
        suspects = [each for each in self.visible if each.origin in ("agent", "tool")]
        view = await self.parts.store.memories.view(self.scope, now=self.now)
        queries = [query_terms(memory.content) for memory in suspects]
        matches = [answer.matches for answer in await view.texts(queries, limit=CANDIDATES)]
        visible = {memory.id: memory for memory in self.visible}

        def sources(memory: Memory, near: Sequence[Memory]) -> Sequence[str]:
            older = [other for other in near if _is_older(other, memory)]
            spoken = [Message(text=memory.content, role="agent")]
            [left], repeated = mask_recalled(spoken, older, names=(self.scope.user,))
            return () if left.text else repeated

        for memory, ids in zip(suspects, matches, strict=True):
            near = [visible[id] for id in ids if id in visible]
            size = sum(len(other.content) for other in near)
            if repeated := await run_in_thread(size, sources, memory, near):
                detail = f"what the {memory.origin} said repeats an older memory"
                yield [memory.id, *repeated], detail

    async def without_vector(self) -> AsyncIterator[Evidence]:
        """Find what lacks a vector that searches go by; those that callers bring lie beside
        them.
        """
        store = self.parts.store.memories
        for space in await store.spaces.all():
            if space.state != "current" or space.name.startswith(EXTERNAL):
                continue
            for memory in await store.unembedded(
                self.scope, space.number, limit=MAX_UNEMBEDDED, now=self.now
            ):
                if memory.state != "short_term":
                    yield [memory.id], f"of the embedding space {space.name}"

    async def orphan(self) -> AsyncIterator[Evidence]:
        """Find what lacks a memory that it belongs to."""
        known = {None, *(whole.memory.id for whole in self.all)}
        for whole in self.all:
            if whole.memory.superseded_by not in known:
                yield [whole.memory.id], "superseded by a memory that is gone"
        for id, tables in (await self.parts.store.memories.orphans(self.scope)).items():
            yield [id], f"without its memory: {', '.join(tables)}"


def _was_to_replace(newer: Memory, older: Memory) -> bool:
    """Return True if a model's replacement was refused since the older fact was saved."""
    return is_saved(older) and newer.valid_from is not None


def _is_older(other: Memory, memory: Memory) -> bool:
    """Return True if `other` came before a memory and says something else, word for word."""
    came_before = (other.created_at, other.id) < (memory.created_at, memory.id)
    return came_before and _text(other) != _text(memory)


def _groups(memories: Iterable[Memory], key: Key) -> Iterable[Sequence[Memory]]:
    """Return the memories that have something in common; those whose key is None have nothing."""
    groups: dict[Hashable, list[Memory]] = defaultdict(list)
    for memory in memories:
        if (value := key(memory)) is not None:
            groups[value].append(memory)
    return groups.values()


def _differing(memories: Iterable[Memory], key: Key) -> Iterator[Sequence[Memory]]:
    """Yield the memories that have something in common and differ: one of each text."""
    for alike in _groups(memories, key):
        differing = [same[0] for same in _groups(alike, _text)]
        if len(differing) > 1:
            yield differing


def _linked(memories: Sequence[Memory]) -> Iterator[tuple[Memory, Memory]]:
    """Yield the linked facts, the one that was said first before the other."""
    facts = {memory.id: memory for memory in memories if not memory.verbatim}
    pairs = {frozenset((id, other)) for id, fact in facts.items() for other in fact.links}
    for pair in pairs:
        if len(pair) > 1 and pair <= facts.keys():
            older, newer = sorted((facts[id] for id in pair), key=said)
            yield older, newer


def _ids(memories: Iterable[Memory]) -> Sequence[str]:
    return sorted(memory.id for memory in memories)


def _text(memory: Memory) -> bytes:
    """Return a digest that memories share which say the same word for word, turns or facts."""
    return identity(memory.content, verbatim=False)


def _words(memory: Memory) -> Sequence[str] | None:
    """Return the words that tell what a fact is about, whatever their order."""
    ignored = STOP_WORDS | denying_terms()
    words = sorted(term for term in tokens(memory.content) if term not in ignored)
    return tuple(words) or None if not memory.verbatim else None


def _denies(memory: Memory) -> bool:
    """Return True if a memory denies something, or says that it ended."""
    return not denying_terms().isdisjoint(tokens(memory.content))


def _statement(memory: Memory) -> Hashable:
    """Return what a fact is about, and whether it denies that."""
    words = _words(memory)
    return words and (words, _denies(memory))


def _texts(memory: Memory) -> Iterator[str]:
    """Yield all texts of a memory that somebody wrote."""
    yield from filter(None, (memory.content, memory.subject, memory.attribute, memory.author))
    yield from (*memory.topics, *memory.tags)
    if memory.metadata:  # a secret is known by the name that stands before it
        yield json.dumps(memory.metadata, ensure_ascii=False)
