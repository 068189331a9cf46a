"""Which memories of an export come of others in it, so that what was forgotten brings none of them
back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ..records import Memory, Revision, Scope
from ..stores.values import with_after

Node: TypeAlias = tuple[bytes, str]
"""A memory, or a decision that merged some, of a scope."""
DECISION = "decision "


class Lineage:
    """Memories in a file that forgetting one takes along, as in the store they came from.

    Those are: what a merge or a summary made of it, also when that was undone and is history, what
    it took the place of, and what took its place and was withdrawn.
    """

    def __init__(self) -> None:
        self._along = defaultdict[Node, set[str]](set)
        self._replaced_by = defaultdict[Node, set[str]](set)
        self._withdrawn: set[Node] = set()

    def note(self, scope: Scope, memory: Memory, revisions: Sequence[Revision]) -> None:
        """Take in one memory of the file."""
        own: Node = (scope.id, memory.id)
        if memory.superseded_by is not None:
            self._along[scope.id, memory.superseded_by].add(memory.id)
        elif memory.state == "superseded":
            self._withdrawn.add(own)
        for revision in revisions:
            if revision.group is not None and revision.kind != "undo":
                decision = DECISION + revision.group
                if revision.kind == "merge":
                    self._along[own].add(decision)
                else:
                    self._along[scope.id, decision].add(memory.id)
        for revision, state in with_after(memory, revisions):
            if state is not None and state.superseded_by is not None:
                successors = self._along if revision.kind == "merge" else self._replaced_by
                successors[own].add(state.superseded_by)

    def __bool__(self) -> bool:
        return bool(self._along or self._replaced_by)

    def takes_along(self, scope: Scope, memory_id: str) -> bool:
        """Return True if forgetting this memory may take others along."""
        node = (scope.id, memory_id)
        return node in self._along or node in self._replaced_by

    def reach(self, scope: Scope, forgotten: Iterable[str]) -> set[str]:
        """Return these memories with all that forgetting them takes along."""
        reached: set[str] = set()
        fresh = set(forgotten)
        while fresh:
            reached |= fresh
            nodes = [(scope.id, one) for one in fresh]
            along = {other for node in nodes for other in self._along.get(node, ())}
            withdrawn = {
                other
                for node in nodes
                for other in self._replaced_by.get(node, ())
                if (scope.id, other) in self._withdrawn
            }
            fresh = (along | withdrawn) - reached
        return {one for one in reached if not one.startswith(DECISION)}
