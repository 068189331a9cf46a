"""New facts and what is near them become changes: a pure plan around one model call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias

from ..guard import differences
from ..llm import Llm
from ..records import Change, Memory, new_id
from .alike import identity_of, keeps, near_identical, related, same_slot, upserts
from .decide import Decision, decided

_Kind: TypeAlias = Literal["add", "update", "supersede"]
_WHY: dict[_Kind, str] = {
    "add": "",
    "update": "The same was said with more detail.",
    "supersede": "A later value of the same attribute was said.",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How new facts enter a scope.

    Attributes:
        changes: in the order they must be applied; those of one decision share a group.
        reinforced: ids of memories that were met again.
        vetoed: how many decisions of the model the difference guard turned into plain additions or supersessions.
    """

    changes: tuple[Change, ...] = ()
    reinforced: tuple[str, ...] = ()
    vetoed: int = 0


async def plan(
    new: Sequence[Memory],
    neighbours: Mapping[int, Sequence[tuple[Memory, float]]],
    *,
    llm: Llm | None = None,
    now: datetime,
    who: str = "consolidation",
) -> Plan:
    """Decides for every new memory: add it, or reinforce, update or supersede one that is there.

    Exact duplicates reinforce. Then the model, when there is one, decides about all facts with neighbours in one
    call; what it decides is checked: a supersession needs the same subject and attribute; an update or a drop of the
    fact must not lose a difference in numbers, dates, units, denial, identifiers or names, and needs a word that both
    share; what a tool said changes nothing that the user said. Without a model only the same slot with another value
    supersedes, and only nearly the same words reinforce.

    Args:
        new: the rows the facts would become (`lifecycle.to_memory`), oldest first.
        neighbours: index into `new` → visible memories that may be the same, most similar first, with their cosine.
            Exact duplicates and those of the same slot must be among them to be seen.
        llm: decides what rules cannot.
        now: when the plan is made.
        who: stands in the history of what is changed.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    near = {number: _meetable(new[number], found) for number, found in neighbours.items()}
    draft = _Draft(now=now, who=who)
    open_facts = {
        number: fact
        for number, fact in enumerate(new)
        if near.get(number) and not fact.verbatim and _settled(fact, near[number]) is None
    }
    asked = await decided(open_facts, near, llm) if llm is not None and open_facts else {}
    for number, fact in enumerate(new):
        draft.take(fact, near.get(number, ()), asked.get(number))
    return Plan(tuple(draft.changes), tuple(draft.reinforced), draft.vetoed)


def _meetable(fact: Memory, found: Sequence[tuple[Memory, float]]) -> list[Memory]:
    """Turns as they were said are never changed: they meet only their exact like."""
    same = identity_of(fact)
    return [
        memory
        for memory, _ in sorted(found, key=lambda pair: -pair[1])
        if memory.state == "active" and (not memory.verbatim or identity_of(memory) == same)
    ]


def _settled(fact: Memory, near: Sequence[Memory]) -> Decision | None:
    """What needs no model: an exact duplicate, and a slot that a later value always takes over."""
    same = identity_of(fact)
    for memory in near:
        if identity_of(memory) == same:
            return Decision("NOOP", memory)
    for memory in near:
        if upserts(fact) and same_slot(fact, memory):
            return Decision("SUPERSEDE", memory)
    return Decision("ADD") if upserts(fact) else None


def _by_rule(fact: Memory, near: Sequence[Memory]) -> Decision:
    """Without a model."""
    for memory in near:
        if near_identical(fact, memory):
            return Decision("NOOP", memory)
    for memory in near:
        if same_slot(fact, memory):
            return Decision("SUPERSEDE", memory)
    return Decision("ADD")


def checked(fact: Memory, decision: Decision) -> Decision:
    """The decision, or the safe one in its place: nothing is merged away that the guard holds to differ."""
    memory = decision.memory
    if memory is None or decision.action == "ADD" or _outranked(fact, memory):
        return Decision("ADD")
    same = same_slot(fact, memory)
    if decision.action == "SUPERSEDE":
        return decision if same else Decision("ADD")
    if differences(fact.content, memory.content) or not related(fact, memory):
        return Decision("SUPERSEDE", memory) if same else Decision("ADD")
    if decision.action == "UPDATE":
        text = " ".join((decision.text or "").split())
        sources = (fact.content, memory.content)
        kept = keeps(text, sources) and not any(differences(text, source) for source in sources)
        return Decision("UPDATE", memory, text if kept else fact.content)
    return decision


def _outranked(fact: Memory, memory: Memory) -> bool:
    """What a tool said changes nothing that somebody else said."""
    return fact.origin == "tool" and memory.origin != "tool" and identity_of(fact) != identity_of(memory)


@dataclass(slots=True)
class _Draft:
    """The plan in the making: `standing` holds the rows that it has changed or added so far."""

    now: datetime
    who: str
    changes: list[Change] = field(default_factory=list[Change])
    reinforced: dict[str, None] = field(default_factory=dict[str, None])
    standing: dict[str, Memory] = field(default_factory=dict[str, Memory])
    vetoed: int = 0

    def take(self, fact: Memory, near: Sequence[Memory], asked: Decision | None) -> None:
        """Adds the changes of one fact."""
        current = [self.standing.get(memory.id, memory) for memory in near]
        added = [memory for memory in self.standing.values() if memory.id not in {known.id for known in current}]
        active = [memory for memory in (*current, *added) if memory.state == "active" and not memory.verbatim]
        twin = next((memory for memory in (*current, *added) if identity_of(memory) == identity_of(fact)), None)
        if twin is not None and twin.state == "active":
            self.reinforced[twin.id] = None
            return
        decision = self._decision(fact, active, asked)
        if decision.action == "UPDATE" and decision.memory is not None:
            decision = self._distinct(decision, decision.memory, active)
        self._apply(fact, decision)

    def _decision(self, fact: Memory, active: Sequence[Memory], asked: Decision | None) -> Decision:
        if fact.verbatim:
            return Decision("ADD")
        wanted = _settled(fact, active) or asked
        if wanted is None or (wanted.action == "ADD" and not upserts(fact)):
            wanted = _by_rule(fact, active if asked is None else self._fresh(active))
        if wanted.memory is not None:
            memory = self.standing.get(wanted.memory.id, wanted.memory)
            wanted = replace(wanted, memory=memory) if memory.state == "active" else Decision("ADD")
        safe = checked(fact, wanted)
        self.vetoed += safe.action != wanted.action
        return safe

    def _distinct(self, decision: Decision, memory: Memory, active: Sequence[Memory]) -> Decision:
        """No update makes one memory the exact like of another; then that other one is what was met again."""
        wanted = identity_of(replace(memory, content=decision.text or memory.content))
        twin = next((other for other in active if other.id != memory.id and identity_of(other) == wanted), None)
        return Decision("NOOP", twin) if twin is not None else decision

    def _fresh(self, active: Sequence[Memory]) -> list[Memory]:
        """Those that this plan adds itself: the model did not see them beside the fact."""
        added = self._added()
        return [memory for memory in active if memory.id in added]

    def _apply(self, fact: Memory, decision: Decision) -> None:
        memory = decision.memory
        if memory is None or decision.action == "ADD":
            self._change("add", fact, fact)
        elif decision.action == "NOOP":
            self.reinforced[memory.id] = None
        elif decision.action == "UPDATE":
            self._update(memory, fact, decision.text or fact.content)
        else:
            self._supersede(memory, fact)

    def _update(self, memory: Memory, fact: Memory, text: str) -> None:
        new = self._updated(memory, fact, text)
        place = self._added().get(memory.id)
        if place is None:
            self._change("update", new, fact, group=new_id(self.now))
        else:
            self._reword(place, replace(new, revision=memory.revision))

    def _reword(self, place: int, memory: Memory, group: str | None = None) -> None:
        """What this plan adds is added as it is in the end: a store replaces only what it holds."""
        change = self.changes[place]
        self.changes[place] = replace(change, memory=memory, group=group or change.group)
        self.standing[memory.id] = memory

    def _updated(self, memory: Memory, fact: Memory, text: str) -> Memory:
        renewed = max(filter(None, (memory.expires_at, fact.expires_at)), default=None)
        return replace(
            memory,
            content=text,
            topics=tuple(dict.fromkeys((*memory.topics, *fact.topics))),
            tags=tuple(dict.fromkeys((*memory.tags, *fact.tags))),
            importance=max(memory.importance, fact.importance),
            event_ids=tuple(dict.fromkeys((*memory.event_ids, *fact.event_ids))),
            metadata={**memory.metadata, **fact.metadata},
            happened_at=fact.happened_at or memory.happened_at,
            expires_at=renewed if memory.expires_at and fact.expires_at else None,
            updated_at=self.now,
            revision=memory.revision + 1,
        )

    def _supersede(self, memory: Memory, fact: Memory) -> None:
        """The later value stands, the earlier one is history; what was said last counts, whatever time it is about."""
        since = fact.happened_at or self.now
        began = memory.valid_from or memory.happened_at or memory.created_at
        old = replace(
            memory,
            state="superseded",
            superseded_by=fact.id,
            valid_to=since if since >= began else self.now,
            updated_at=self.now,
        )
        group = self._passed(old) or new_id(self.now)
        self._change("add", replace(fact, valid_from=since), fact, group=group)
        if old.id not in self._added():
            self._change("supersede", replace(old, revision=memory.revision + 1), fact, group=group)

    def _passed(self, old: Memory) -> str | None:
        """Makes a value that this plan adds history from the start; one decision undoes all that led past it."""
        place = self._added().get(old.id)
        if place is None:
            return None
        group = self.changes[place].group or new_id(self.now)
        self._reword(place, old, group)
        return group

    def _added(self) -> dict[str, int]:
        """The memories that this plan adds, and where."""
        return {change.memory.id: place for place, change in enumerate(self.changes) if change.kind == "add"}

    def _change(self, kind: _Kind, memory: Memory, fact: Memory, *, group: str | None = None) -> None:
        change = Change(kind=kind, memory=memory, who=self.who, why=_WHY[kind], event_ids=fact.event_ids, group=group)
        self.changes.append(change)
        self.standing[memory.id] = memory
