"""New facts and what is near them become changes: a pure plan around one model call, in time linear
in the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Literal, TypeAlias

from ...concurrency import run_in_thread
from ...models.llm import Llm
from ...records import MAX_LINKS, Change, Memory, new_id
from ...retention.lifecycle import revised
from ..editing import retired
from .decisions import Decision, decided
from .similarity import (
    WHO,
    identity_of,
    is_outranked,
    is_saved,
    said,
    slot_of,
    united_fields,
    unites,
)

_Kind: TypeAlias = Literal["add", "update", "supersede", "merge", "link"]
Near: TypeAlias = Mapping[int, Sequence[tuple[Memory, float]]]
MIN_REPLACED = 3
"""Memories that one job may always supersede; of a large scope a tenth."""
UNITED = "Both were united in one sentence."
LATER_VALUE = "It was replaced by what was said later."
EARLIER_VALUE = "It was said before what replaced it."
SAID_AGAIN = "The same was said again."
SAME = "The model found that both say the same."
BESIDE_SAVED = "It contradicts what was saved explicitly, which stays."


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes by which new facts enter a scope.

    Attributes:
        changes: in the order they must be applied; those of one decision share a group.
        reinforced: ids of memories that were met again.
        vetoed: how many decisions of the model were not carried out as it made them.
        spared: how many of those would have superseded more memories than one job may.
        same: id of a new fact → id of the memory that holds it already.
    """

    changes: tuple[Change, ...] = ()
    reinforced: tuple[str, ...] = ()
    vetoed: int = 0
    spared: int = 0
    same: Mapping[str, str] = field(default_factory=dict[str, str])


async def decisions(
    new: Sequence[Memory], neighbours: Near, llm: Llm | None
) -> dict[int, Decision]:
    """Return what the model decides about all facts that rules do not settle, in one call.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    if llm is None:
        return {}
    near = await run_in_thread(size_of(new, neighbours), partial(_open, new, neighbours))
    return await decided({number: new[number] for number in near}, near, llm) if near else {}


def settled(
    new: Sequence[Memory],
    neighbours: Near,
    asked: Mapping[int, Decision],
    *,
    visible: int = 0,
    now: datetime,
) -> Plan:
    """Decide for every new memory: add it, or reinforce, link, update or supersede another one.

    Equal words reinforce. A later value of the same attribute of the same subject supersedes the
    earlier one, whichever was taken in first. All else is the model's to judge, and made harmless:
    what it holds to say the same is linked and stays; what it replaces becomes history that ends
    when the new statement was said; a text that unites two is believed only if it holds both. What
    a caller saved or pinned stays as it is, what a tool said changes nothing that others said, and
    one job supersedes a few memories at most.

    Args:
        new: the rows that the facts would become (`lifecycle.to_memory`).
        neighbours: index into `new` → visible memories that may be the same, most similar first,
            with their cosine. Exact duplicates and those of the same slot must be among them.
        asked: index into `new` → what the model decided; a memory that it names counts as it is
            among the neighbours.
        visible: how many memories of the scope readers see; a tenth of them may be superseded.
        now: when the plan is made.
    """
    draft = _Draft(now=now, replaceable=max(MIN_REPLACED, visible // 10))
    for number in _in_order(new):
        draft.take(
            new[number], _meetable(new[number], neighbours.get(number, ())), asked.get(number)
        )
    return Plan(
        tuple(draft.changes), tuple(draft.reinforced), draft.vetoed, draft.spared, draft.same
    )


def is_late(plan: Plan) -> bool:
    """Return True if a plan brings a statement that was said before the one that stands for it."""
    return any(change.why == EARLIER_VALUE for change in plan.changes)


def without_overlap(plan: Plan, history: Iterable[Memory], *, now: datetime) -> Plan:
    """Return the plan with its late statements valid between the values said before and after them.

    Args:
        plan: of `settled`.
        history: the superseded memories of the scope.
        now: when the plan is made.
    """
    changes = list(plan.changes)
    own = {change.memory.id: place for place, change in enumerate(changes)}
    values = {memory.id: memory for memory in history}
    values |= {id: changes[place].memory for id, place in own.items()}
    for place, change in enumerate(plan.changes):
        if change.why != EARLIER_VALUE:
            continue
        late = changes[place].memory
        began = _began(late)
        others = sorted(
            (one for one in _history_of(late.superseded_by, values) if one.id != late.id),
            key=_began,
        )
        after = next((_began(other) for other in others if _began(other) > began), late.valid_to)
        values[late.id] = late = replace(
            late, valid_to=min(after, late.valid_to) if after and late.valid_to else after
        )
        changes[place] = replace(change, memory=late)
        for other in others:
            if _began(other) <= began and other.valid_to is not None and other.valid_to > began:
                values[other.id] = ended = replace(other, valid_to=began)
                if other.id in own:
                    changes[own[other.id]] = replace(changes[own[other.id]], memory=ended)
                else:
                    own[other.id] = len(changes)
                    changes.append(replace(change, memory=revised(ended, now=now)))
    return replace(plan, changes=tuple(changes))


def _history_of(id: str | None, values: Mapping[str, Memory]) -> list[Memory]:
    """Return the former values of a memory, and theirs."""
    former: list[Memory] = []
    holders = {id}
    while holders:
        some = [
            one
            for one in values.values()
            if one.state == "superseded" and one.superseded_by in holders
        ]
        former += some
        holders = {one.id for one in some}
    return former


def _in_order(new: Sequence[Memory]) -> list[int]:
    """Return the places of new facts as they came, but values of one slot by the time they were
    said.
    """
    order = list(range(len(new)))
    slots: dict[str, list[int]] = {}
    for number, fact in enumerate(new):
        if not fact.verbatim and (slot := slot_of(fact)) is not None:
            slots.setdefault(slot, []).append(number)
    for numbers in slots.values():
        by_time = sorted(numbers, key=lambda number: said(new[number]))
        for place, number in zip(numbers, by_time, strict=True):
            order[place] = number
    return order


def size_of(new: Sequence[Memory], neighbours: Near) -> int:
    """Return about how many characters the plan has to read."""
    near = sum(len(memory.content) for some in neighbours.values() for memory, _ in some)
    return near + sum(len(fact.content) for fact in new)


def _open(new: Sequence[Memory], neighbours: Near) -> dict[int, list[Memory]]:
    """Return the facts that a model is asked about, by their number, with what may be the same."""
    asked: dict[int, list[Memory]] = {}
    for number, some in sorted(neighbours.items()):
        fact, near = new[number], _meetable(new[number], some)
        shown = [memory for memory in near if _is_plain(memory)]
        if (
            shown
            and _is_plain(fact)
            and all(identity_of(memory) != identity_of(fact) for memory in near)
        ):
            asked[number] = shown
    return asked


def _is_plain(memory: Memory) -> bool:
    return memory.state == "active" and not (memory.verbatim or memory.is_summary)


def _meetable(fact: Memory, near: Sequence[tuple[Memory, float]]) -> list[Memory]:
    """Return the active memories near a fact; of turns as they were said only its exact like."""
    return [
        memory
        for memory, _ in sorted(near, key=lambda pair: -pair[1])
        if memory.state == "active"
        and (not memory.verbatim or identity_of(memory) == identity_of(fact))
    ]


def checked(fact: Memory, decision: Decision) -> Decision:
    """Return the decision, or a harmless one in its place.

    That is ADD for what a tool must not change, and NOOP (a link) for a united text that does not
    hold both.
    """
    memory = decision.memory
    if memory is None or is_outranked(fact, memory):
        return Decision()
    if decision.action == "UPDATE":
        text = " ".join(decision.text.split())
        if is_saved(memory) or not unites(text, (memory.content, fact.content)):
            return Decision("NOOP", memory)
        return replace(decision, text=text)
    return decision


@dataclass(slots=True)
class _Draft:
    """The plan in the making.

    Attributes:
        standing: the rows that it has changed or added so far, by their ids.
        added: the ids of those that it adds → where in `changes`.
        identities, slots: of the rows that it last put there → their ids.
        replaceable: how many stored memories it may still supersede.
    """

    now: datetime
    replaceable: int
    changes: list[Change] = field(default_factory=list[Change])
    reinforced: dict[str, None] = field(default_factory=dict[str, None])
    standing: dict[str, Memory] = field(default_factory=dict[str, Memory])
    added: dict[str, int] = field(default_factory=dict[str, int])
    identities: dict[bytes, str] = field(default_factory=dict[bytes, str])
    slots: dict[str, str] = field(default_factory=dict[str, str])
    vetoed: int = 0
    spared: int = 0
    same: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, fact: Memory, near: Sequence[Memory], asked: Decision | None) -> None:
        """Add the changes of one fact; one in quarantine changes nothing that is there."""
        if fact.state == "quarantined":
            self._add(fact)
            return
        active = [
            row
            for memory in near
            if (row := self.standing.get(memory.id, memory)).state == "active"
        ]
        twin = self._twin(fact, active)
        if twin is not None:
            self._reinforce(twin, fact)
            return
        decision = self._decision(fact, [memory for memory in active if not memory.verbatim], asked)
        memory = decision.memory
        if memory is not None and decision.action == "UPDATE":
            # no update makes one memory the exact like of another
            others = [other for other in active if other.id != memory.id]
            twin = self._twin(replace(memory, content=decision.text), others)
            if twin is not None and twin.id != memory.id:
                decision = Decision("NOOP", twin)
        self._carry_out(decision, fact)

    def _carry_out(self, decision: Decision, fact: Memory) -> None:
        memory = decision.memory
        if memory is None:
            self._add(fact)
        elif decision.action == "NOOP":
            self._link(memory, fact, why=SAME)
        elif decision.action == "UPDATE":
            self._update(memory, fact, decision.text)
        elif is_saved(memory):
            self._link(memory, replace(fact, valid_from=said(fact)), why=BESIDE_SAVED)
        elif not self._may_supersede(memory):
            self._add(fact)
        elif said(fact) < said(memory):
            self._retire(fact, memory, "supersede", why=EARLIER_VALUE, until=_began(memory))
        else:
            self._supersede(memory, fact)

    def _twin(self, fact: Memory, active: Sequence[Memory]) -> Memory | None:
        """Return the active memory of the same words: one that is near, or one of this plan."""
        same = identity_of(fact)
        stored = next((memory for memory in active if identity_of(memory) == same), None)
        own = self.standing.get(self.identities.get(same, ""))
        return stored or (
            own if own is not None and own.state == "active" and identity_of(own) == same else None
        )

    def _decision(self, fact: Memory, active: Sequence[Memory], asked: Decision | None) -> Decision:
        """Return what is done: what the model decided, or else a value of a slot meets the one that
        was said last.
        """
        if fact.verbatim:
            return Decision()
        wanted = asked.memory if asked is not None and not fact.is_summary else None
        memory = next((one for one in active if wanted is not None and one.id == wanted.id), None)
        if asked is not None and memory is not None:
            safe = checked(fact, replace(asked, memory=memory))
            self.vetoed += safe.action != asked.action
            if safe.memory is not None:
                return safe
        slot = slot_of(fact)
        # what the model saw beside the fact and left alone stays
        near = active if asked is None or fact.is_summary else ()
        holders = [one for one in near if slot is not None and slot_of(one) == slot]
        own = self.standing.get(self.slots.get(slot or "", ""))
        if own is not None and own.state == "active" and slot_of(own) == slot:
            holders.append(own)
        holders = [one for one in holders if not is_outranked(fact, one)]
        return Decision("SUPERSEDE", max(holders, key=said)) if holders else Decision()

    def _may_supersede(self, memory: Memory) -> bool:
        """Return False once the plan supersedes all that one job may; its own and summaries are
        free.
        """
        if memory.id in self.added or memory.is_summary:
            return True
        self.replaceable -= 1
        self.spared += self.replaceable < 0
        return self.replaceable >= 0

    def _reinforce(self, memory: Memory, fact: Memory) -> None:
        """Take note that the memory was said again, in the same words."""
        self.reinforced[memory.id] = None
        self.same[fact.id] = memory.id
        if slot_of(memory) is not None and said(fact) > said(memory):
            self._replace(_said_until(memory, fact), fact, why=SAID_AGAIN)

    def _link(self, memory: Memory, fact: Memory, *, why: str) -> None:
        """Add the fact beside a memory that says the same, or that it must not replace."""
        self.reinforced[memory.id] = None
        if memory.id in self.added or len(memory.links) >= MAX_LINKS:
            self._add(fact)
            return
        group = new_id(self.now)
        self._add(replace(fact, links=(memory.id,)), why=why, group=group)
        linked = revised(memory, now=self.now, links=(*memory.links, fact.id))
        self._change("link", linked, fact, why=why, group=group)

    def _update(self, memory: Memory, fact: Memory, text: str) -> None:
        """Give the memory the text that holds both; the fact is kept as history of it."""
        group = self._retire(fact, memory, "merge", why=UNITED, until=self.now)
        updated = _said_until(memory, fact)
        updated = replace(updated, content=text, **united_fields((memory, fact)))
        self._replace(updated, fact, why=UNITED, group=group)

    def _supersede(self, memory: Memory, fact: Memory) -> None:
        """Let the later statement stand; the earlier one is history that ends when it was said."""
        since = max(said(fact), _began(memory))
        old = retired(memory, fact.id, now=self.now, valid_from=_began(memory), valid_to=since)
        place = self.added.get(old.id)
        if place is None:
            group = new_id(self.now)
        else:  # what this plan adds is history from the start, and one undo takes all values back
            group = (not memory.links and self.changes[place].group) or new_id(self.now)
            self._replace(
                replace(old, revision=memory.revision), fact, why=LATER_VALUE, group=group
            )
        self._add(replace(fact, valid_from=since), why=LATER_VALUE, group=group)
        if place is None:
            self._change("supersede", old, fact, why=LATER_VALUE, group=group)

    def _retire(
        self,
        fact: Memory,
        memory: Memory,
        kind: Literal["supersede", "merge"],
        *,
        why: str,
        until: datetime,
    ) -> str:
        """Keep a fact as history of the memory that stands for it; return the decision's group."""
        group, since = new_id(self.now), said(fact)
        self._add(fact)
        former = retired(
            fact, memory.id, now=self.now, valid_from=since, valid_to=max(since, until)
        )
        self._change(kind, former, fact, why=why, group=group)
        del self.added[fact.id]
        return group

    def _replace(self, memory: Memory, fact: Memory, *, why: str, group: str | None = None) -> None:
        """Note what a row becomes; what this plan adds itself is added so from the start."""
        place = self.added.get(memory.id)
        if place is None:
            self._change("update", revised(memory, now=self.now), fact, why=why, group=group)
        else:
            change = self.changes[place]
            self.changes[place] = replace(change, memory=memory, group=group or change.group)
            self._stand(memory)

    def _add(self, fact: Memory, *, why: str = "", group: str | None = None) -> None:
        self.added[fact.id] = len(self.changes)
        self._change("add", fact, fact, why=why, group=group)
        if not fact.verbatim and (slot := slot_of(fact)) is not None:
            self.slots[slot] = fact.id

    def _change(
        self, kind: _Kind, memory: Memory, fact: Memory, *, why: str, group: str | None
    ) -> None:
        change = Change(
            kind=kind, memory=memory, who=WHO, why=why, event_ids=fact.event_ids, group=group
        )
        self.changes.append(change)
        self._stand(memory)

    def _stand(self, memory: Memory) -> None:
        self.standing[memory.id] = memory
        if memory.state == "active":
            self.identities[identity_of(memory)] = memory.id


def _began(memory: Memory) -> datetime:
    """Return since when a memory has been valid."""
    return memory.valid_from or said(memory)


def _said_until(memory: Memory, fact: Memory) -> Memory:
    """Return the memory as said last when the fact was; it has been valid since it was said
    first.
    """
    return replace(memory, said_at=max(said(memory), said(fact)), valid_from=_began(memory))
