"""Export and import: the file format, its checks and the import."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from itertools import groupby, islice, product
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError

from ..checks import faults
from ..concurrency import batched, run_in_thread
from ..errors import InvalidInput
from ..records import MAX_LINKS, Change, Filter, Memory, Revision, Scope
from ..stores.planning import checked
from ..stores.spaces import EXTERNAL
from ..stores.values import Batch, Erasure, Restored, Whole, embed_job, with_after
from .caller_vectors import brought, space_of
from .opened import Opened
from .types import Progress, Vector

PART = 200
MAX_LINE_BYTES = 64 * 2**20
READ = 1_000_000  # characters; reading lines always goes to a thread
# separators that some readers take for line ends
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}
Node: TypeAlias = tuple[Scope, str]
"""A memory of the file, by its scope and id."""


class Head(BaseModel, extra="forbid"):
    """The first line."""

    format: Literal["kagent-memory"]
    version: Literal[1]
    exported_at: datetime


class End(BaseModel, extra="forbid"):
    """The last line, without which the file was cut off."""

    end: Literal[True] = True
    memories: int


@dataclass(frozen=True, slots=True)
class Line:
    """Every other line: a memory with its scope and history.

    Attributes:
        vectors: the vectors that callers brought, at most one of each width.
    """

    scope: Scope
    memory: Memory
    revisions: tuple[Revision, ...] = ()
    vectors: tuple[Vector, ...] = ()

    def whole(self, numbers: Mapping[int, int]) -> Whole:
        """Return the memory with its vectors in these embedding spaces, by width."""
        vectors = {numbers[len(row)]: row for row in self.vectors if len(row) in numbers}
        return Whole(self.memory, self.revisions, vectors)


@cache
def line_adapter() -> TypeAdapter[Line]:
    """Return the adapter that reads and writes a line."""
    return TypeAdapter(Annotated[Line, AfterValidator(_checked_line)])


@dataclass(slots=True)
class ExportFile:
    """A file that `export` wrote.

    Attributes:
        widths: the widths of the vectors that callers brought.
        derived: by memory, the memories that are forgotten with it: those merged from it, withdrawn
            successors, and the history that it replaced.
        successors: memories with those that ever superseded them.
        scopes: the scopes, each once.
        withdrawn: superseding memories that were undone.
    """

    path: Path
    widths: set[int] = field(default_factory=set[int])
    derived: defaultdict[Node, set[Node]] = field(default_factory=lambda: defaultdict(set))
    successors: list[tuple[Node, Node]] = field(default_factory=list[tuple[Node, Node]])
    scopes: dict[Scope, Scope] = field(default_factory=dict[Scope, Scope])
    withdrawn: set[Node] = field(default_factory=set[Node])

    @classmethod
    def checked(cls, path: Path, tenant: str | None) -> ExportFile:
        """Read the file to its end, so that nothing is written of a file that cannot be imported
        whole.

        Raises:
            InvalidInput: it is no export, has another version or tenant, is cut off or damaged.
        """
        file = cls(path)
        for number, line in enumerate(file._lines(), start=2):
            owner = line.scope.tenant
            if tenant not in (None, owner):
                raise InvalidInput(
                    f"Line {number} of {path} is of the tenant {owner!r}; this imports into "
                    f"{tenant!r} alone."
                )
            file.widths |= {*map(len, line.vectors)}
            file._note_derived(line)
        for node, other in file.successors:
            if other in file.withdrawn:
                file.derived[node].add(other)
        file.successors.clear()
        return file

    def _note_derived(self, line: Line) -> None:
        memory, scope = line.memory, self.scopes.setdefault(line.scope, line.scope)
        node = scope, memory.id
        if memory.superseded_by is not None:
            self.derived[scope, memory.superseded_by].add(node)
        elif memory.state == "superseded":
            self.withdrawn.add(node)
        for revision, after in with_after(memory, line.revisions):
            if after is not None and after.superseded_by is not None:
                other = scope, after.superseded_by
                if revision.kind == "merge":
                    self.derived[node].add(other)
                else:
                    self.successors.append((node, other))

    async def batches(
        self, numbers: Mapping[int, int] = {}, *, deriving: bool = False
    ) -> AsyncGenerator[tuple[Scope, Sequence[Whole]]]:
        """Read the file in a thread, and yield up to `PART` memories of one scope at a time.

        Args:
            numbers: the embedding spaces of callers' vectors by width; vectors of other widths are
                left out.
            deriving: only yield memories that others are forgotten with.
        """
        lines = self._lines()
        if deriving:
            lines = (line for line in lines if (line.scope, line.memory.id) in self.derived)
        runs = groupby(lines, key=lambda line: line.scope)
        while run := await run_in_thread(READ, next, runs, None):
            scope, of_scope = run
            while part := await run_in_thread(READ, list, islice(of_scope, PART)):
                yield scope, [line.whole(numbers) for line in part]

    def with_derived(self, forgotten: Iterable[Node]) -> set[Node]:
        """Return forgotten memories with all memories that must not come back because of them."""
        reached, fresh = set[Node](), {*forgotten}
        while fresh:
            reached |= fresh
            fresh = {other for node in fresh for other in self.derived.get(node, ())} - reached
        return reached

    def _lines(self) -> Iterator[Line]:
        """Yield the lines between the first and the last.

        Raises:
            InvalidInput: as `checked`.
        """
        path, number, count = self.path, 0, 0
        with opened(path) as file:
            lines = enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1)
            try:
                for number, text in lines:
                    if len(text) > MAX_LINE_BYTES:
                        raise InvalidInput(
                            f"Line {number} of {path} is longer than {MAX_LINE_BYTES:,} bytes."
                        )
                    if number == 1:
                        Head.model_validate_json(text)
                    elif text.startswith(b'{"end"'):
                        stated = End.model_validate_json(text).memories
                        if stated != count or any(text.strip() for _, text in lines):
                            raise InvalidInput(
                                f"{path} should hold {stated} memories and holds {count}, or more "
                                "follows; export it again."
                            )
                        return
                    else:
                        count += 1
                        yield line_adapter().validate_json(text, strict=True, extra="forbid")
            except ValidationError as error:
                what = ": ".join(filter(None, faults(error)[0]))
                raise InvalidInput(
                    f"Line {number} of {path} cannot be imported: {what}. If an earlier version "
                    "wrote the file, export it again."
                ) from error
        raise InvalidInput(f"{path} was cut off after line {number}; export it again.")


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """Open a regular file for reading; pipes, devices and folders are refused unopened.

    Raises:
        InvalidInput: it is no regular file, or cannot be read.
    """
    try:
        if path.exists() and not path.is_file():
            raise InvalidInput(f"{path} cannot be read: it is no regular file.")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error


def _checked_line(line: Line) -> Line:
    memory, revisions = line.memory, line.revisions
    changes = [Change(kind="add", memory=memory)]
    for revision in revisions:
        state = revision.before or memory
        if {revision.memory_id, state.id} != {memory.id}:
            raise InvalidInput("A revision is of another memory.")
        changes.append(Change(kind="add", memory=state, event_ids=revision.event_ids))
    checked(Batch(changes=changes), None)
    for state in (change.memory for change in changes):
        if state.state != "source" and len(state.links) > MAX_LINKS:
            raise InvalidInput(f"It has {len(state.links)} links; at most {MAX_LINKS} are kept.")
    for vector in line.vectors:
        brought(vector)
    numbers = [revision.revision for revision in revisions]
    if len(set(numbers)) < len(numbers) or max(numbers, default=0) >= memory.revision:
        raise InvalidInput(
            f"Its revisions have the numbers {numbers}; each has its own, below the memory's."
        )
    return line


async def export(
    memories: Opened, scopes: AsyncIterable[Scope], *, vectors: bool
) -> AsyncGenerator[str]:
    """Yield all memories of some scopes as lines; see `Memories.export`."""
    await memories.deliveries.flush()
    store = memories.store.memories
    spaces = await store.spaces.all() if vectors else ()
    numbers = [space.number for space in spaces if space.name.startswith(EXTERNAL)]
    head = Head(format="kagent-memory", version=1, exported_at=memories.clock())
    yield head.model_dump_json()
    count = 0
    async for scope in scopes:
        ids = await store.kept(scope, Filter())
        for part in batched(ids, PART):
            every = await store.whole(scope, part)
            kept = [await store.vectors(scope, number, part) for number in numbers]
            count += len(every)
            for line in await run_in_thread(READ, _lines, scope, every, kept):
                yield line
    yield End(memories=count).model_dump_json()


def _lines(scope: Scope, every: Sequence[Whole], kept: Sequence[Mapping[str, Vector]]) -> list[str]:
    lines: list[str] = []
    for whole in every:
        id = whole.memory.id
        vectors = tuple(by_id[id] for by_id in kept if id in by_id)
        line = Line(scope, whole.memory, whole.revisions, vectors)
        text = line_adapter().dump_json(line, exclude=None if vectors else {"vectors"})
        lines.append(text.decode().translate(LINE_ENDS))
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The counts of an import or of its dry run.

    Attributes:
        added: new memories.
        present: memories whose ids exist already.
        equal: memories left out because another one says the same.
        forgotten: memories left out because they were forgotten here.
    """

    added: int = 0
    present: int = 0
    equal: int = 0
    forgotten: int = 0


async def import_file(
    memories: Opened, file: ExportFile, *, dry_run: bool, progress: Progress | None
) -> Imported:
    """Import a checked file; see `Memories.import_`."""
    store, numbers = memories.store.memories, dict[int, int]()
    for width in () if dry_run else file.widths:
        numbers[width] = (await space_of(store, width)).number
    blocked, counts = await _forgotten(memories, file), Counter[Restored]()
    async for scope, part in file.batches(numbers):
        coming = [whole for whole in part if (scope, whole.memory.id) not in blocked]
        counts.update(await store.restore(scope, coming, dry_run=dry_run, now=memories.clock()))
        counts["forgotten"] += len(part) - len(coming)
        if progress is not None:
            progress(counts.total())
    if not dry_run:
        for scope, id in await _forgotten(memories, file) - blocked:  # during the import
            erased = await memories.store.forget(scope, Erasure(ids=[id], now=memories.clock()))
            counts.update({"added": -len(erased), "forgotten": len(erased)})
        if memories.vectors is not None:
            await _embed_later(memories, [*file.scopes])
    return Imported(**counts)


async def _embed_later(memories: Opened, scopes: Sequence[Scope]) -> None:
    """Queue the embedding of whole scopes, since an interrupted import may have left
    memories too.
    """
    spaces = await memories.store.memories.spaces.all()
    names = ["", *(space.name for space in spaces if space.state == "filling")]
    for batch in batched(scopes, PART):
        now = memories.clock()
        await memories.store.enqueue([embed_job(*job) for job in product(batch, [now], names)])
    memories.worker.wake()


async def _forgotten(memories: Opened, file: ExportFile) -> set[Node]:
    """Return the memories of the file that were forgotten here, with the memories forgotten with
    them.
    """
    forgotten = set[Node]()
    if not file.derived:
        return forgotten
    async for scope, part in file.batches(deriving=True):
        outcomes = await memories.store.memories.restore(
            scope, part, dry_run=True, now=memories.clock()
        )
        forgotten |= {
            (scope, whole.memory.id)
            for whole, outcome in zip(part, outcomes, strict=True)
            if outcome == "forgotten"
        }
    return file.with_derived(forgotten)
