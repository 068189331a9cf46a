"""The file that `Memories.export` writes: memories whole, one a line, and what is checked of them
when they are read.
"""

from __future__ import annotations

from collections import defaultdict
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
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    StrictFloat,
    TypeAdapter,
    ValidationError,
)

from ..checks import faults
from ..concurrency import batched, run_in_thread
from ..errors import InvalidInput
from ..records import MAX_LINKS, Change, Filter, Memory, Revision, Scope, Vector
from ..stores.planning import checked
from ..stores.spaces import EXTERNAL, checked_vector, external_name
from ..stores.values import Batch, Whole, with_after
from .caller_vectors import is_kept
from .opened import Opened

PART = 200
MAX_LINE_BYTES = 64 * 2**20
READ = 1_000_000  # characters: lines of a file are work for a thread, however long they are
# what some readers take for one
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}
Node: TypeAlias = tuple[Scope, str]
"""A memory of the file, by its scope and id."""


class Head(BaseModel, extra="forbid"):
    """The first line."""

    format: Literal["kagent-memory"]
    version: Literal[1]
    exported_at: datetime


class End(BaseModel, extra="forbid"):
    """The last line: without it the file was cut off."""

    end: Literal[True] = True
    memories: int


def _checked_numbers(numbers: tuple[float, ...]) -> tuple[float, ...]:
    checked_vector(numbers, None)
    return numbers


@dataclass(frozen=True, slots=True)
class Numbers:
    """A vector of a line, with the name of its embedding space."""

    space: str
    numbers: Annotated[tuple[StrictFloat, ...], AfterValidator(_checked_numbers)]


@dataclass(frozen=True, slots=True)
class Line:
    """Every other line: a memory, whose it is, and its history.

    Attributes:
        vectors: in an export with vectors, those that callers brought; others are made anew.
    """

    scope: Scope
    memory: Memory
    revisions: tuple[Revision, ...] = ()
    vectors: tuple[Numbers, ...] = ()

    @property
    def own_vectors(self) -> Mapping[int, Vector]:
        """Return the vectors that a caller brought, by their width; others are left out."""
        return {
            width: checked_vector(vector.numbers, width)
            for vector in self.vectors
            if is_kept(width := len(vector.numbers)) and vector.space == external_name(width)
        }


@cache
def line_adapter() -> TypeAdapter[Line]:
    """Return what reads and writes a line."""
    return TypeAdapter(Annotated[Line, AfterValidator(_checked_line)])


@dataclass(slots=True)
class ExportFile:
    """A file that `export` wrote.

    Attributes:
        widths: of the vectors that callers brought.
        derived: by memory, those that go where it is forgotten: what a merge made of it, what took
            its place and was withdrawn, and the history that it stands for.
        successors: memories with those that ever took their place.
        scopes: each once, however many memories it has.
        withdrawn: memories that took the place of others, and were undone.
    """

    path: Path
    widths: set[int] = field(default_factory=set[int])
    derived: defaultdict[Node, set[Node]] = field(default_factory=lambda: defaultdict(set))
    successors: list[tuple[Node, Node]] = field(default_factory=list[tuple[Node, Node]])
    scopes: dict[Scope, Scope] = field(default_factory=dict[Scope, Scope])
    withdrawn: set[Node] = field(default_factory=set[Node])

    @classmethod
    def checked(cls, path: Path, tenant: str | None) -> ExportFile:
        """Read the file to its end, so that nothing is written of one that cannot be imported
        whole.

        Raises:
            InvalidInput: it is no export, of an unknown version, cut off, damaged, or of another
                tenant.
        """
        file = cls(path)
        for number, line in enumerate(file._lines(), start=2):
            owner = line.scope.tenant
            if tenant not in (None, owner):
                raise InvalidInput(
                    f"Line {number} of {path} is of the tenant {owner!r}; this imports into "
                    f"{tenant!r} alone."
                )
            file.widths |= line.own_vectors.keys()
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

    def batches(
        self, numbers: Mapping[int, int] = {}, *, deriving: bool = False
    ) -> Iterator[tuple[Scope, Sequence[Whole]]]:
        """Yield the memories, up to `PART` of one scope at a time.

        Args:
            numbers: of the embedding spaces of callers' vectors there, by width; others are left
                out.
            deriving: only memories that take others along when they are forgotten.
        """
        lines = self._lines()
        if deriving:
            lines = (line for line in lines if (line.scope, line.memory.id) in self.derived)
        for scope, of_scope in groupby(lines, key=lambda line: line.scope):
            while part := list(islice(of_scope, PART)):
                yield scope, [_whole(line, numbers) for line in part]

    def with_derived(self, forgotten: Iterable[Node]) -> set[Node]:
        """Return forgotten memories with all that must not come back because of them."""
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
                        yield line_adapter().validate_json(text, extra="forbid")
            except ValidationError as error:
                what = ": ".join(filter(None, faults(error)[0]))
                raise InvalidInput(
                    f"Line {number} of {path} cannot be imported: {what}."
                ) from error
        raise InvalidInput(f"{path} was cut off after line {number}; export it again.")


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """Open a file to read it; a pipe, a device or a folder is refused before it is opened.

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


def _whole(line: Line, numbers: Mapping[int, int]) -> Whole:
    vectors = line.own_vectors.items() if numbers else ()
    return Whole(line.memory, line.revisions, {numbers[width]: own for width, own in vectors})


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
    spaces = [(vector.space, len(vector.numbers)) for vector in line.vectors]
    if len({*spaces}) < len(spaces):
        raise InvalidInput("It has two vectors of one embedding space.")
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
    all_spaces = await store.spaces.all() if vectors else ()
    spaces = [space for space in all_spaces if space.name.startswith(EXTERNAL)]
    head = Head(format="kagent-memory", version=1, exported_at=memories.clock())
    yield head.model_dump_json()
    count = 0
    async for scope in scopes:
        ids = await store.kept(scope, Filter())
        for part in batched(ids, PART):
            every = await store.whole(scope, part)
            kept = [
                (space.name, await store.vectors(scope, space.number, part)) for space in spaces
            ]
            count += len(every)
            for line in await run_in_thread(READ, _lines, scope, every, kept):
                yield line
    yield End(memories=count).model_dump_json()


def _lines(
    scope: Scope, memories: Sequence[Whole], kept: Sequence[tuple[str, Mapping[str, Vector]]]
) -> list[str]:
    lines: list[str] = []
    for whole in memories:
        vectors = tuple(
            Numbers(name, tuple(of_space[whole.memory.id].tolist()))
            for name, of_space in kept
            if whole.memory.id in of_space
        )
        line = Line(scope, whole.memory, whole.revisions, vectors)
        text = line_adapter().dump_json(line, exclude=None if vectors else {"vectors"})
        lines.append(text.decode().translate(LINE_ENDS))
    return lines
