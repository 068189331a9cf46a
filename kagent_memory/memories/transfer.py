"""Import of a file that `export` wrote, from any store into any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

from ..concurrency import batched, run_in_thread
from ..records import Scope
from ..stores.spaces import external_name
from ..stores.values import Restored, Whole, embed_job
from .export_file import PART, READ, ExportFile, Node
from .findings import Progress
from .opened import Opened

Part: TypeAlias = tuple[Scope, Sequence[Whole]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Counts of an import, or of a dry run of one.

    Attributes:
        added: memories that are there now.
        present: those that were there already, by their id.
        equal: those left out because another one says the same.
        forgotten: those left out because they were forgotten here.
        vectors: how many vectors of callers came along; the others are made anew.
    """

    added: int = 0
    present: int = 0
    equal: int = 0
    forgotten: int = 0
    vectors: int = field(default=0, compare=False)


async def import_file(
    memories: Opened, file: ExportFile, *, dry_run: bool, progress: Progress | None
) -> Imported:
    """Import a checked file; see `Memories.import_`."""
    store = memories.store.memories
    numbers = {width: width for width in file.widths}  # of a dry run, which adds no space
    for width in () if dry_run else file.widths:
        numbers[width] = (await store.spaces.add(external_name(width), width, None)).number
    blocked, counts, vectors = await _forgotten(memories, file), Counter[Restored](), 0
    async for scope, part in _in_thread(file.batches(numbers)):
        comings = [whole for whole in part if (scope, whole.memory.id) not in blocked]
        rows = [replace(whole, vectors={}) for whole in comings] if dry_run else comings
        outcomes = await store.restore(scope, rows, dry_run=dry_run, now=memories.clock())
        counts["forgotten"] += len(part) - len(comings)
        counts.update(outcomes)
        vectors += sum(
            len(whole.vectors)
            for whole, outcome in zip(comings, outcomes, strict=True)
            if outcome == "added"
        )
        if progress is not None:
            progress(counts.total())
    if not dry_run:
        for scope, id in await _forgotten(memories, file) - blocked:  # while the import ran
            erased = await memories.store.forget(scope, ids=[id], now=memories.clock())
            counts.update({"added": -len(erased), "forgotten": len(erased)})
        if memories.vectors is not None:
            await _embed_later(memories, [*file.scopes])
    return Imported(**counts, vectors=vectors)


async def _embed_later(memories: Opened, scopes: Sequence[Scope]) -> None:
    """Queue the embedding of whole scopes: an import that broke off may have left memories too."""
    spaces = await memories.store.memories.spaces.all()
    names = ["", *(space.name for space in spaces if space.state == "filling")]
    for batch in batched(scopes, PART):
        now = memories.clock()
        await memories.store.enqueue([embed_job(*job) for job in product(batch, [now], names)])
    memories.worker.wake()


async def _forgotten(memories: Opened, file: ExportFile) -> set[Node]:
    """Return what the file holds of memories that were forgotten here and take others along,
    with those others.
    """
    forgotten = set[Node]()
    if not file.derived:
        return forgotten
    async for scope, part in _in_thread(file.batches(deriving=True)):
        outcomes = await memories.store.memories.restore(
            scope, part, dry_run=True, now=memories.clock()
        )
        forgotten |= {
            (scope, whole.memory.id)
            for whole, outcome in zip(part, outcomes, strict=True)
            if outcome == "forgotten"
        }
    return file.with_derived(forgotten)


async def _in_thread(parts: Iterator[Part]) -> AsyncGenerator[Part]:
    """Read a file in a thread, a part at a time."""
    while part := await run_in_thread(READ, next, parts, None):
        yield part
