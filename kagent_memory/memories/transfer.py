"""Export and import: memories whole, one a line, from any store into any other."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ..concurrency import run_in_thread
from ..errors import StoreError
from ..records import Filter, Memory, Scope, Vector
from ..retrieval.embedding_spaces import same_model
from ..stores import Store, open_store
from ..stores.spaces import EXTERNAL, EmbeddingSpace, SpaceKey, external_name
from ..stores.values import Restored, Whole, embed_job
from .components import Components
from .export_file import (
    LINE_ENDS,
    PART,
    End,
    ExportFile,
    Head,
    Line,
    Numbers,
    Space,
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
    every = await parts.store.memories.spaces.all() if vectors else ()
    spaces = {space.number: Space.of(space) for space in every if space.state != "retired"}
    head = Head(
        format="kagent-memory",
        version=2 if vectors else 1,
        exported_at=parts.clock(),
        embedding_spaces=[*spaces.values()],
    )
    yield head.model_dump_json(exclude=None if vectors else {"embedding_spaces"})
    count = 0
    async for scope in scopes:
        ids = await parts.store.memories.kept(scope, Filter())
        for start in range(0, len(ids), PART):
            memories, kept = await _read(parts, scope, ids[start : start + PART], [*spaces])
            count += len(memories)
            for line in await run_in_thread(READ, _lines, scope, memories, kept, vectors):
                yield line
    yield End(memories=count).model_dump_json()


async def _read(
    parts: Components, scope: Scope, ids: Sequence[str], numbers: Sequence[int]
) -> tuple[Sequence[Whole], Sequence[Mapping[str, Vector]]]:
    """Return memories, and their vectors of each of these embedding spaces; none of a scope that
    never rests, where a vector may be of other words.
    """
    store = parts.store.memories
    memories: Sequence[Whole] = ()
    for _ in range(ATTEMPTS if numbers else 0):
        version = await store.version(scope)
        memories = await store.whole(scope, ids)
        vectors = [await store.vectors(scope, number, ids) for number in numbers]
        if await store.version(scope) == version:
            return memories, vectors
    return memories or await store.whole(scope, ids), ()


def _lines(
    scope: Scope,
    memories: Sequence[Whole],
    kept: Sequence[Mapping[str, Vector]],
    has_vectors: bool,
) -> list[str]:
    lines: list[str] = []
    for whole in memories:
        vectors = tuple(
            Numbers(place, tuple(of_space[whole.memory.id].tolist()))
            for place, of_space in enumerate(kept)
            if whole.memory.id in of_space
        )
        line = Line(scope, whole.memory, whole.revisions, vectors)
        text = line_adapter().dump_json(line, exclude=None if has_vectors else {"vectors"})
        lines.append(text.decode().translate(LINE_ENDS))
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
            StoreError: no temporary file can be made.
        """
        for tenant, widths in self.file.widths.items():
            await self.parts.caller_vectors.check_room(tenant, widths)
        numbers = await self._space_numbers()
        blocked = await self._forgotten({})
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
            # what was forgotten here while the import ran
            for scope, ids in (await self._forgotten(blocked)).items():
                late = sorted(ids - blocked.get(scope, set()))
                erased = await self.parts.store.forget(scope, ids=late, now=self.parts.clock())
                self.counts.update({"added": -len(erased), "forgotten": len(erased)})
            await self._embed_later(touched)
        return Imported(**self.counts, vectors=self.vectors)

    async def _restore(self, scope: Scope, memories: Sequence[Whole]) -> bool:
        """Write memories and count the outcomes; return True if any was added."""
        outcomes = await self._outcomes(scope, memories, dry_run=self.dry_run)
        self.counts.update(outcomes)
        added = [
            whole for whole, outcome in zip(memories, outcomes, strict=True) if outcome == "added"
        ]
        self.vectors += sum(len(whole.vectors) for whole in added)
        self.parts.retriever.has_short_term |= any(
            whole.memory.state == "short_term" for whole in added
        )
        return bool(added)

    async def _outcomes(
        self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool
    ) -> Sequence[Restored]:
        if not memories:
            return []
        memories = [replace(whole, vectors={}) for whole in memories] if dry_run else memories
        return await self.parts.store.memories.restore(
            scope, memories, dry_run=dry_run, now=self.parts.clock()
        )

    async def _batches(self, *, linked: bool = False) -> AsyncGenerator[tuple[Scope, list[Line]]]:
        """Read the file in a thread, a part at a time."""
        batches = self.file.batches(linked=linked)
        while batch := await run_in_thread(READ, next, batches, None):
            yield batch

    async def _forgotten(self, known: Mapping[Scope, set[str]]) -> Mapping[Scope, set[str]]:
        """Return what the file holds of linked memories that were forgotten here and are not
        `known`, and of what goes with them.
        """
        forgotten = defaultdict[Scope, set[str]](set)
        if not self.file.linked:
            return forgotten
        async for scope, lines in self._batches(linked=True):
            memories = [Whole(line.memory, line.revisions) for line in lines]
            outcomes = await self._outcomes(scope, memories, dry_run=True)
            pairs = zip(memories, outcomes, strict=True)
            gone = {whole.memory.id for whole, outcome in pairs if outcome == "forgotten"}
            if new := gone - known.get(scope, set()):
                forgotten[scope] |= new
        if forgotten:
            await self._add_derived(forgotten)
        return forgotten

    async def _add_derived(self, forgotten: Mapping[Scope, set[str]]) -> None:
        """Add what goes with forgotten memories, as a store tells that holds the linked memories of
        these scopes alone.
        """
        now = self.parts.clock()
        async with _temporary_store() as store:
            async for scope, lines in self._batches(linked=True):
                if scope in forgotten:
                    memories = await run_in_thread(READ, list, map(_bare, lines))
                    await store.memories.restore(scope, memories, now=now)
            for scope, ids in forgotten.items():
                ids |= {*await store.forget(scope, ids=[*ids], dry_run=True, now=now)}

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
        known = {space.key: space for space in own if space.state != "retired"}
        for space in self.file.spaces:
            if space.name.startswith(EXTERNAL):
                continue
            match = known.get(space.key)
            if match is None and not own and space.state == "current":
                match = await self._first_space(space)
            if match and match.key == space.key and same_model(match.probe, space.vector):
                numbers[space.key] = match.number
        for tenant, widths in self.file.widths.items():
            for width in widths:
                number = -width  # of a dry run: no other space has it
                if not self.dry_run:
                    space = await self.parts.caller_vectors.external_space(tenant, width)
                    number = space.number
                numbers[external_name(width), width] = number
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
        memories: list[Whole] = []
        for line in lines:
            kept = {
                numbers[key]: vector for key, vector in self.file.vectors_of(line) if key in numbers
            }
            memories.append(Whole(line.memory, line.revisions, kept))
        return memories


@asynccontextmanager
async def _temporary_store() -> AsyncGenerator[Store]:
    """Open a store in a file that goes when it is closed.

    Raises:
        StoreError: no such file can be made.
    """
    try:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    except OSError as error:
        raise StoreError(f"No temporary file can be made: {error}.") from error
    with folder as path:
        async with await open_store(f"libsql:///{path}/linked.db") as store:
            yield store


def _bare(line: Line) -> Whole:
    """Return a memory with what links it to others alone: a digest in place of each text."""

    def bare(memory: Memory) -> Memory:
        digest = hashlib.sha256(memory.content.encode()).hexdigest()
        return replace(memory, content=digest, topics=(), tags=(), metadata={})

    revisions = [
        replace(revision, before=revision.before and bare(revision.before), why="")
        for revision in line.revisions
    ]
    return Whole(bare(line.memory), tuple(revisions))
