"""Which memories of an export come of others in it, so that what was forgotten brings none of them
back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..records import Memory, Revision, Scope
from ..stores.values import with_after


class Lineage:
    """Memories in a file that forgetting one takes along, as in the store they came from.

    Those are: what a merge or a summary made of it, also when that was undone and is history, what
    it took the place of, and what took its place and was withdrawn.
    """

    def __init__(self) -> None:
        self._along: dict[tuple[bytes, str], set[str]] = defaultdict(set)
        # group → what a merge retired
        self._sources: dict[tuple[bytes, str], set[str]] = defaultdict(set)
        # group → what the same decision wrote
        self._made: dict[tuple[bytes, str], set[str]] = defaultdict(set)
        self._replaced: list[tuple[bytes, str, str]] = []  # scope, memory, what once took its place
        self._withdrawn: set[tuple[bytes, str]] = set()

    def note(self, scope: Scope, memory: Memory, revisions: Sequence[Revision]) -> None:
        """Takes in one memory of the file."""
        if memory.superseded_by is not None:
            self._along[scope.id, memory.superseded_by].add(memory.id)
        elif memory.state == "superseded":
            self._withdrawn.add((scope.id, memory.id))
        for revision in revisions:
            if revision.group is not None and revision.kind != "undo":
                members = self._sources if revision.kind == "merge" else self._made
                members[scope.id, revision.group].add(memory.id)
        for revision, state in with_after(memory, revisions):
            if state is None or state.superseded_by is None:
                continue
            if revision.kind == "merge":
                self._along[scope.id, memory.id].add(state.superseded_by)
            else:
                self._replaced.append((scope.id, memory.id, state.superseded_by))

    def close(self) -> None:
        """Joins what a merge retired to what it made, and what was withdrawn to what it had
        replaced: all of the file was taken in.
        """
        for group, sources in self._sources.items():
            for source in sources:
                self._along[group[0], source].update(self._made.get(group, ()))
        for scope_id, memory_id, holder in self._replaced:
            if (scope_id, holder) in self._withdrawn:
                self._along[scope_id, memory_id].add(holder)
        self._sources.clear()
        self._made.clear()
        self._replaced.clear()
        self._withdrawn.clear()

    def __bool__(self) -> bool:
        return bool(self._along)

    def takes_along(self, scope: Scope, memory_id: str) -> bool:
        """Return True if forgetting this memory takes others along."""
        return (scope.id, memory_id) in self._along

    def reach(self, scope: Scope, forgotten: Iterable[str]) -> set[str]:
        """These memories with all that forgetting them takes along."""
        reached: set[str] = set()
        fresh = set(forgotten)
        while fresh:
            reached |= fresh
            fresh = (
                set[str]().union(*(self._along.get((scope.id, one), ()) for one in fresh)) - reached
            )
        return reached
