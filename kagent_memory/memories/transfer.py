"""Export and import: memories whole, one a line, from any store into any other."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import Unpack

from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import Change, Filter, Memory, Revision, Scope, Vector, checked_text, checked_time, every_state
from ..retrieval.embedding_spaces import same_model
from ..settings.kagent_config import DIMENSIONS
from ..stores.base import EXTERNAL, Batch, EmbeddingSpace, checked_vector, embed_job, external_name
from ..stores.codec import is_id
from ..stores.planning import checked
from ..stores.values import Restored, Whole
from .components import Components
from .findings import Progress
from .importers import Importer
from .lineage import Lineage
from .options import SOURCES, ImportOptions, Source

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
        vector: one that came with a memory of another system; our own export holds none.
        vectors: those of an export with vectors, of one embedding space each.
    """

    scope: Scope
    memory: Memory
    revisions: tuple[Revision, ...] = ()
    vector: tuple[Number, ...] | None = None
    vectors: tuple[_Numbers, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of an import, or would in a dry run.

    Attributes:
        added: memories that are there now.
        present: those that were there already, by their id.
        equal: those left out because another one says the same.
        forgotten: those left out because they were forgotten here.
        left_out: what another system keeps and was not asked for, or has no text.
        vectors: how many vectors were kept of those that came along; the others are made anew.
    """

    added: int = 0
    present: int = 0
    equal: int = 0
    forgotten: int = 0
    left_out: int = 0
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
    left_out = {"vector"} if numbers else {"vector", "vectors"}
    lines: list[str] = []
    for one in memories:
        vectors = tuple(_Numbers(places[number], tuple(vector.tolist())) for number, vector in one.vectors.items())
        line = _Line(scope, one.memory, one.revisions, vectors=vectors)
        lines.append(_adapter().dump_json(line, exclude=left_out).decode().translate(LINE_ENDS))
    return lines


async def import_(
    parts: Components,
    place: Path | str,
    *,
    source: Source = "kagent-memory",
    tenant: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    **options: Unpack[ImportOptions],
) -> Imported:
    """See `MemoryApi.import_`."""
    if is_own(source, options):
        return await _taken_in(parts, Path(place), tenant=tenant, dry_run=dry_run, progress=progress)
    tenant = parts.settings.tenant if tenant is None else tenant
    importer = Importer(parts, source, str(place), tenant, options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "converted.jsonl"
        await _convert(importer, path)
        done = await _taken_in(parts, path, tenant=tenant, dry_run=dry_run, progress=progress)
    return replace(done, left_out=importer.left_out)


def is_own(source: Source, options: ImportOptions) -> bool:
    """Whether our own export is to be imported.

    Raises:
        InvalidInput: the source is unknown, or the options do not go with it.
    """
    if source not in SOURCES:
        raise InvalidInput(f"The source must be one of {', '.join(SOURCES)}, not {source!r}.")
    if source == "kagent-memory" and (given := [name for name, value in options.items() if value is not None]):
        raise InvalidInput(f"{', '.join(given)} goes with other systems' memories; choose when you export.")
    return source == "kagent-memory"


async def _convert(importer: Importer, path: Path) -> None:
    """Writes what the importer makes of its source as an export of ours."""

    def write(lines: Sequence[str]) -> None:
        file.write("".join(f"{line.translate(LINE_ENDS)}\n" for line in lines))

    def dumped(some: Sequence[tuple[Scope, Memory, tuple[float, ...] | None]]) -> None:
        lines = (_Line(scope, memory, vector=vector) for scope, memory, vector in some)
        write([_adapter().dump_json(line).decode() for line in lines])

    count = 0
    with path.open("w", encoding="utf-8") as file:
        head = {"format": FORMAT, "version": VERSION, "exported_at": importer.parts.clock().isoformat()}
        write([json.dumps(head)])
        async with aclosing(importer.memories()) as portions:
            async for some in portions:
                count += len(some)
                await run_in_thread(READ, partial(dumped, some))
        write([json.dumps({"end": True, "memories": count})])


@dataclass(slots=True)
class _Told:
    """What checking a file found out about it as a whole.

    Attributes:
        spaces: the embedding spaces that its first line names.
        callers: whose vectors of callers' own it holds: by their embedding space a scope of each tenant.
        lineage: which of its memories come of others.
    """

    spaces: Sequence[_Space] = ()
    callers: dict[SpaceKey, dict[str, Scope]] = field(default_factory=dict[SpaceKey, dict[str, Scope]])
    lineage: Lineage = field(default_factory=Lineage)

    def widths(self) -> Mapping[str, set[int]]:
        """Of how many dimensions the vectors of each tenant's callers are."""
        widths: dict[str, set[int]] = {}
        for (_, width), owners in self.callers.items():
            for tenant in owners:
                widths.setdefault(tenant, set()).add(width)
        return widths


async def _taken_in(
    parts: Components, path: Path, *, tenant: str | None, dry_run: bool, progress: Progress | None
) -> Imported:
    told = await run_in_thread(READ, partial(_check, path, tenant))
    for tenant, widths in told.widths().items():
        await parts.caller_vectors.check_room(tenant, widths)
    numbers = await _space_numbers(parts, told, dry_run=dry_run)
    held = await _held(parts, path, told.lineage)
    counts = dict.fromkeys(("added", "present", "equal", "forgotten"), 0)
    vectors = 0
    touched: dict[Scope, None] = {}
    portions = _parts(path)
    while some := await run_in_thread(READ, partial(next, portions, None)):
        scope, memories = await run_in_thread(READ, partial(_restorable, *some, told.spaces, numbers))
        for one, outcome in await _restored(parts, scope, memories, held.get(scope, set()), dry_run=dry_run):
            counts[outcome] += 1
            if outcome == "added":
                vectors += len(one.vectors)
                touched[scope] = None
                parts.retriever.has_short_term |= one.memory.state == "short_term"
        if progress is not None:
            progress(sum(counts.values()))
    if not dry_run:
        # something that they come of may have come in meanwhile, and been forgotten before they came in themselves
        for scope, ids in (await _held(parts, path, told.lineage)).items():
            late = sorted(ids - held.get(scope, set()))
            erased = len(await parts.store.forget(scope, ids=late, now=parts.clock()))
            counts["added"] -= erased
            counts["forgotten"] += erased
        await _embed_later(parts, touched)
    return Imported(**counts, vectors=vectors)


async def _restored(
    parts: Components, scope: Scope, memories: Sequence[Whole], held: set[str], *, dry_run: bool
) -> Sequence[tuple[Whole, Restored]]:
    """Puts memories back, and what is held back not; gives what came of each."""
    restored: list[tuple[Whole, Restored]] = []
    for out in (False, True):
        some = [one for one in memories if (one.memory.id in held) is out]
        if some:
            given = [replace(one, vectors={}) for one in some] if out or dry_run else some
            outcomes = await parts.store.restore(scope, given, dry_run=out or dry_run, now=parts.clock())
            told: list[Restored] = ["forgotten" if out and outcome != "present" else outcome for outcome in outcomes]
            restored += list(zip(some, told, strict=True))
    return restored


async def _held(parts: Components, path: Path, lineage: Lineage) -> Mapping[Scope, set[str]]:
    """The memories of a file that come of what was forgotten here, and what they took the place of."""
    forgotten: dict[Scope, set[str]] = {}
    portions = _parts(path, lineage)
    while some := await run_in_thread(READ, partial(next, portions, None)):
        scope, lines = some
        memories = [Whole(line.memory, line.revisions) for line in lines]
        for one, outcome in await _restored(parts, scope, memories, set(), dry_run=True):
            if outcome == "forgotten":
                forgotten.setdefault(scope, set()).add(one.memory.id)
    return {scope: lineage.reach(scope, ids) for scope, ids in forgotten.items()}


async def _embed_later(parts: Components, scopes: Iterable[Scope]) -> None:
    if parts.vectors is None:
        return
    now = parts.clock()
    filling = [one.name for one in await parts.store.embedding_spaces() if one.state == "filling"]
    for scope in scopes:
        await parts.store.enqueue([embed_job(scope, now, name) for name in ("", *filling)])
    parts.worker.wake()


async def _space_numbers(parts: Components, told: _Told, *, dry_run: bool) -> Mapping[SpaceKey, int]:
    """The embedding spaces of the store that a file's vectors belong to; those of the others are made anew.

    Raises:
        InvalidInput: a tenant's callers would keep vectors of too many widths.
        ModelError: the embedder, which is to say that it is the same, is away.
        ConfigurationError: the embedder is not the one whose vectors the store holds.
    """
    numbers: dict[SpaceKey, int] = {}
    held = [one for one in await parts.store.embedding_spaces() if not one.name.startswith(EXTERNAL)]
    known = {(one.name, one.dimensions): one for one in held if one.state != "retired"}
    for space in told.spaces:
        if space.name.startswith(EXTERNAL):
            continue
        there = known.get(space.key)
        if there is None and not held and space.state == "current":
            there = await _first_space(parts, space, dry_run=dry_run)
        if there is not None and (there.name, there.dimensions) == space.key and same_model(there.probe, space.vector):
            numbers[space.key] = there.number
    for (name, width), owners in told.callers.items():
        numbers[name, width] = -width  # of a dry run: one of its own each
        for scope in () if dry_run else owners.values():
            space = await parts.caller_vectors.space_for(scope, name, np.ones(width, np.float32))
            numbers[name, width] = space.number
    return numbers


async def _first_space(parts: Components, space: _Space, *, dry_run: bool) -> EmbeddingSpace | None:
    """The embedding space of a store that has none yet: the embedder's, or without one the file's."""
    if parts.vectors is not None and parts.vectors.name != space.name:
        return None
    if dry_run:
        return EmbeddingSpace(number=0, name=space.name, dimensions=space.dimensions)
    if parts.vectors is None:
        return await parts.store.add_embedding_space(space.name, space.dimensions, space.vector)
    made, _ = await parts.vectors.embed([], kind="document", tenant="")
    return made


def _restorable(
    scope: Scope, lines: Sequence[_Line], spaces: Sequence[_Space], numbers: Mapping[SpaceKey, int]
) -> tuple[Scope, Sequence[Whole]]:
    """Memories with those of their vectors that the store keeps."""
    memories: list[Whole] = []
    for line in lines:
        kept = {numbers[key]: vector for key, vector in _vectors(line, spaces) if key in numbers}
        memories.append(Whole(line.memory, line.revisions, kept))
    return scope, memories


def _vectors(line: _Line, spaces: Sequence[_Space]) -> Iterator[tuple[SpaceKey, Vector]]:
    """The vectors of a line, each with its embedding space.

    Raises:
        InvalidInput: one does not fit, or its embedding space is not named in the first line.
    """
    if line.vector is not None:
        yield (external_name(DIMENSIONS), DIMENSIONS), checked_vector(line.vector, DIMENSIONS)
    for one in line.vectors:
        if not 0 <= one.space < len(spaces):
            raise InvalidInput(f"The first line names no embedding space {one.space}.")
        space = spaces[one.space]
        yield space.key, checked_vector(one.numbers, space.dimensions)


def _parts(path: Path, only: Lineage | None = None) -> Iterator[tuple[Scope, list[_Line]]]:
    """The memories of a file that was checked, some of one scope at a time; or only those that take others along."""
    scope: Scope | None = None
    some: list[_Line] = []
    for _, line in _memories(path, _Told()) if only is None or only else ():
        if only is not None and not only.takes_along(line.scope, line.memory.id):
            continue
        if some and (line.scope != scope or len(some) == PART):
            yield scope or line.scope, some
            some = []
        scope = line.scope
        some.append(line)
    if some and scope:
        yield scope, some


def _check(path: Path, tenant: str | None) -> _Told:
    """Reads the file to its end, so that nothing is written of one that cannot be imported whole.

    Raises:
        InvalidInput: it is not an export, of a version this one cannot read, cut off, damaged, or of another tenant.
    """
    told = _Told()
    for number, line in _memories(path, told):
        if tenant is not None and line.scope.tenant != tenant:
            raise InvalidInput(
                f"Line {number} of {path} is of the tenant {line.scope.tenant!r}; this imports into {tenant!r} alone."
            )
        try:
            _check_line(line, told)
        except InvalidInput as error:
            raise InvalidInput(f"Line {number} of {path} cannot be imported: {error}") from error
        told.lineage.note(line.scope, line.memory, line.revisions)
    told.lineage.close()
    return told


def _check_line(line: _Line, told: _Told) -> None:
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
    keys = [key for key, _ in _vectors(line, told.spaces)]
    if len(set(keys)) < len(keys):
        raise InvalidInput("It has two vectors of one embedding space.")
    for key in keys:
        if key[0].startswith(EXTERNAL):
            told.callers.setdefault(key, {}).setdefault(line.scope.tenant, line.scope)


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


def _memories(path: Path, told: _Told) -> Iterator[tuple[int, _Line]]:
    """The lines between the first, of which `told` is told, and the last, each with its number.

    Raises:
        InvalidInput: as `_check` says.
    """
    try:
        file = path.open(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error
    with file:
        number, count = 0, 0
        try:
            for number, text in enumerate(file, start=1):
                if number == 1:
                    told.spaces = _spaces(path, text)
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
