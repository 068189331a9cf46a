"""Export and import: the file format, its checks and the import."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import (
    AsyncGenerator,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError

from ..checks import described
from ..concurrency import LONG, batched, run_in_thread
from ..errors import InvalidInput
from ..records import MAX_LINKS, Change, Filter, Memory, Revision, Scope
from ..stores.planning import checked
from ..stores.spaces import EXTERNAL
from ..stores.values import (
    Batch,
    Erasure,
    Restored,
    Whole,
    every_state,
    with_after,
)
from .caller_vectors import space_of
from .opened import Opened
from .types import Name, Progress, Vector
from .verbs import verb

PART = 200
MAX_LINE_BYTES = 64 * 2**20
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

    @property
    def node(self) -> Node:
        """Return the scope and the id of the memory."""
        return self.scope, self.memory.id

    def whole(self, spaces: Mapping[int, int]) -> Whole:
        """Return the memory with its vectors, for the embedding spaces by width."""
        vectors = {spaces[len(row)]: row for row in self.vectors if len(row) in spaces}
        return Whole(self.memory, self.revisions, vectors)


@cache
def line_adapter() -> TypeAdapter[Line]:
    """Return the adapter that reads and writes a line."""
    return TypeAdapter(Annotated[Line, AfterValidator(_checked_line)])


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file that `export` wrote and that can be imported whole.

    Attributes:
        widths: the widths of the vectors that callers brought.
        derived: by memory, the memories that are forgotten with it: those merged from it, withdrawn
            successors, and the history that it replaced.
    """

    path: Path
    widths: set[int] = field(default_factory=set[int])
    derived: defaultdict[Node, set[Node]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    async def checked(cls, path: Path, tenant: str | None) -> ExportFile:
        """Read the file to its end, so that nothing is written of a file that cannot be imported
        whole.

        Raises:
            InvalidInput: it is no export, has another version or tenant, is cut off or damaged.
        """
        file, withdrawn = cls(path), set[Node]()
        # a memory, each that ever took its place, and the kind of that change
        successors = list[tuple[Node, Node, str]]()
        async for scope, lines in file.batches():
            if tenant not in (None, scope.tenant):
                raise InvalidInput(
                    f"{path} holds memories of the tenant {scope.tenant!r}; this imports into "
                    f"{tenant!r} alone."
                )
            for line in lines:
                file.widths.update(map(len, line.vectors))
                if line.memory.superseded_by:
                    file.derived[scope, line.memory.superseded_by].add(line.node)
                elif line.memory.state == "superseded":
                    withdrawn.add(line.node)
                successors += [
                    (line.node, (scope, after.superseded_by), revision.kind)
                    for revision, after in with_after(line.memory, line.revisions)
                    if after and after.superseded_by
                ]
        for node, other, kind in successors:
            if kind == "merge" or other in withdrawn:
                file.derived[node].add(other)
        return file

    async def batches(
        self, *, deriving: bool = False
    ) -> AsyncGenerator[tuple[Scope, Sequence[Line]]]:
        """Read the file in a thread, and yield up to `PART` memories of one scope at a time.

        Args:
            deriving: only yield memories that others are forgotten with.
        """
        every = _lines_of(self.path)
        lines = (line for line in every if line.node in self.derived) if deriving else every
        while part := await run_in_thread(LONG + 1, list, islice(lines, PART)):
            for scope, of_scope in groupby(part, key=lambda line: line.scope):
                yield scope, [*of_scope]


def _lines_of(path: Path) -> Iterator[Line]:
    """Yield the lines between the first and the last.

    Raises:
        InvalidInput: as `ExportFile.checked`.
    """
    number, count = 0, 0
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
            raise InvalidInput(
                f"Line {number} of {path} cannot be imported: {described(error)}. If an earlier "
                "version wrote the file, export it again."
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
    states = every_state(memory, revisions)
    if {*(state.id for state in states), *(each.memory_id for each in revisions)} != {memory.id}:
        raise InvalidInput("A revision is of another memory.")
    event_ids = tuple(chain.from_iterable(revision.event_ids for revision in revisions))
    changes = [Change(kind="add", memory=state) for state in states]
    # the events of all revisions once, so that the work is linear
    changes.append(Change(kind="add", memory=memory, event_ids=event_ids))
    checked(Batch(changes=changes), None)
    for state in states:
        if state.state != "source" and len(state.links) > MAX_LINKS:
            raise InvalidInput(f"It has {len(state.links)} links; at most {MAX_LINKS} are kept.")
    numbers = [revision.revision for revision in revisions]
    if (
        len({*numbers, memory.revision}) <= len(numbers)
        or max(numbers, default=0) > memory.revision
    ):
        raise InvalidInput(
            f"Its revisions have the numbers {numbers}; each has its own, below the memory's."
        )
    return line


def _written(
    scope: Scope, wholes: Sequence[Whole], vectors: Sequence[Mapping[str, Vector]]
) -> list[str]:
    lines: list[str] = []
    for whole in wholes:
        own = tuple(by_id[whole.memory.id] for by_id in vectors if whole.memory.id in by_id)
        text = line_adapter().dump_json(
            Line(scope, whole.memory, whole.revisions, own), exclude=None if own else {"vectors"}
        )
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


class Transfer(Opened):
    """The verbs of `Memories` that go through scopes and carry memories to another store."""

    @verb("GET /scopes")
    async def scopes(
        self,
        *,
        tenant: Name | None = None,
        user: Name | None = None,
        app: Name | None = None,
        after: Scope | None = None,
        limit: int = 1000,
    ) -> Sequence[Scope]:
        """Return scopes with memories or jobs, in order of (tenant, app, user).

        Args:
            tenant: only scopes of this tenant.
            user: only scopes of this user.
            app: only scopes of this app.
            after: only scopes after this one, the last of the previous page.
            limit: the most scopes to return.
        """
        return await self.store.scopes(tenant=tenant, user=user, app=app, after=after, limit=limit)

    async def each_scope(
        self, *, tenant: str | None = None, user: str | None = None, app: str | None = None
    ) -> AsyncGenerator[Scope]:
        """Yield every scope of a tenant, user or app; without any, all scopes."""
        after: Scope | None = None
        while page := await self.scopes(tenant=tenant, user=user, app=app, after=after):
            for scope in page:
                yield scope
            after = page[-1]

    @verb("GET /export")
    async def export(
        self,
        *,
        tenant: Name | None = None,
        user: Name | None = None,
        app: Name | None = None,
        vectors: bool = False,
    ) -> AsyncGenerator[str]:
        """Yield all memories as lines of JSON in the documented format, with history, usage and
        expiry, superseded and expired ones included. Only a part of them is in memory at a time.

        Args:
            tenant: only memories of this tenant; None: all.
            user: only memories of this user.
            app: only memories of this app.
            vectors: include the vectors that callers brought; those of an embedder are made anew at
                import.

        Raises:
            NotFound: the caller of a server may not see these memories.
        """
        await self.deliveries.flush()
        store = self.store.memories
        spaces = await store.spaces.all() if vectors else ()
        numbers = [space.number for space in spaces if space.name.startswith(EXTERNAL)]
        head = Head(format="kagent-memory", version=1, exported_at=self.clock())
        yield head.model_dump_json()
        count = 0
        async for scope in self.each_scope(tenant=tenant, user=user, app=app):
            ids = await store.kept(scope, Filter())
            for part in batched(ids, PART):
                wholes = await store.whole(scope, part)
                vectors_of = [await store.vectors(scope, number, part) for number in numbers]
                count += len(wholes)
                for line in await run_in_thread(LONG + 1, _written, scope, wholes, vectors_of):
                    yield line
        yield End(memories=count).model_dump_json()

    @verb("POST /import")
    async def import_(
        self,
        path: Path | str,
        *,
        tenant: Name | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        """Import the output of `export`, all of it or nothing.

        The file is read to its end before anything is written. Memories that exist already, or were
        forgotten here, are left as they are, so calling again continues an interrupted import.
        Callers' vectors in the file are kept; the embedder makes its own later.

        Args:
            path: the file; its text is stored unchanged, secrets included.
            tenant: the only tenant whose memories the file may hold; None: any.
            dry_run: only count what would be done.
            progress: called with the number of memories done so far.

        Raises:
            InvalidInput: the file is no export, has another version or tenant, or is damaged.
            ConfigurationError: the store does not support import.
        """
        file = await ExportFile.checked(Path(path), tenant)
        store, spaces = self.store.memories, dict[int, int]()
        for width in () if dry_run else file.widths:
            spaces[width] = (await space_of(store, width)).number
        blocked, counts = await _forgotten(self, file), Counter[Restored]()
        async for scope, lines in file.batches():
            part = [line.whole(spaces) for line in lines if line.node not in blocked]
            counts.update(await store.restore(scope, part, dry_run=dry_run, now=self.clock()))
            counts["forgotten"] += len(lines) - len(part)
            if progress is not None:
                progress(counts.total())
        if not dry_run:
            for scope, id in await _forgotten(self, file) - blocked:  # during the import
                erased = await self.store.forget(scope, Erasure(ids=[id], now=self.clock()))
                counts.update({"added": -len(erased), "forgotten": len(erased)})
            if self.vectors is not None:
                await self.embed_later(self.vectors)
        return Imported(**counts)


async def _forgotten(memories: Opened, file: ExportFile) -> set[Node]:
    """Return the memories of the file that were forgotten here, with all that must not come back
    because of them.
    """
    forgotten, fresh = set[Node](), set[Node]()
    if not file.derived:
        return forgotten
    async for scope, lines in file.batches(deriving=True):
        outcomes = await memories.store.memories.restore(
            scope, [line.whole({}) for line in lines], dry_run=True, now=memories.clock()
        )
        pairs = zip(lines, outcomes, strict=True)
        fresh.update(line.node for line, outcome in pairs if outcome == "forgotten")
    while fresh:
        forgotten |= fresh
        fresh = {other for node in fresh for other in file.derived[node]} - forgotten
    return forgotten
