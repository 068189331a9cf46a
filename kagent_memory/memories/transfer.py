"""Export and import: memories whole, one a line, from any store into any other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import (
    MAX_LINKS,
    Change,
    Filter,
    Memory,
    Revision,
    Scope,
    Vector,
    checked_text,
    checked_time,
    every_state,
)
from ..retrieval.embedding_spaces import same_model
from ..stores.base import EXTERNAL, Batch, EmbeddingSpace, checked_vector, embed_job, external_name
from ..stores.codec import is_id
from ..stores.planning import checked
from ..stores.values import Restored, Whole
from .components import Components
from .findings import Progress
from .lineage import Lineage

FORMAT = "kagent-memory"
VERSION = 1
VERSION_WITH_VECTORS = 2
MOST_SPACES = 1000
MOST_DIMENSIONS = 65_536
ATTEMPTS = 3
PART = 200
SCOPES = 1000
MOST_INTEGER = 2**31 - 2  # with room for one more
MOST_TTL_DAYS = 36_500
READ = 1_000_000  # characters: reading a file is work for a thread, however long it is
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}  # what some readers take for one
SpaceKey: TypeAlias = tuple[str, int]
"""The name and the width of an embedding space: what makes it the same one in another store."""
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class _Head(BaseModel):
    """The first line."""

    format: Literal["kagent-memory"]
    version: int
    exported_at: datetime


class _Space(BaseModel):
    """An embedding space, as the first line of an export with vectors names it; `EmbeddingSpace` says what is what."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=1024)]
    dimensions: Annotated[int, Field(ge=1, le=MOST_DIMENSIONS)]
    state: Literal["current", "filling"]
    probe: Annotated[list[Number], Field(max_length=MOST_DIMENSIONS)] | None

    @property
    def key(self) -> SpaceKey:
        """What makes it the same one elsewhere."""
        return self.name, self.dimensions

    @property
    def vector(self) -> Vector | None:
        """The embedder's answer to the fixed text."""
        return None if self.probe is None else np.asarray(self.probe, np.float32)


class _Spaces(BaseModel):
    """The embedding spaces of the first line."""

    embedding_spaces: Annotated[list[_Space], Field(max_length=MOST_SPACES)]


class _End(BaseModel):
    """The last line: without it the file was cut off."""

    model_config = ConfigDict(extra="forbid")

    end: Literal[True]
    memories: int


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A vector of a line; `space` is the place of its embedding space in the first line's list, from 0."""

    space: Annotated[int, Field(strict=True)]
    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """Every other line: a memory, whose it is, and its history.

    Attributes:
        vectors: those of an export with vectors, of one embedding space each.
    """

    scope: Scope
    memory: Memory
    revisions: tuple[Revision, ...] = ()
    vectors: tuple[_Numbers, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of an import, or would in a dry run.

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


@cache
def _adapter() -> TypeAdapter[_Line]:
    return TypeAdapter(_Line)


async def export(
    parts: Components,
    *,
    tenant: str | None = None,
    user: str | None = None,
    app: str | None = None,
    vectors: bool = False,
) -> AsyncGenerator[str]:
    """See `MemoryApi.export`."""
    await parts.deliveries.flush()
    spaces = [one for one in await parts.store.embedding_spaces() if one.state != "retired"] if vectors else []
    version = VERSION_WITH_VECTORS if vectors else VERSION
    head = {"format": FORMAT, "version": version, "exported_at": parts.clock().isoformat()}
    described = [
        {
            "name": one.name,
            "dimensions": one.dimensions,
            "state": one.state,
            "probe": None if one.probe is None else one.probe.tolist(),
        }
        for one in spaces
    ]
    yield json.dumps(head | ({"embedding_spaces": described} if vectors else {}))
    count = 0
    after: Scope | None = None
    while scopes := await parts.store.scopes(tenant=tenant, user=user, app=app, after=after, limit=SCOPES):
        for scope in scopes:
            ids = await parts.store.kept(scope, Filter())
            for start in range(0, len(ids), PART):
                memories = await _read(parts, scope, ids[start : start + PART], spaces)
                count += len(memories)
                size = sum(len(one.memory.content) + sum(map(len, one.vectors.values())) for one in memories)
                for line in await run_in_thread(size, partial(_lines, scope, memories, [one.number for one in spaces])):
                    yield line
        after = scopes[-1]
    yield json.dumps({"end": True, "memories": count})


async def _read(
    parts: Components, scope: Scope, ids: Sequence[str], spaces: Sequence[EmbeddingSpace]
) -> Sequence[Whole]:
    """Memories with their vectors of these embedding spaces; of a scope that never rests, without them."""
    store = parts.store
    for _ in range(ATTEMPTS if spaces else 0):
        version = await store.version(scope)
        memories = await store.whole(scope, ids)
        kept = {one.number: await store.vectors(scope, one.number, ids) for one in spaces}
        if await store.version(scope) == version:  # else a vector may be of other words
            for number, vectors in kept.items():
                memories = [
                    replace(one, vectors={**one.vectors, number: vectors[one.memory.id]})
                    if one.memory.id in vectors
                    else one
                    for one in memories
                ]
            return memories
    return await store.whole(scope, ids)


def _lines(scope: Scope, memories: Sequence[Whole], numbers: Sequence[int]) -> list[str]:
    places = {number: place for place, number in enumerate(numbers)}
    left_out = None if numbers else {"vectors"}
    lines: list[str] = []
    for one in memories:
        vectors = tuple(_Numbers(places[number], tuple(vector.tolist())) for number, vector in one.vectors.items())
        line = _Line(scope, one.memory, one.revisions, vectors=vectors)
        lines.append(_adapter().dump_json(line, exclude=left_out).decode().translate(LINE_ENDS))
    return lines


async def import_(
    parts: Components,
    path: Path | str,
    *,
    tenant: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """See `MemoryApi.import_`."""
    file = await run_in_thread(READ, partial(_ExportFile.checked, Path(path), tenant))
    return await _Import(parts, file, dry_run, progress).run()


@dataclass(slots=True)
class _ExportFile:
    """A file that `export` wrote.

    Attributes:
        spaces: the embedding spaces that its first line names.
        external: per embedding space of callers' own vectors, a scope of each tenant that has some.
        lineage: which memories derive from others.
    """

    path: Path
    spaces: Sequence[_Space] = ()
    external: dict[SpaceKey, dict[str, Scope]] = field(default_factory=dict[SpaceKey, dict[str, Scope]])
    lineage: Lineage = field(default_factory=Lineage)

    @classmethod
    def checked(cls, path: Path, tenant: str | None) -> _ExportFile:
        """Read the file to its end, so that nothing is written of one that cannot be imported whole.

        Raises:
            InvalidInput: it is no export, of an unknown version, cut off, damaged, or of another tenant.
        """
        file = cls(path)
        for number, line in file._lines():
            if tenant is not None and line.scope.tenant != tenant:
                raise InvalidInput(
                    f"Line {number} of {path} is of the tenant {line.scope.tenant!r}; this imports into {tenant!r} "
                    "alone."
                )
            try:
                _check_line(line)
                file._note_vectors(line)
            except InvalidInput as error:
                raise InvalidInput(f"Line {number} of {path} cannot be imported: {error}") from error
            file.lineage.note(line.scope, line.memory, line.revisions)
        file.lineage.close()
        return file

    def batches(self, *, deriving: bool = False) -> Iterator[tuple[Scope, list[_Line]]]:
        """Yield the lines, up to `PART` of one scope at a time; `deriving`: only memories that others derive from."""
        lines = (line for _, line in self._lines())
        if deriving:
            lines = (line for line in lines if self.lineage.takes_along(line.scope, line.memory.id))
        for scope, of_scope in groupby(lines, key=lambda line: line.scope):
            while batch := list(islice(of_scope, PART)):
                yield scope, batch

    def vectors_of(self, line: _Line) -> Iterator[tuple[SpaceKey, Vector]]:
        """Yield the vectors of a line, each with its embedding space.

        Raises:
            InvalidInput: one does not fit, or the first line does not name its embedding space.
        """
        for vector in line.vectors:
            if not 0 <= vector.space < len(self.spaces):
                raise InvalidInput(f"The first line names no embedding space {vector.space}.")
            space = self.spaces[vector.space]
            yield space.key, checked_vector(vector.numbers, space.dimensions)

    def _note_vectors(self, line: _Line) -> None:
        keys = [key for key, _ in self.vectors_of(line)]
        if len(set(keys)) < len(keys):
            raise InvalidInput("It has two vectors of one embedding space.")
        for key in keys:
            if key[0].startswith(EXTERNAL):
                self.external.setdefault(key, {}).setdefault(line.scope.tenant, line.scope)

    def _lines(self) -> Iterator[tuple[int, _Line]]:
        """Yield the lines between the first and the last, each with its number.

        Raises:
            InvalidInput: as `checked`.
        """
        path = self.path
        try:
            file = path.open(encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error
        with file:
            number, count = 0, 0
            try:
                for number, text in enumerate(file, start=1):
                    if number == 1:
                        self.spaces = _spaces(path, text)
                    elif text.startswith('{"end"'):
                        _check_end(path, text, count, file.read())
                        return
                    else:
                        count += 1
                        yield number, _adapter().validate_json(text)
            except UnicodeDecodeError as error:
                raise InvalidInput(f"{path} is not UTF-8 text after line {number}; export it again.") from error
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise InvalidInput(
                    f"Line {number} of {path} is damaged ({where}: {first['msg']}); export it again."
                ) from error
        raise InvalidInput(f"{path} was cut off after line {number}; export it again.")


@dataclass(slots=True)
class _Import:
    """One import of a checked file."""

    parts: Components
    file: _ExportFile
    dry_run: bool
    progress: Progress | None
    counts: Counter[Restored] = field(default_factory=Counter[Restored])
    vectors: int = 0

    async def run(self) -> Imported:
        """Import the file.

        Raises:
            InvalidInput: a tenant's callers would keep vectors of too many widths.
            ModelError: the embedder, which must say whether the vectors are its own, is unavailable.
            ConfigurationError: the embedder is not the one whose vectors the store holds.
        """
        for tenant, widths in self._external_widths().items():
            await self.parts.caller_vectors.check_room(tenant, widths)
        numbers = await self._space_numbers()
        blocked = await self._forgotten()
        touched: dict[Scope, None] = {}
        batches = self.file.batches()
        while batch := await run_in_thread(READ, partial(next, batches, None)):
            scope, lines = batch
            memories = await run_in_thread(READ, partial(self._with_vectors, lines, numbers))
            if await self._restore(scope, memories, blocked.get(scope, set())):
                touched[scope] = None
            if self.progress is not None:
                self.progress(self.counts.total())
        if not self.dry_run:
            await self._forget_late(blocked)
            await self._embed_later(touched)
        return Imported(
            added=self.counts["added"],
            present=self.counts["present"],
            equal=self.counts["equal"],
            forgotten=self.counts["forgotten"],
            vectors=self.vectors,
        )

    async def _restore(self, scope: Scope, memories: Sequence[Whole], blocked: set[str]) -> bool:
        """Write memories and count the outcomes; return True if any was added. `blocked` ones are only counted."""
        kept, out = ([one for one in memories if (one.memory.id in blocked) is is_out] for is_out in (False, True))
        outcomes = await self._outcomes(scope, kept, dry_run=self.dry_run)
        self.counts.update(outcomes)
        for outcome in await self._outcomes(scope, out, dry_run=True):
            self.counts["present" if outcome == "present" else "forgotten"] += 1
        added = [one for one, outcome in zip(kept, outcomes, strict=True) if outcome == "added"]
        self.vectors += sum(len(one.vectors) for one in added)
        self.parts.retriever.has_short_term |= any(one.memory.state == "short_term" for one in added)
        return bool(added)

    async def _outcomes(self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool) -> Sequence[Restored]:
        if not memories:
            return []
        memories = [replace(one, vectors={}) for one in memories] if dry_run else memories
        return await self.parts.store.restore(scope, memories, dry_run=dry_run, now=self.parts.clock())

    async def _forgotten(self) -> Mapping[Scope, set[str]]:
        """Return the memories of the file that were forgotten here, and those that derive from them."""
        forgotten: dict[Scope, set[str]] = {}
        batches = self.file.batches(deriving=True) if self.file.lineage else iter(())
        while batch := await run_in_thread(READ, partial(next, batches, None)):
            scope, lines = batch
            memories = [Whole(line.memory, line.revisions) for line in lines]
            outcomes = await self._outcomes(scope, memories, dry_run=True)
            ids = {line.memory.id for line, one in zip(lines, outcomes, strict=True) if one == "forgotten"}
            if ids:
                forgotten.setdefault(scope, set()).update(ids)
        return {scope: self.file.lineage.reach(scope, ids) for scope, ids in forgotten.items()}

    async def _forget_late(self, blocked: Mapping[Scope, set[str]]) -> None:
        """Erase what derives from a memory that was forgotten here while the import ran."""
        for scope, ids in (await self._forgotten()).items():
            late = sorted(ids - blocked.get(scope, set()))
            erased = len(await self.parts.store.forget(scope, ids=late, now=self.parts.clock()))
            self.counts["added"] -= erased
            self.counts["forgotten"] += erased

    async def _embed_later(self, scopes: Iterable[Scope]) -> None:
        if self.parts.vectors is None:
            return
        now, store = self.parts.clock(), self.parts.store
        filling = [space.name for space in await store.embedding_spaces() if space.state == "filling"]
        for scope in scopes:
            await store.enqueue([embed_job(scope, now, name) for name in ("", *filling)])
        self.parts.worker.wake()

    def _external_widths(self) -> Mapping[str, set[int]]:
        """Return the dimensions of callers' own vectors, by tenant."""
        widths: dict[str, set[int]] = {}
        for (_, width), owners in self.file.external.items():
            for tenant in owners:
                widths.setdefault(tenant, set()).add(width)
        return widths

    async def _space_numbers(self) -> Mapping[SpaceKey, int]:
        """Return the store's numbers of the embedding spaces whose vectors are kept."""
        numbers: dict[SpaceKey, int] = {}
        spaces = await self.parts.store.embedding_spaces()
        own = [space for space in spaces if not space.name.startswith(EXTERNAL)]
        known = {(space.name, space.dimensions): space for space in own if space.state != "retired"}
        for space in self.file.spaces:
            if space.name.startswith(EXTERNAL):
                continue
            match = known.get(space.key)
            if match is None and not own and space.state == "current":
                match = await self._first_space(space)
            if match and (match.name, match.dimensions) == space.key and same_model(match.probe, space.vector):
                numbers[space.key] = match.number
        for (name, width), owners in self.file.external.items():
            numbers[name, width] = -width  # of a dry run: a number that no other space has
            for scope in () if self.dry_run else owners.values():
                space = await self.parts.caller_vectors.space_for(scope, name, np.ones(width, np.float32))
                numbers[name, width] = space.number
        return numbers

    async def _first_space(self, space: _Space) -> EmbeddingSpace | None:
        """Return the embedding space of a store that has none yet: the embedder's, or without one the file's."""
        embedder = self.parts.vectors
        if embedder is not None and embedder.name != space.name:
            return None
        if self.dry_run:
            return EmbeddingSpace(number=0, name=space.name, dimensions=space.dimensions)
        if embedder is None:
            return await self.parts.store.add_embedding_space(space.name, space.dimensions, space.vector)
        made, _ = await embedder.embed([], kind="document", tenant="")
        return made

    def _with_vectors(self, lines: Sequence[_Line], numbers: Mapping[SpaceKey, int]) -> Sequence[Whole]:
        """Return memories with those of their vectors that the store keeps."""
        return [
            Whole(
                line.memory,
                line.revisions,
                {numbers[key]: vector for key, vector in self.file.vectors_of(line) if key in numbers},
            )
            for line in lines
        ]


def _check_line(line: _Line) -> None:
    memory, revisions = line.memory, line.revisions
    states = every_state(memory, revisions)
    if any(id != memory.id for id in (*(one.memory_id for one in revisions), *(one.id for one in states))):
        raise InvalidInput("A revision is of another memory.")
    events = [Change(kind="add", memory=memory, event_ids=revision.event_ids) for revision in revisions]
    checked(Batch(changes=[*(Change(kind="add", memory=one) for one in states), *events]), None)
    for one in states:
        _check_bounds(one)
    for revision in revisions:
        checked_text(revision.who + revision.why + revision.kind + (revision.group or ""), "A revision's text")
        checked_time(revision.at, "A revision's time")
    numbers = [revision.revision for revision in revisions]
    if len(set(numbers)) < len(numbers) or not all(0 <= number < memory.revision for number in numbers):
        raise InvalidInput(f"Its revisions have the numbers {numbers}; each has its own, below the memory's.")


def _check_bounds(memory: Memory) -> None:
    """Refuses numbers, times and a successor that no store of ours ever wrote, and not every one keeps."""
    usage = memory.usage
    for at in (memory.created_at, memory.updated_at, memory.happened_at, memory.said_at, memory.valid_from):
        checked_time(at, "A time of the memory")
    for at in (memory.valid_to, memory.expires_at, usage.last_delivered_at):
        checked_time(at, "A time of the memory")
    counters = (usage.retrieved, usage.delivered, usage.delivered_total, usage.successes, usage.failures)
    if not all(0 <= number <= MOST_INTEGER for number in (*counters, memory.position or 0, memory.revision - 1)):
        raise InvalidInput("A counter, the position or the revision of the memory is out of range.")
    if not 0 <= memory.importance <= 1:
        raise InvalidInput("The importance must be a number between 0 and 1.")
    if memory.ttl_days is not None and not -MOST_TTL_DAYS <= memory.ttl_days <= MOST_TTL_DAYS:
        raise InvalidInput(f"ttl_days must be at most {MOST_TTL_DAYS:,}.")
    if memory.superseded_by is not None and not is_id(memory.superseded_by):
        raise InvalidInput(f"superseded_by {memory.superseded_by!r} is not a UUID.")
    if len(memory.links) > MAX_LINKS or not all(map(is_id, memory.links)):
        raise InvalidInput(f"The links must be at most {MAX_LINKS} UUIDs.")


def _spaces(path: Path, text: str) -> Sequence[_Space]:
    """The embedding spaces that the first line names."""
    try:
        head = _Head.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInput(f"{path} is not an export of kagent-memory; its first line does not say so.") from error
    if head.version not in (VERSION, VERSION_WITH_VECTORS):
        raise InvalidInput(
            f"{path} has the version {head.version}; this kagent-memory reads versions {VERSION} and "
            f"{VERSION_WITH_VECTORS} (with vectors)."
        )
    spaces = _Spaces.model_validate_json(text).embedding_spaces if head.version == VERSION_WITH_VECTORS else []
    try:
        for space in spaces:
            checked_text(space.name, "The embedding space's name")
            if space.probe is not None:
                checked_vector(space.probe, space.dimensions)
            if space.name.startswith(EXTERNAL) and space.name != external_name(space.dimensions):
                raise InvalidInput(f"{space.name!r} does not hold vectors of {space.dimensions} dimensions.")
    except InvalidInput as error:
        raise InvalidInput(f"Line 1 of {path} cannot be imported: {error}") from error
    return spaces


def _check_end(path: Path, text: str, count: int, rest: str) -> None:
    try:
        told = _End.model_validate_json(text).memories
    except ValidationError as error:
        raise InvalidInput(f"The last line of {path} is damaged; export it again.") from error
    if told != count or rest.strip():
        raise InvalidInput(f"{path} should hold {told} memories and holds {count}, or more follows; export it again.")
