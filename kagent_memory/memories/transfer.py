"""Export and import: the file format, its checks and the import."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError
from typing_extensions import Unpack

from ..checks import described
from ..concurrency import LONG, run_in_thread
from ..errors import InvalidInput
from ..records import MAX_LINKS, Change, Memory, Revision, Scope
from ..stores.planning import checked
from ..stores.spaces import EXTERNAL, external_name
from ..stores.values import Batch, Erasure, Restored, ScopeQuery, Whole, every_state, with_after
from .opened import PART, Opened
from .types import Name, Progress, Vector
from .verbs import verb

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
        return Whole(
            self.memory,
            self.revisions,
            {spaces[len(row)]: row for row in self.vectors if len(row) in spaces},
        )


@cache
def line_adapter() -> TypeAdapter[Line]:
    """Return the adapter that reads and writes a line."""
    return TypeAdapter(Annotated[Line, AfterValidator(_checked_line)])


async def _batches(path: Path, tenant: str | None) -> AsyncGenerator[tuple[Scope, Sequence[Line]]]:
    """Read a file in a thread, and yield up to `PART` memories of one scope at a time.

    Raises:
        InvalidInput: it is no export, has another version or tenant, is cut off or damaged.
    """
    lines = _lines_of(path)
    while part := await run_in_thread(LONG + 1, list, islice(lines, PART)):
        for scope, of_scope in groupby(part, key=lambda line: line.scope):
            if tenant not in (None, scope.tenant):
                raise InvalidInput(
                    f"{path} holds memories of the tenant {scope.tenant!r}; this imports into "
                    f"{tenant!r} alone."
                )
            yield scope, [*of_scope]


def _lines_of(path: Path) -> Iterator[Line]:
    """Yield the lines between the first and the last.

    Raises:
        InvalidInput: see `_batches`.
    """
    number = 0
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
                    if stated != number - 2 or any(text.strip() for _, text in lines):
                        raise InvalidInput(
                            f"{path} should hold {stated} memories and holds {number - 2}, or "
                            "more follows; export it again."
                        )
                    return
                else:
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
    checked(
        Batch(
            changes=[Change(kind="add", memory=state) for state in states],
            taken=[(memory.id, id) for revision in revisions for id in revision.event_ids],
        ),
        None,
    )
    for state in states:
        if state.state != "source" and len(state.links) > MAX_LINKS:
            raise InvalidInput(f"It has {len(state.links)} links; at most {MAX_LINKS} are kept.")
    numbers = [*(revision.revision for revision in revisions), memory.revision]
    if numbers != sorted({*numbers}):
        raise InvalidInput(
            f"Its revisions have the numbers {numbers}; each has its own, in rising order."
        )
    return line


def _written(
    scope: Scope, wholes: Sequence[Whole], vectors: Sequence[Mapping[str, Vector]]
) -> Iterator[str]:
    for whole in wholes:
        own = tuple(by_id[whole.memory.id] for by_id in vectors if whole.memory.id in by_id)
        text = line_adapter().dump_json(
            Line(scope, whole.memory, whole.revisions, own), exclude=None if own else {"vectors"}
        )
        yield text.decode().translate(LINE_ENDS)


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

    async def each_scope(self, **which: Unpack[ScopeQuery]) -> AsyncGenerator[Scope]:
        """Yield every scope of a tenant, user or app; without any, all scopes."""
        while page := await self.scopes(**which):
            for scope in page:
                yield scope
            which["after"] = page[-1]

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
        yield Head(format="kagent-memory", version=1, exported_at=self.clock()).model_dump_json()
        count = 0
        async for scope in self.each_scope(tenant=tenant, user=user, app=app):
            async for wholes in self.wholes(scope):
                ids = [whole.memory.id for whole in wholes]
                vectors_of = [await store.vectors(scope, number, ids) for number in numbers]
                count += len(wholes)
                for line in await run_in_thread(
                    LONG + 1, list, _written(scope, wholes, vectors_of)
                ):
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
        file = Path(path)
        store = self.store.memories
        widths, blocked, has_derived = await self._survey(file, tenant)
        spaces = {
            width: (await store.spaces.add(external_name(width), width, None)).number
            for width in (() if dry_run else widths)
        }
        counts = Counter[Restored]()
        async for scope, lines in _batches(file, tenant):
            part = [line.whole(spaces) for line in lines if line.node not in blocked]
            counts.update(await store.restore(scope, part, dry_run=dry_run, now=self.clock()))
            counts["forgotten"] += len(lines) - len(part)
            if progress:
                progress(counts.total())
        if has_derived and not dry_run:
            _, blocked_now, _ = await self._survey(file, tenant)
            for scope, id in blocked_now - blocked:  # forgotten during the import
                erased = await self.store.forget(scope, Erasure(ids=[id], now=self.clock()))
                counts.update({"added": -len(erased), "forgotten": len(erased)})
        if not dry_run:
            await self.embed_later()
        return Imported(**counts)

    async def _survey(self, path: Path, tenant: str | None) -> tuple[set[int], set[Node], bool]:
        """Read a file to its end, so that nothing is written of one that cannot be imported whole.

        Returns:
            Three values:

            1. The widths of its vectors.
            2. The memories that must not come back: those that were forgotten here, and those that
               are forgotten with them. These are memories merged from them, withdrawn successors,
               and the history that they replaced.
            3. True if forgetting one memory of the file would take another one along.

        Raises:
            InvalidInput: see `_batches`.
        """
        widths = set[int]()
        fresh = set[Node]()  # forgotten, but not yet followed to what is forgotten with it
        withdrawn = set[Node]()
        forgotten = set[Node]()
        derived = defaultdict[Node, set[Node]](set)  # by memory, what is forgotten with it
        # a memory, each that ever took its place, and the kind of that change
        successors = list[tuple[Node, Node, str]]()
        async for scope, lines in _batches(path, tenant):
            outcomes = await self.store.memories.restore(
                scope, [line.whole({}) for line in lines], dry_run=True, now=self.clock()
            )
            fresh.update(
                line.node
                for line, outcome in zip(lines, outcomes, strict=True)
                if outcome == "forgotten"
            )
            for line in lines:
                widths.update(map(len, line.vectors))
                if line.memory.superseded_by:
                    derived[scope, line.memory.superseded_by].add(line.node)
                elif line.memory.state == "superseded":
                    withdrawn.add(line.node)
                successors += [
                    (line.node, (scope, after.superseded_by), revision.kind)
                    for revision, after in with_after(line.memory, line.revisions)
                    if after and after.superseded_by
                ]
        for node, other, kind in successors:
            if kind == "merge" or other in withdrawn:
                derived[node].add(other)
        while fresh:
            forgotten |= fresh
            fresh = {other for node in fresh for other in derived[node]} - forgotten
        return widths, forgotten, bool(derived)
