"""Import of a file that `export` wrote, from any store into any other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..concurrency import run_in_thread
from ..records import Scope
from ..stores.spaces import SpaceKey, external_name
from ..stores.values import Restored, Whole, embed_job
from .caller_vectors import is_kept
from .components import Components
from .export_file import READ, ExportFile, Node
from .findings import Progress

Part: TypeAlias = tuple[Scope, Sequence[Whole]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Counts of an import, or of a dry run of one.

    Attributes:
        added: memories that are there now.
        present: those that were there already, by their id.
        equal: those left out because another one says the same.
        forgotten: those left out because they were forgotten here.
        vectors: how many vectors were kept of those that came along; the others are made anew.
    """

    added: int = 0
    present: int = 0
    equal: int = 0
    forgotten: int = 0
    vectors: int = field(default=0, compare=False)


@dataclass(slots=True)
class Import:
    """One import of a checked file.

    Attributes:
        dry_run: only count what would be done.
        progress: called with the number of memories done so far.
    """

    parts: Components
    file: ExportFile
    dry_run: bool
    progress: Progress | None
    counts: Counter[Restored] = field(default_factory=Counter[Restored])
    vectors: int = 0

    async def run(self) -> Imported:
        """Import the file.

        Raises:
            ModelError: the embedder, which must say how wide its vectors are, is unavailable.
            ConfigurationError: the embedder is not the one whose vectors the store holds.
        """
        numbers = await self._space_numbers()
        blocked, touched = await self._forgotten(), dict[Scope, None]()
        async for scope, part in _in_thread(self.file.batches(numbers)):
            memories = [whole for whole in part if (scope, whole.memory.id) not in blocked]
            self.counts["forgotten"] += len(part) - len(memories)
            outcomes = await self._restore(scope, memories, dry_run=self.dry_run)
            self.counts.update(outcomes)
            for whole, outcome in zip(memories, outcomes, strict=True):
                if outcome == "added":
                    touched[scope] = None
                    self.vectors += len(whole.vectors)
            if self.progress is not None:
                self.progress(self.counts.total())
        if not self.dry_run:
            await self._forget_late(blocked)
            await self._embed_later(touched)
        return Imported(**self.counts, vectors=self.vectors)

    async def _restore(
        self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool
    ) -> Sequence[Restored]:
        if not memories:
            return []
        if dry_run:
            memories = [replace(whole, vectors={}) for whole in memories]
        return await self.parts.store.memories.restore(
            scope, memories, dry_run=dry_run, now=self.parts.clock()
        )

    async def _forgotten(self) -> set[Node]:
        """Return what the file holds of memories that were forgotten here and take others along,
        with those others.
        """
        forgotten = set[Node]()
        if not self.file.derived:
            return forgotten
        async for scope, memories in _in_thread(self.file.batches(deriving=True)):
            outcomes = await self._restore(scope, memories, dry_run=True)
            forgotten |= {
                (scope, whole.memory.id)
                for whole, outcome in zip(memories, outcomes, strict=True)
                if outcome == "forgotten"
            }
        return self.file.with_derived(forgotten)

    async def _forget_late(self, blocked: Set[Node]) -> None:
        """Take back what was forgotten here while the import ran."""
        late = defaultdict[Scope, list[str]](list)
        for scope, id in await self._forgotten() - blocked:
            late[scope].append(id)
        for scope, ids in late.items():
            erased = await self.parts.store.forget(scope, ids=ids, now=self.parts.clock())
            self.counts.update({"added": -len(erased), "forgotten": len(erased)})

    async def _embed_later(self, scopes: Iterable[Scope]) -> None:
        if self.parts.vectors is None:
            return
        now, store = self.parts.clock(), self.parts.store
        filling = [
            space.name for space in await store.memories.spaces.all() if space.state == "filling"
        ]
        for scope in scopes:
            await store.enqueue([embed_job(scope, now, name) for name in ("", *filling)])
        self.parts.worker.wake()

    async def _space_numbers(self) -> Mapping[SpaceKey, int]:
        """Return the store's numbers of the embedding spaces whose vectors are kept."""
        store, embedder = self.parts.store.memories.spaces, self.parts.vectors
        known = [space for space in await store.all() if space.state != "retired"]
        numbers = {space.key: space.number for space in known}
        for name, width in self.file.spaces - numbers.keys():
            is_callers = name == external_name(width) and is_kept(width)
            is_own = embedder is not None and name == embedder.name
            if self.dry_run and (is_callers or is_own):
                numbers[name, width] = -1 - len(numbers)  # no other space has it
            elif is_callers:
                numbers[name, width] = (await store.add(name, width, None)).number
            elif embedder is not None and is_own:
                space = await embedder.space()
                numbers[space.key] = space.number
        return numbers


async def _in_thread(parts: Iterator[Part]) -> AsyncGenerator[Part]:
    """Read a file in a thread, a part at a time."""
    while part := await run_in_thread(READ, next, parts, None):
        yield part
