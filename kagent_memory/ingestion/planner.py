"""Turn new facts and their neighbours into changes: one model call, then a pure plan."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ..concurrency import LONG, run_in_thread
from ..language.tokenizer import EDGES, JOINING_WORDS, tokens
from ..models.llm import Llm
from ..models.prompts import batches, filled, prompt
from ..models.prompts.escaping import escaped
from ..records import MAX_LINKS, Change, ChangeKind, Memory, new_id
from ..retention.lifecycle import promoted, revised
from ..retrieval.similar import Near
from ..stores.codec import revived
from ..stores.planning import identity_of, is_saved, said, slot_of, valid_since
from .answers import Decision, Decisions

WHO = "consolidation"
"""Author of these changes in the history."""
MAX_NEIGHBOURS = 5
MIN_REPLACED = 3
"""Memories that one job may always supersede; in a large scope, a tenth of its memories."""
_ALIVE = frozenset(("active", "short_term"))


async def decide(new: Sequence[Memory], near: Near, llm: Llm | None) -> dict[int, Decision]:
    """Return a model's decisions about the facts that rules do not settle, by index into `new`.

    A decision contains the id of its memory; a memory or action that was not offered counts as ADD.
    The model is called once, or once per 48,000 characters of prompt.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    decisions: dict[int, Decision] = {}
    if llm is None:
        return decisions
    texts, offered = await run_in_thread(LONG, _prompt_lines, new, near)
    for batch in batches(texts, lambda name: len(texts[name])):
        facts = "\n".join(texts[name] for name in batch)
        request = filled(prompt("consolidate_facts"), facts=facts)
        for item in (await llm.complete(request, schema=Decisions)).decisions:
            if item.fact not in batch:
                continue
            memory = offered.get((item.fact, item.memory or ""))
            decision = (
                Decision()
                if memory is None or item.action == "ADD"
                else item.model_copy(update={"memory": memory.id})
            )
            decisions.setdefault(int(item.fact[1:]) - 1, decision)
    return decisions


def _prompt_lines(
    new: Sequence[Memory], near: Near
) -> tuple[Mapping[str, str], Mapping[tuple[str, str], Memory]]:
    """Return the prompt's lines on each undecided fact, by its name, and the memories in them, by
    the names of fact and memory.
    """
    texts: dict[str, str] = {}
    offered: dict[tuple[str, str], Memory] = {}
    for number, fact in enumerate(new):
        name, lines = f"F{number + 1}", ""
        for memory in _candidates(fact, near.get(number, ())):
            # counted through all facts: names are unique in a prompt
            other = f"M{len(offered) + 1}"
            offered[name, other] = memory
            lines += f"\n  {other}: {_line(memory)}"
        if lines:
            texts[name] = f"{name}: {_line(fact)}{lines}"
    return texts, offered


def _stands_alone(memory: Memory) -> bool:
    return memory.state not in _ALIVE or memory.verbatim or memory.is_summary


def _candidates(fact: Memory, near: Sequence[tuple[Memory, float]]) -> list[Memory]:
    """Return the memories that a model compares a fact with; none if one has the same words."""
    same = identity_of(fact)
    if _stands_alone(fact) or any(identity_of(memory) == same for memory, _ in near):
        return []
    return [
        memory for memory, _ in sorted(near, key=lambda pair: -pair[1]) if not _stands_alone(memory)
    ][:MAX_NEIGHBOURS]


def _line(memory: Memory) -> str:
    slot = (
        f" (subject: {memory.subject}; attribute: {memory.attribute})"
        if memory.subject and memory.attribute
        else ""
    )
    return " ".join(f"[{said(memory).date()}] {escaped(memory.content)}{escaped(slot)}".split())


def latest(times: Sequence[datetime | None]) -> datetime | None:
    """Return the latest of these times; None means never, which is later than any time."""
    return None if None in times else max(filter(None, times))


@dataclass(eq=False)
class Plan:
    """Changes by which new facts enter a scope.

    Equal words reinforce. A later value of the same attribute of the same subject supersedes the
    earlier one, whichever is ingested first. The model judges everything else, within safe limits:
    a memory that it calls the same is linked and stays; one that it replaces becomes history that
    ends at the time of the new statement; a merged text must contain the words of both memories.
    Memories that a caller saved or pinned stay as they are, facts from tools change nothing from
    other origins, and one job supersedes a few memories at most. A short-term memory becomes
    long-term when another session or a long-term fact repeats it.

    Attributes:
        now: the time of the plan (aware UTC).
        replaceable: the number of stored memories that it may still supersede; below 0, the number
            of those that stay beside new facts instead.
        history: the superseded memories of the scope, between which late statements are put.
        changes: the changes in the order of application; those of one decision share a group.
        rows: the changed and added memories in their final state, by id.
        reinforced: ids of repeated memories and of their turns, which live as long.
        same: id of a new fact → id of the memory that states the same already.
    """

    now: datetime
    replaceable: int = MIN_REPLACED
    history: Sequence[Memory] = ()

    def __post_init__(self) -> None:
        self.rows: dict[str, Memory] = {}
        self.reinforced = set[str]()
        self.same: dict[str, str] = {}
        self.changes: list[Change] = []
        self._added = set[str]()
        self._holders: dict[bytes | str, str] = {}
        self._decision: tuple[tuple[str, ...], str, str | None] = (), "", None

    def take(self, new: Sequence[Memory], near: Near, decided: Mapping[int, Decision]) -> None:
        """Add the changes of the facts, in the order in which they were said.

        Args:
            new: the rows that the facts would become (`lifecycle.to_memory`).
            near: index into `new` → similar memories; it must contain exact duplicates and the
                memories of the same slot.
            decided: index into `new` → the model's decision; the memory that it names is read from
                `near`.
        """
        for number, fact in sorted(enumerate(new), key=lambda pair: said(pair[1])):
            self._take(fact, [memory for memory, _ in near.get(number, ())], decided.get(number))

    def _take(self, fact: Memory, near: Sequence[Memory], decision: Decision | None) -> None:
        """Add the changes of one fact; a quarantined fact or a turn changes no other memory."""
        self.begin(fact)
        if fact.state not in _ALIVE:
            self.put("add", fact)
            return
        slot = slot_of(fact)
        own = {id for key in (identity_of(fact), slot or "") if (id := self._holders.get(key))}
        rows = [
            *(self.rows.get(memory.id, memory) for memory in near),
            *(self.rows[id] for id in own),
        ]
        alive = sorted((row for row in rows if row.state in _ALIVE), key=said, reverse=True)
        for row in alive:
            if identity_of(row) == identity_of(fact):
                self._reinforce(row, fact)
                return
        # what only a tool said changes nothing of other origins
        open = [row for row in alive if fact.origin != "tool" or row.origin == "tool"]
        memory = next((row for row in open if decision and row.id == decision.memory), None)
        action = decision.action if decision and memory else "SUPERSEDE"
        text = (decision and decision.text) or ""
        if memory is None and slot:
            # a stored memory that the model saw and did not choose stays
            values = (row for row in open if decision is None or row.id in own)
            memory = next((row for row in values if slot_of(row) == slot), None)
        if memory is None:
            self.put("add", fact)
        elif action == "SUPERSEDE":
            self._replace(memory, fact)
        elif action == "UPDATE" and not is_saved(memory) and unites(text, memory, fact):
            self.put("add", fact)
            self.unite(memory, fact, text)
        else:
            self._link(memory, fact, "The model found that both say the same.")

    def unite(self, memory: Memory, fact: Memory, text: str) -> None:
        """Replace the text of a memory by one that includes a later memory, which becomes
        history.
        """
        self.begin(fact, "Both were united in one sentence.")
        self._retire(fact, memory, self.now, kind="merge")
        both = self._lasting(memory, fact), self._lasting(fact, memory)
        happened = (row.happened_at for row in both if row.happened_at)
        self.put(
            "update",
            replace(
                revived(_said_until(both[0], fact), both[1], self.now),
                content=text,
                links=memory.links,
                happened_at=max(happened, default=None),
                ttl_days=memory.ttl_days,
                expires_at=latest([row.expires_at for row in both]),
            ),
        )

    def _reinforce(self, memory: Memory, fact: Memory) -> None:
        """Record that a memory was said again in the same words."""
        self.same[fact.id] = memory.id
        lasting = self._lasting(memory, fact)
        self._renew(memory)
        if slot_of(memory) and said(fact) > said(memory):
            self.begin(fact, "The same was said again.")
            self.put("update", _said_until(lasting, fact))
        elif lasting is not memory:
            self.begin(fact, "promoted: it was met again in another session")
            self.put("promote", lasting)

    def _renew(self, memory: Memory) -> None:
        """Restart the TTL of a stored memory and its turns."""
        if memory.id not in self._added:
            self.reinforced.update((memory.id, *memory.source_ids))

    def _link(self, memory: Memory, fact: Memory, why: str) -> None:
        """Add the fact beside a memory that states the same, or that it must not replace."""
        self._renew(memory)
        if len(memory.links) >= MAX_LINKS:
            self.put("add", fact)
            return
        self.begin(fact, why)
        self.put("add", replace(self._lasting(fact, memory), links=(memory.id,)))
        self.put("link", replace(self._lasting(memory, fact), links=(*memory.links, fact.id)))

    def _replace(self, memory: Memory, fact: Memory) -> None:
        """Let the later statement supersede the earlier one, which ends when the later was said."""
        if is_saved(memory):
            beside = replace(fact, valid_from=said(fact))
            self._link(memory, beside, "It contradicts what was saved explicitly, which stays.")
            return
        if not (memory.id in self._added or memory.is_summary):
            self.replaceable -= 1
            if self.replaceable < 0:
                self.put("add", fact)
                return
        fact = self._lasting(fact, memory)
        if said(fact) < said(memory):
            self._put_before(memory, fact)
            return
        self.begin(fact, "It was replaced by what was said later.")
        since = max(said(fact), valid_since(memory))
        self.put("add", replace(fact, valid_from=since))
        self._retire(memory, fact, since)

    def _put_before(self, memory: Memory, fact: Memory) -> None:
        """Keep a late statement as history, valid between the statements before and after it."""
        began, values = said(fact), self._values(memory)
        later = [value for value in values if valid_since(value) > began]
        following = min(later or [memory], key=valid_since)
        self.put("add", fact)
        self.begin(fact, "It was said before what replaced it.")
        self._retire(fact, following, min(map(valid_since, later), default=said(memory)))
        for value in values:
            if value.valid_to and valid_since(value) <= began < value.valid_to:
                self._retire(value, fact, began)

    def _values(self, memory: Memory) -> list[Memory]:
        """Return a memory and its former values, recursively. One that was united with another
        ended after that began, and stays linked with its text.
        """
        rows = ({row.id: row for row in self.history} | self.rows).values()
        values = [memory]
        for holder in values:  # grows meanwhile
            values += [
                row
                for row in rows
                if row.superseded_by == holder.id
                and row.valid_to
                and row.valid_to <= valid_since(holder)
            ]
        return values

    def _retire(
        self, memory: Memory, by: Memory, until: datetime, *, kind: ChangeKind = "supersede"
    ) -> None:
        """Turn a memory into history, superseded by another one."""
        began = valid_since(memory)
        self.put(
            kind,
            replace(
                memory,
                state="superseded",
                superseded_by=by.id,
                valid_from=began,
                valid_to=max(began, until),
            ),
        )

    def _lasting(self, memory: Memory, other: Memory) -> Memory:
        """Return a memory as long-term, unless both are short-term ones of the same session."""
        if memory.state != "short_term":
            return memory
        is_own = other.state == "short_term" and other.session_id == memory.session_id
        return memory if is_own else promoted(memory, self.now)

    def begin(self, fact: Memory, why: str = "") -> None:
        """Begin a decision about a fact; its changes share a reason and, if it has one, a group."""
        self._decision = fact.event_ids, why, new_id(self.now) if why else None

    def put(self, kind: ChangeKind, memory: Memory) -> None:
        """Add the change that gives a row this state, as its next revision unless it is added."""
        if kind == "add":
            self._added.add(memory.id)
        else:
            memory = revised(memory, now=self.now)
        event_ids, why, group = self._decision
        self.changes.append(
            Change(kind=kind, memory=memory, who=WHO, why=why, event_ids=event_ids, group=group)
        )
        self.rows[memory.id] = memory
        if memory.state in _ALIVE:
            for key in (identity_of(memory), slot_of(memory)):
                if key:  # for later facts of this plan
                    self._holders[key] = memory.id


def _said_until(memory: Memory, fact: Memory) -> Memory:
    """Return the memory as said again with a later one, and valid since it was first said."""
    return replace(memory, said_at=max(said(memory), said(fact)), valid_from=valid_since(memory))


def words(text: str) -> list[str]:
    """Return the words of a text in order: plain words as stems, all others unchanged."""
    terms: list[str] = []
    for chunk in unicodedata.normalize("NFC", text).split():
        word = chunk.strip(EDGES)
        is_plain = word.isalpha() and word[1:] == word[1:].lower()
        terms += tokens(word) if is_plain else [word] if word else []
    return terms


def unites(text: str, *memories: Memory) -> bool:
    """Return True if a merged text can replace all its sources.

    It contains the words of every source in their order, adds only joining words ("and"), and says
    more than any single source: a source that already contains the words of another one may mean
    something else by them ("The user's wife is vegan.").
    """
    merged = words(text)
    parts = [words(memory.content) for memory in memories]
    added = set(merged).difference(*parts)
    return (
        merged not in parts
        and all(_is_subsequence(merged, part) for part in parts)
        and added <= JOINING_WORDS
    )


def _is_subsequence(words: Iterable[str], part: Iterable[str]) -> bool:
    """Return True if `part` is a subsequence of `words`."""
    remaining = iter(words)
    return all(word in remaining for word in part)
