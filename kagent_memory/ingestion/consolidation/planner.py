"""New facts and what is near them become changes: a pure plan around one model call, in time linear
in the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Literal, TypeAlias

from ...concurrency import run_in_thread
from ...models.llm import Llm
from ...records import MAX_LINKS, Change, Memory, new_id
from ...retention.lifecycle import revised
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

_Kind: TypeAlias = Literal["add", "update", "supersede", "merge", "link", "promote"]
Near: TypeAlias = Mapping[int, Sequence[tuple[Memory, float]]]
MIN_REPLACED = 3
"""Memories that one job may always supersede; of a large scope a tenth."""
UNITED = "Both were united in one sentence."
LATER_VALUE = "It was replaced by what was said later."
EARLIER_VALUE = "It was said before what replaced it."
SAID_AGAIN = "The same was said again."
SAME = "The model found that both say the same."
BESIDE_SAVED = "It contradicts what was saved explicitly, which stays."


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
    history: Iterable[Memory] = (),
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
        history: the superseded memories of the scope, between which late statements are put.
        now: when the plan is made.
    """
    plan = Plan(
        now=now,
        replaceable=max(MIN_REPLACED, visible // 10),
        history={memory.id: memory for memory in history},
    )
    for number, fact in enumerate(new):
        plan.take(fact, _meetable(fact, neighbours.get(number, ())), asked.get(number))
    return plan


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
        is_new = identity_of(fact) not in map(identity_of, near)
        if shown and is_new and _is_plain(fact):
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


@dataclass(slots=True, kw_only=True)
class Plan:
    """Changes by which new facts enter a scope.

    Attributes:
        now: when it is made.
        replaceable: how many stored memories it may still supersede.
        history: the superseded memories of the scope, by their ids.
        changes: in the order they must be applied; those of one decision share a group.
        rows: what it changes or adds, as it leaves it, by their ids.
        reinforced: ids of memories that were met again.
        same: id of a new fact → id of the memory that holds it already.
        is_late: it brings a statement that was said before the one that stands for it.
    """

    now: datetime
    replaceable: int
    history: Mapping[str, Memory]
    changes: list[Change] = field(default_factory=list[Change])
    rows: dict[str, Memory] = field(default_factory=dict[str, Memory])
    reinforced: dict[str, None] = field(default_factory=dict[str, None])
    same: dict[str, str] = field(default_factory=dict[str, str])
    is_late: bool = False
    _added: dict[str, int] = field(default_factory=dict[str, int])
    _holders: dict[bytes | str | None, str] = field(default_factory=dict[bytes | str | None, str])

    @property
    def spared(self) -> int:
        """Return how many memories more than one job may supersede stay beside new facts."""
        return max(0, -self.replaceable)

    def take(self, fact: Memory, near: Sequence[Memory], asked: Decision | None) -> None:
        """Add the changes of one fact; one in quarantine changes nothing that is there."""
        if fact.state == "quarantined":
            self.put("add", fact, fact)
            return
        active = [
            row for memory in near if (row := self.rows.get(memory.id, memory)).state == "active"
        ]
        if (twin := self._holding(identity_of(fact), active, identity_of)) is not None:
            self._reinforce(twin, fact)
            return
        changeable = [
            row for row in active if not (fact.verbatim or row.verbatim or is_outranked(fact, row))
        ]
        decision = Decision() if asked is None or fact.is_summary else asked
        meant = decision.memory and decision.memory.id
        memory = next((row for row in changeable if row.id == meant), None)
        if memory is not None:
            self._carry_out(decision, memory, fact)
            return
        # what the model saw beside the fact and left alone stays
        near = changeable if asked is None or fact.is_summary else ()
        former = self._former_value(fact, near)
        if former is None:
            self.put("add", fact, fact)
        else:
            self._replace(former, fact)

    def _holding(
        self, key: bytes | str | None, rows: Sequence[Memory], key_of: Callable[[Memory], object]
    ) -> Memory | None:
        """Return the active row with this identity or slot that was said last: one of those given,
        or one of this plan.
        """
        own = self.rows.get(self._holders.get(key, ""))
        known = rows if own is None or own.state != "active" else (*rows, own)
        return max((row for row in known if key_of(row) == key), key=said, default=None)

    def _former_value(self, fact: Memory, near: Sequence[Memory]) -> Memory | None:
        """Return the memory whose slot a fact fills."""
        slot = None if fact.verbatim else slot_of(fact)
        held = None if slot is None else self._holding(slot, near, slot_of)
        return None if held is None or is_outranked(fact, held) else held

    def _carry_out(self, decision: Decision, memory: Memory, fact: Memory) -> None:
        """Do what the model decided, or link where its text does not hold both."""
        text = " ".join(decision.text.split())
        if decision.action == "SUPERSEDE":
            self._replace(memory, fact)
        elif (
            decision.action == "UPDATE"
            and not is_saved(memory)
            and unites(text, (memory.content, fact.content))
        ):
            group = new_id(self.now)
            self._retire(fact, memory, fact, self.now, kind="merge", why=UNITED, group=group)
            united = _said_until(memory, fact)
            united = replace(united, content=text, **united_fields((memory, fact)))
            self.put("update", united, fact, why=UNITED, group=group)
        else:
            self._link(memory, fact, why=SAME)

    def _reinforce(self, memory: Memory, fact: Memory) -> None:
        """Take note that the memory was said again, in the same words."""
        self.reinforced[memory.id] = None
        self.same[fact.id] = memory.id
        if slot_of(memory) is not None and said(fact) > said(memory):
            self.put("update", _said_until(memory, fact), fact, why=SAID_AGAIN)

    def _link(self, memory: Memory, fact: Memory, *, why: str) -> None:
        """Add the fact beside a memory that says the same, or that it must not replace."""
        self.reinforced[memory.id] = None
        if memory.id in self._added or len(memory.links) >= MAX_LINKS:
            self.put("add", fact, fact)
            return
        group = new_id(self.now)
        self.put("add", replace(fact, links=(memory.id,)), fact, why=why, group=group)
        linked = replace(memory, links=(*memory.links, fact.id))
        self.put("link", linked, fact, why=why, group=group)

    def _replace(self, memory: Memory, fact: Memory) -> None:
        """Let what was said later stand, and the other one be history that ends when it was
        said.
        """
        if is_saved(memory):
            self._link(memory, replace(fact, valid_from=said(fact)), why=BESIDE_SAVED)
            return
        place = self._added.get(memory.id)
        if place is None and not memory.is_summary:
            self.replaceable -= 1
            if self.replaceable < 0:
                self.put("add", fact, fact)
                return
        if said(fact) < said(memory):
            self._put_before(memory, fact)
            return
        # one undo takes all values back that this plan adds
        group = place is not None and not memory.links and self.changes[place].group
        group = group or new_id(self.now)
        since = max(said(fact), _began(memory))
        self.put("add", replace(fact, valid_from=since), fact, why=LATER_VALUE, group=group)
        self._retire(memory, fact, fact, since, why=LATER_VALUE, group=group)

    def _put_before(self, memory: Memory, fact: Memory) -> None:
        """Keep a late statement as history, valid between those said before and after it."""
        self.is_late = True
        began, group = said(fact), new_id(self.now)
        former = self._former_values(memory.id)
        later = (_began(value) for value in (*former, memory) if _began(value) > began)
        self._retire(fact, memory, fact, min(later, default=began), why=EARLIER_VALUE, group=group)
        for value in former:
            if _began(value) <= began and value.valid_to is not None and value.valid_to > began:
                ended = replace(value, valid_to=began)
                self.put("supersede", ended, fact, why=EARLIER_VALUE, group=group)

    def _former_values(self, id: str) -> list[Memory]:
        """Return the former values of a memory, and theirs."""
        values = {**self.history, **self.rows}.values()
        former: list[Memory] = []
        holders = {id}
        while holders:
            some = [value for value in values if value.superseded_by in holders]
            former += some
            holders = {value.id for value in some}
        return [value for value in former if value.state == "superseded"]

    def _retire(
        self,
        memory: Memory,
        by: Memory,
        fact: Memory,
        until: datetime,
        *,
        kind: _Kind = "supersede",
        why: str,
        group: str,
    ) -> None:
        """Keep a memory as history of the one that stands for it."""
        if memory is fact:  # an undo brings back the active row
            self.put("add", fact, fact)
            del self._added[fact.id]
        ended = replace(
            memory,
            state="superseded",
            superseded_by=by.id,
            valid_from=_began(memory),
            valid_to=max(_began(memory), until),
        )
        self.put(kind, ended, fact, why=why, group=group)
        self._hold(by)

    def put(
        self,
        kind: _Kind,
        memory: Memory,
        fact: Memory | None = None,
        *,
        why: str = "",
        group: str | None = None,
    ) -> None:
        """Let a row become `memory`; one that this plan adds is so from the start."""
        place = self._added.get(memory.id)
        if place is not None:
            change = self.changes[place]
            self.changes[place] = replace(change, memory=memory, group=group or change.group)
        else:
            if kind == "add":
                self._added[memory.id] = len(self.changes)
            else:
                memory = revised(memory, now=self.now)
            event_ids = fact.event_ids if fact else ()
            self.changes.append(
                Change(kind=kind, memory=memory, who=WHO, why=why, event_ids=event_ids, group=group)
            )
        self.rows[memory.id] = memory
        if memory.state == "active":
            self._hold(memory)

    def _hold(self, memory: Memory) -> None:
        """Let later facts of this plan meet a memory of their words or slot."""
        keys = (identity_of(memory), None if memory.verbatim else slot_of(memory))
        self._holders |= dict.fromkeys(keys, memory.id)


def _began(memory: Memory) -> datetime:
    """Return since when a memory has been valid."""
    return memory.valid_from or said(memory)


def _said_until(memory: Memory, fact: Memory) -> Memory:
    """Return the memory as said last when the fact was; it has been valid since it was said
    first.
    """
    return replace(memory, said_at=max(said(memory), said(fact)), valid_from=_began(memory))
