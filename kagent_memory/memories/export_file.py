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
from typing import Annotated, Any, BinaryIO, Literal, Self, TypeAlias

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ..checks import checked_text, faults
from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import MAX_LINKS, Change, Filter, Memory, Revision, Scope, Vector
from ..stores.planning import checked
from ..stores.spaces import EXTERNAL, EmbeddingSpace, SpaceKey, checked_vector, external_name
from ..stores.values import Batch, Whole, with_after
from .caller_vectors import is_kept
from .components import Components

ATTEMPTS = 3
MAX_SPACES = 1000
MAX_DIMENSIONS = 65_536
PART = 200
MAX_LINE_BYTES = 64 * 2**20
READ = 1_000_000  # characters: lines of a file are work for a thread, however long they are
# what some readers take for one
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Node: TypeAlias = tuple[Scope, str]
"""A memory of the file, by its scope and id."""


def _listed(probe: Any) -> Any:
    return probe.tolist() if isinstance(probe, np.ndarray) else probe


class Space(BaseModel, extra="forbid", strict=True):
    """An embedding space, as the first line of an export with vectors names it; `EmbeddingSpace`
    says what is what.
    """

    name: Annotated[str, Field(min_length=1, max_length=1024)]
    dimensions: Annotated[int, Field(ge=1, le=MAX_DIMENSIONS)]
    state: Literal["current", "filling"]
    probe: Annotated[
        list[Number] | None, Field(max_length=MAX_DIMENSIONS), BeforeValidator(_listed)
    ]

    @model_validator(mode="after")
    def _check(self) -> Self:
        checked_text(self.name, "The embedding space's name")
        if self.probe is not None:
            checked_vector(self.probe, self.dimensions)
        if self.name.startswith(EXTERNAL) and self.name != external_name(self.dimensions):
            raise ValueError(f"{self.name!r} holds no vectors of {self.dimensions} dimensions")
        return self

    def numbered(self, number: int) -> EmbeddingSpace:
        """Return it as a store has it, by its place in the file."""
        probe = None if self.probe is None else np.asarray(self.probe, np.float32)
        return EmbeddingSpace(
            number=number,
            name=self.name,
            dimensions=self.dimensions,
            probe=probe,
            state=self.state,
        )


class Head(BaseModel, extra="forbid"):
    """The first line, in the versions that are written and read here."""

    format: Literal["kagent-memory"]
    version: Literal[1, 2]
    exported_at: datetime
    embedding_spaces: Annotated[list[Space], Field(max_length=MAX_SPACES)] = []


class End(BaseModel, extra="forbid"):
    """The last line: without it the file was cut off."""

    end: Literal[True] = True
    memories: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """A vector of a line; `space` is the place of its embedding space in the first line's list,
    from 0.
    """

    space: Annotated[int, Field(strict=True, ge=0)]
    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """Every other line: a memory, whose it is, and its history.

    Attributes:
        vectors: those of an export with vectors, of one embedding space each.
    """

    scope: Scope
    memory: Memory
    revisions: tuple[Revision, ...] = ()
    vectors: tuple[Numbers, ...] = ()


@cache
def line_adapter() -> TypeAdapter[Line]:
    """Return what reads and writes a line."""
    return TypeAdapter(Line)


@dataclass(slots=True)
class ExportFile:
    """A file that `export` wrote.

    Attributes:
        spaces: the embedding spaces that its first line names.
        widths: of callers' own vectors.
        derived: by memory, those that go where it is forgotten: what a merge made of it, what took
            its place and was withdrawn, and the history that it stands for.
        successors: memories with those that ever took their place.
        scopes: each once, however many memories it has.
        withdrawn: memories that took the place of others, and were undone.
    """

    path: Path
    spaces: Sequence[EmbeddingSpace] = ()
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
        for number, line in file._lines():
            owner = line.scope.tenant
            if tenant not in (None, owner):
                raise InvalidInput(
                    f"Line {number} of {path} is of the tenant {owner!r}; this imports into "
                    f"{tenant!r} alone."
                )
            try:
                _check_line(line)
                vectors = file.vectors_of(line)
            except InvalidInput as error:
                raise InvalidInput(
                    f"Line {number} of {path} cannot be imported: {error}"
                ) from error
            file.widths |= {
                width for name, width in vectors if name.startswith(EXTERNAL) and is_kept(width)
            }
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
        self, numbers: Mapping[SpaceKey, int] = {}, *, deriving: bool = False
    ) -> Iterator[tuple[Scope, Sequence[Whole]]]:
        """Yield the memories, up to `PART` of one scope at a time.

        Args:
            numbers: of the embedding spaces whose vectors are kept, where they are imported.
            deriving: only memories that take others along when they are forgotten.
        """
        lines = (line for _, line in self._lines())
        if deriving:
            lines = (line for line in lines if (line.scope, line.memory.id) in self.derived)
        for scope, of_scope in groupby(lines, key=lambda line: line.scope):
            while part := list(islice(of_scope, PART)):
                yield scope, [self._whole(line, numbers) for line in part]

    def _whole(self, line: Line, numbers: Mapping[SpaceKey, int]) -> Whole:
        vectors = self.vectors_of(line).items() if numbers else ()
        kept = {numbers[key]: vector for key, vector in vectors if key in numbers}
        return Whole(line.memory, line.revisions, kept)

    def with_derived(self, forgotten: Iterable[Node]) -> set[Node]:
        """Return forgotten memories with all that must not come back because of them."""
        reached, fresh = set[Node](), {*forgotten}
        while fresh:
            reached |= fresh
            fresh = {other for node in fresh for other in self.derived.get(node, ())} - reached
        return reached

    def vectors_of(self, line: Line) -> Mapping[SpaceKey, Vector]:
        """Return the vectors of a line by their embedding space.

        Raises:
            InvalidInput: one does not fit, there are two of one embedding space, or the first line
                does not name it.
        """
        vectors: dict[SpaceKey, Vector] = {}
        for vector in line.vectors:
            if vector.space >= len(self.spaces):
                raise InvalidInput(f"The first line names no embedding space {vector.space}.")
            space = self.spaces[vector.space]
            if space.key in vectors:
                raise InvalidInput("It has two vectors of one embedding space.")
            vectors[space.key] = checked_vector(vector.numbers, space.dimensions)
        return vectors

    def _lines(self) -> Iterator[tuple[int, Line]]:
        """Yield the lines between the first and the last, each with its number.

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
                        spaces = Head.model_validate_json(text).embedding_spaces
                        self.spaces = [space.numbered(place) for place, space in enumerate(spaces)]
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
                        yield number, line_adapter().validate_json(text, extra="forbid")
            except ValidationError as error:
                raise InvalidInput(_damage(number, path, error)) from error
        raise InvalidInput(f"{path} was cut off after line {number}; export it again.")


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """Open a file to read it; a pipe, a device or a folder is refused before it is opened.

    Raises:
        InvalidInput: it is no regular file, or cannot be read.
    """
    try:
        if path.is_file():
            with path.open("rb") as file:
                yield file
            return
        reason = "it is no regular file" if path.exists() else "there is no such file"
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error
    raise InvalidInput(f"{path} cannot be read: {reason}.")


def _damage(number: int, path: Path, error: ValidationError) -> str:
    where, what = faults(error)[0]
    if error.errors()[0]["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return (
            f"Line {number} of {path} has a field that is not known here: {where!r}. Import it "
            "with the version of kagent-memory that wrote it, or take the field out."
        )
    if number == 1:
        return f"Line 1 of {path} is not that of an export that is read here ({where}: {what})."
    return f"Line {number} of {path} is damaged ({where}: {what}); export it again."


def _check_line(line: Line) -> None:
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
    numbers = [revision.revision for revision in revisions]
    if len(set(numbers)) < len(numbers) or max(numbers, default=0) >= memory.revision:
        raise InvalidInput(
            f"Its revisions have the numbers {numbers}; each has its own, below the memory's."
        )


async def export(
    parts: Components, scopes: AsyncIterable[Scope], *, vectors: bool
) -> AsyncGenerator[str]:
    """Yield all memories of some scopes as lines; see `Memories.export`."""
    await parts.deliveries.flush()
    every = await parts.store.memories.spaces.all() if vectors else ()
    spaces = {
        space.number: Space.model_validate(space, from_attributes=True)
        for space in every
        if space.state != "retired"
    }
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
