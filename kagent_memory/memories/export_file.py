"""The file that `Memories.export` writes: its lines, and what is checked of them when they are
read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, Self, TypeAlias

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from ..checks import checked_text, faults
from ..errors import InvalidInput
from ..records import MAX_LINKS, Change, Memory, Revision, Scope, Vector
from ..stores.planning import checked
from ..stores.spaces import EXTERNAL, EmbeddingSpace, SpaceKey, checked_vector, external_name
from ..stores.values import Batch, every_state

MAX_SPACES = 1000
MAX_DIMENSIONS = 65_536
PART = 200
MAX_LINE_BYTES = 64 * 2**20
# what some readers take for one
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Space(BaseModel, extra="forbid", strict=True):
    """An embedding space, as the first line of an export with vectors names it; `EmbeddingSpace`
    says what is what.
    """

    name: Annotated[str, Field(min_length=1, max_length=1024)]
    dimensions: Annotated[int, Field(ge=1, le=MAX_DIMENSIONS)]
    state: Literal["current", "filling"]
    probe: Annotated[list[Number], Field(max_length=MAX_DIMENSIONS)] | None

    @classmethod
    def of(cls, space: EmbeddingSpace) -> Space:
        """Return an embedding space of a store, as a line names it."""
        probe = None if space.probe is None else space.probe.tolist()
        named = {"name": space.name, "dimensions": space.dimensions, "state": space.state}
        return cls.model_validate({**named, "probe": probe})

    @model_validator(mode="after")
    def _check(self) -> Self:
        checked_text(self.name, "The embedding space's name")
        if self.probe is not None:
            checked_vector(self.probe, self.dimensions)
        if self.name.startswith(EXTERNAL) and self.name != external_name(self.dimensions):
            raise ValueError(f"{self.name!r} holds no vectors of {self.dimensions} dimensions")
        return self

    @property
    def key(self) -> SpaceKey:
        """Return what makes it the same embedding space in another store."""
        return self.name, self.dimensions

    @property
    def vector(self) -> Vector | None:
        """The embedder's answer to the fixed text."""
        return None if self.probe is None else np.asarray(self.probe, np.float32)


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

    space: Annotated[int, Field(strict=True)]
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
        widths: of callers' own vectors, by tenant.
        linked: ids of memories that took the place of others, or that others stand for.
    """

    path: Path
    spaces: Sequence[Space] = ()
    widths: defaultdict[str, set[int]] = field(
        default_factory=lambda: defaultdict[str, set[int]](set)
    )
    linked: set[str] = field(default_factory=set[str])

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
            if tenant is not None and line.scope.tenant != tenant:
                raise InvalidInput(
                    f"Line {number} of {path} is of the tenant {line.scope.tenant!r}; this "
                    f"imports into {tenant!r} "
                    "alone."
                )
            try:
                _check_line(line)
                file._note_vectors(line)
            except InvalidInput as error:
                raise InvalidInput(
                    f"Line {number} of {path} cannot be imported: {error}"
                ) from error
            file._note_links(line)
        return file

    def batches(self, *, linked: bool = False) -> Iterator[tuple[Scope, list[Line]]]:
        """Yield the lines, up to `PART` of one scope at a time; `linked`: only of such memories."""
        lines = (line for _, line in self._lines())
        if linked:
            lines = (line for line in lines if line.memory.id in self.linked)
        for scope, of_scope in groupby(lines, key=lambda line: line.scope):
            while batch := list(islice(of_scope, PART)):
                yield scope, batch

    def vectors_of(self, line: Line) -> Iterator[tuple[SpaceKey, Vector]]:
        """Yield the vectors of a line, each with its embedding space.

        Raises:
            InvalidInput: one does not fit, or the first line does not name its embedding space.
        """
        for vector in line.vectors:
            if not 0 <= vector.space < len(self.spaces):
                raise InvalidInput(f"The first line names no embedding space {vector.space}.")
            space = self.spaces[vector.space]
            yield space.key, checked_vector(vector.numbers, space.dimensions)

    def _note_vectors(self, line: Line) -> None:
        keys = [key for key, _ in self.vectors_of(line)]
        if len(set(keys)) < len(keys):
            raise InvalidInput("It has two vectors of one embedding space.")
        for name, width in keys:
            if name.startswith(EXTERNAL):
                self.widths[line.scope.tenant].add(width)

    def _note_links(self, line: Line) -> None:
        states = every_state(line.memory, line.revisions)
        successors = {state.superseded_by for state in states if state.superseded_by}
        if successors or any(revision.group is not None for revision in line.revisions):
            self.linked |= {line.memory.id, *successors}

    def _lines(self) -> Iterator[tuple[int, Line]]:
        """Yield the lines between the first and the last, each with its number.

        Raises:
            InvalidInput: as `checked`.
        """
        path, number, count = self.path, 0, 0
        with opened(path) as file:
            lines = enumerate(_bounded_lines(path, file), start=1)
            try:
                for number, text in lines:
                    if number == 1:
                        self.spaces = Head.model_validate_json(text).embedding_spaces
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


def _bounded_lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    while text := file.readline(MAX_LINE_BYTES + 1):
        if len(text) > MAX_LINE_BYTES:
            raise InvalidInput(f"{path} has a line longer than {MAX_LINE_BYTES:,} bytes.")
        yield text


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
