"""Export and import: memories whole, one a line, from any store into any other."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..concurrency import run_in_thread
from ..records import Filter, Memory, Scope
from ..retrieval.embedding_spaces import same_model
from ..stores import open_store
from ..stores.base import EXTERNAL, EmbeddingSpace, embed_job, external_name
from ..stores.values import Restored, Whole
from .components import Components
from .export_file import (
    LINE_ENDS,
    PART,
    VERSION,
    VERSION_WITH_VECTORS,
    End,
    ExportFile,
    Head,
    Line,
    Numbers,
    Space,
    SpaceKey,
    line_adapter,
)
from .findings import Progress

ATTEMPTS = 3
READ = 1_000_000  # characters: lines of a file are work for a thread, however long they are


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


async def export(
    parts: Components, scopes: AsyncIterable[Scope], *, vectors: bool
) -> AsyncGenerator[str]:
    """Yield all memories of some scopes as lines; see `Memories.export`."""
    await parts.deliveries.flush()
    every = await parts.store.memories.spaces.all()
    spaces = [one for one in every if vectors and one.state != "retired"]
    head = Head(
        format="kagent-memory",
        version=VERSION_WITH_VECTORS if vectors else VERSION,
        exported_at=parts.clock(),
        embedding_spaces=[
            Space(
                name=one.name,
                dimensions=one.dimensions,
                state=one.state,
                probe=None if one.probe is None else one.probe.tolist(),
            )
            for one in spaces
            if one.state != "retired"
        ],
    )
    yield head.model_dump_json(exclude=None if vectors else {"embedding_spaces"})
    count, numbers = 0, [one.number for one in spaces]
    async for scope in scopes:
        ids = await parts.store.memories.kept(scope, Filter())
        for start in range(0, len(ids), PART):
            memories = await _read(parts, scope, ids[start : start + PART], numbers)
            count += len(memories)
            for line in await run_in_thread(READ, _lines, scope, memories, numbers):
                yield line
    yield End(memories=count).model_dump_json()


async def _read(
    parts: Components, scope: Scope, ids: Sequence[str], numbers: Sequence[int]
) -> Sequence[Whole]:
    """Return memories with their vectors of these embedding spaces; of a scope that never rests,
    without them.
    """
    store = parts.store.memories
    for _ in range(ATTEMPTS if numbers else 0):
        version = await store.version(scope)
        memories = await store.whole(scope, ids)
        kept = {number: await store.vectors(scope, number, ids) for number in numbers}
        if await store.version(scope) == version:  # else a vector may be of other words
            return [
                replace(
                    one,
                    vectors={
                        number: vectors[one.memory.id]
                        for number, vectors in kept.items()
                        if one.memory.id in vectors
                    },
                )
                for one in memories
            ]
    return await store.whole(scope, ids)


def _lines(scope: Scope, memories: Sequence[Whole], numbers: Sequence[int]) -> list[str]:
    places = {number: place for place, number in enumerate(numbers)}
    left_out = None if numbers else {"vectors"}
    lines: list[str] = []
    for one in memories:
        vectors = tuple(
            Numbers(places[number], tuple(vector.tolist()))
            for number, vector in one.vectors.items()
        )
        line = Line(scope, one.memory, one.revisions, vectors=vectors)
        lines.append(line_adapter().dump_json(line, exclude=left_out).decode().translate(LINE_ENDS))
    return lines


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
            InvalidInput: a tenant's callers would keep vectors of too many widths.
            ModelError: the embedder, which must say whether the vectors are its own, is
                unavailable.
            ConfigurationError: the embedder is not the one whose vectors the store holds.
        """
        await self.parts.caller_vectors.check_room(self.file.external)
        numbers = await self._space_numbers()
        forgotten = await self._forgotten()
        blocked = await self._with_derived(forgotten)
        touched: dict[Scope, None] = {}
        async for scope, lines in self._batches():
            left = [line for line in lines if line.memory.id not in blocked.get(scope, ())]
            self.counts["forgotten"] += len(lines) - len(left)
            memories = await run_in_thread(READ, self._with_vectors, left, numbers)
            if await self._restore(scope, memories):
                touched[scope] = None
            if self.progress is not None:
                self.progress(self.counts.total())
        if not self.dry_run:
            await self._forget_late(forgotten, blocked)
            await self._embed_later(touched)
        return Imported(**self.counts, vectors=self.vectors)

    async def _restore(self, scope: Scope, memories: Sequence[Whole]) -> bool:
        """Write memories and count the outcomes; return True if any was added."""
        outcomes = await self._outcomes(scope, memories, dry_run=self.dry_run)
        self.counts.update(outcomes)
        added = [one for one, outcome in zip(memories, outcomes, strict=True) if outcome == "added"]
        self.vectors += sum(len(one.vectors) for one in added)
        self.parts.retriever.has_short_term |= any(
            one.memory.state == "short_term" for one in added
        )
        return bool(added)

    async def _outcomes(
        self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool
    ) -> Sequence[Restored]:
        if not memories:
            return []
        memories = [replace(one, vectors={}) for one in memories] if dry_run else memories
        return await self.parts.store.memories.restore(
            scope, memories, dry_run=dry_run, now=self.parts.clock()
        )

    async def _batches(self, *, linked: bool = False) -> AsyncGenerator[tuple[Scope, list[Line]]]:
        """Read the file in a thread, a part at a time."""
        batches = self.file.batches(linked=linked)
        while batch := await run_in_thread(READ, next, batches, None):
            yield batch

    async def _forgotten(self) -> Mapping[Scope, set[str]]:
        """Return the linked memories of the file that were forgotten here."""
        forgotten = defaultdict[Scope, set[str]](set)
        if not self.file.linked:
            return forgotten
        async for scope, lines in self._batches(linked=True):
            memories = [Whole(line.memory, line.revisions) for line in lines]
            outcomes = await self._outcomes(scope, memories, dry_run=True)
            pairs = zip(memories, outcomes, strict=True)
            if ids := {one.memory.id for one, what in pairs if what == "forgotten"}:
                forgotten[scope] |= ids
        return forgotten

    async def _with_derived(self, forgotten: Mapping[Scope, set[str]]) -> Mapping[Scope, set[str]]:
        """Ask a store of its own, which holds the linked memories of these scopes, what goes with
        some of them.
        """
        if not forgotten:
            return {}
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            now, store = self.parts.clock(), await open_store(f"libsql:///{folder}/linked.db")
            try:
                async for scope, lines in self._batches(linked=True):
                    if scope in forgotten:
                        memories = await run_in_thread(READ, list, map(_bare, lines))
                        await store.memories.restore(scope, memories, now=now)
                return {
                    scope: ids | {*await store.forget(scope, ids=[*ids], dry_run=True, now=now)}
                    for scope, ids in forgotten.items()
                }
            finally:
                await store.close()

    async def _forget_late(
        self, before: Mapping[Scope, set[str]], blocked: Mapping[Scope, set[str]]
    ) -> None:
        """Erase what derives from a memory that was forgotten here while the import ran."""
        new = {
            scope: fresh
            for scope, ids in (await self._forgotten()).items()
            if (fresh := ids - before.get(scope, set()))
        }
        for scope, ids in (await self._with_derived(new)).items():
            late = sorted(ids - blocked.get(scope, set()))
            erased = len(await self.parts.store.forget(scope, ids=late, now=self.parts.clock()))
            self.counts["added"] -= erased
            self.counts["forgotten"] += erased

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
        numbers: dict[SpaceKey, int] = {}
        spaces = await self.parts.store.memories.spaces.all()
        own = [space for space in spaces if not space.name.startswith(EXTERNAL)]
        known = {(space.name, space.dimensions): space for space in own if space.state != "retired"}
        for space in self.file.spaces:
            if space.name.startswith(EXTERNAL):
                continue
            match = known.get(space.key)
            if match is None and not own and space.state == "current":
                match = await self._first_space(space)
            if (
                match
                and (match.name, match.dimensions) == space.key
                and same_model(match.probe, space.vector)
            ):
                numbers[space.key] = match.number
        for (_, width), scope in self.file.external.items():
            name, number = external_name(width), -width  # of a dry run: no other space has it
            if not self.dry_run:
                any_vector = np.ones(width, np.float32)
                space = await self.parts.caller_vectors.space_for(scope, name, any_vector)
                number = space.number
            numbers[name, width] = number
        return numbers

    async def _first_space(self, space: Space) -> EmbeddingSpace | None:
        """Return the embedding space of a store that has none yet: the embedder's, or without one
        the file's.
        """
        embedder = self.parts.vectors
        if embedder is not None and embedder.name != space.name:
            return None
        if self.dry_run:
            return EmbeddingSpace(number=0, name=space.name, dimensions=space.dimensions)
        if embedder is None:
            return await self.parts.store.memories.spaces.add(
                space.name, space.dimensions, space.vector
            )
        made, _ = await embedder.embed([], kind="document", tenant="")
        return made

    def _with_vectors(
        self, lines: Sequence[Line], numbers: Mapping[SpaceKey, int]
    ) -> Sequence[Whole]:
        """Return memories with those of their vectors that the store keeps."""
        return [
            Whole(
                line.memory,
                line.revisions,
                {
                    numbers[key]: vector
                    for key, vector in self.file.vectors_of(line)
                    if key in numbers
                },
            )
            for line in lines
        ]


def _bare(line: Line) -> Whole:
    """Return a memory with what links it to others alone: a digest in place of each text."""

    def bare(memory: Memory) -> Memory:
        digest = hashlib.sha256(memory.content.encode()).hexdigest()
        return replace(memory, content=digest, topics=(), tags=(), metadata={})

    revisions = [
        replace(one, before=one.before and bare(one.before), why="") for one in line.revisions
    ]
    return Whole(bare(line.memory), tuple(revisions))
