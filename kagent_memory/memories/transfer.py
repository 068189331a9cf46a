"""Export and import: memories whole, one a line, from any store into any other."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import Change, Filter, Memory, Revision, Scope, checked_text
from ..settings.kagent_config import DIMENSIONS
from ..stores.base import Batch, checked_vector, embed_job, external_name
from ..stores.planning import checked
from ..stores.values import Restored, Whole
from .components import Components
from .importers import SOURCES, Importer, ImportOptions, Source

FORMAT = "kagent-memory"
VERSION = 1
PART = 200
SCOPES = 1000
READ = 1_000_000  # characters: reading a file is work for a thread, however long it is
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}  # what some readers take for one
Progress = Callable[[int], None]


class _Head(BaseModel):
    """The first line."""

    format: Literal["kagent-memory"]
    version: int
    exported_at: datetime


class _End(BaseModel):
    """The last line: without it the file was cut off."""

    model_config = ConfigDict(extra="forbid")

    end: Literal[True]
    memories: int


@dataclass(frozen=True, slots=True)
class _Line:
    """Every other line: a memory, whose it is, and its history.

    Attributes:
        vector: one that came with a memory of another system; our own export holds none.
    """

    scope: Scope
    memory: Memory
    revisions: tuple[Revision, ...] = ()
    vector: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of an import, or would in a dry run.

    Attributes:
        added: memories that are there now.
        present: those that were there already, by their id.
        equal: those left out because another one says the same.
        forgotten: those left out because they were forgotten here.
        left_out: what another system keeps and was not asked for, or has no text.
    """

    added: int = 0
    present: int = 0
    equal: int = 0
    forgotten: int = 0
    left_out: int = 0


@cache
def _adapter() -> TypeAdapter[_Line]:
    return TypeAdapter(_Line)


async def export(parts: Components, *, tenant: str | None, user: str | None, app: str | None) -> AsyncIterator[str]:
    """See `Memories.export`."""
    await parts.deliveries.flush()
    head = {"format": FORMAT, "version": VERSION, "exported_at": parts.clock().isoformat()}
    yield json.dumps(head)
    count = 0
    after: Scope | None = None
    while scopes := await parts.store.scopes(tenant=tenant, user=user, app=app, after=after, limit=SCOPES):
        for scope in scopes:
            ids = await parts.store.kept(scope, Filter())
            for start in range(0, len(ids), PART):
                found = await parts.store.whole(scope, ids[start : start + PART])
                count += len(found)
                size = sum(len(one.memory.content) for one in found)
                for line in await run_in_thread(size, partial(_lines, scope, found)):
                    yield line
        after = scopes[-1]
    yield json.dumps({"end": True, "memories": count})


def _lines(scope: Scope, found: Sequence[Whole]) -> list[str]:
    lines = (
        _adapter().dump_json(_Line(scope, one.memory, one.revisions), exclude={"vector"}).decode() for one in found
    )
    return [line.translate(LINE_ENDS) for line in lines]


async def import_(
    parts: Components,
    place: Path | str,
    source: Source,
    options: ImportOptions,
    *,
    tenant: str | None,
    dry_run: bool,
    progress: Progress | None,
) -> Imported:
    """See `Memories.import_`."""
    if source not in SOURCES:
        raise InvalidInput(f"The source must be one of {', '.join(SOURCES)}, not {source!r}.")
    if source == "kagent-memory":
        if given := [name for name, value in options.items() if value is not None]:
            raise InvalidInput(f"{', '.join(given)} goes with other systems' memories; choose when you export.")
        return await _taken_in(parts, Path(place), tenant=tenant, dry_run=dry_run, progress=progress)
    tenant = parts.settings.tenant if tenant is None else tenant
    importer = Importer(parts, source, str(place), tenant, options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "converted.jsonl"
        await _convert(importer, path)
        done = await _taken_in(parts, path, tenant=tenant, dry_run=dry_run, progress=progress)
    return replace(done, left_out=importer.left_out)


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


async def _taken_in(
    parts: Components, path: Path, *, tenant: str | None, dry_run: bool, progress: Progress | None
) -> Imported:
    await run_in_thread(READ, partial(_check, path, tenant))
    counts = dict.fromkeys(("added", "present", "equal", "forgotten"), 0)
    touched: dict[Scope, None] = {}
    portions = _parts(path)
    while some := await run_in_thread(READ, partial(next, portions, None)):
        scope, lines = some
        memories = [Whole(line.memory, line.revisions) for line in lines]
        outcomes: Sequence[Restored] = await parts.store.restore(scope, memories, dry_run=dry_run, now=parts.clock())
        for outcome in outcomes:
            counts[outcome] += 1
        if "added" in outcomes:
            touched[scope] = None
        if not dry_run:
            await _keep_vectors(parts, scope, lines)
        if progress is not None:
            progress(sum(counts.values()))
    if parts.vectors is not None and not dry_run:
        now = parts.clock()
        for scope in touched:
            await parts.store.enqueue([embed_job(scope, now)])
        parts.worker.wake()
    return Imported(**counts)


async def _keep_vectors(parts: Components, scope: Scope, lines: Sequence[_Line]) -> None:
    """Keeps the vectors that came along, beside those of the memories that say what they said there."""
    brought = {line.memory.id: line for line in lines if line.vector is not None}
    held = await parts.store.whole(scope, [*brought]) if brought else ()
    vectors = {
        one.memory.id: checked_vector(brought[one.memory.id].vector, DIMENSIONS)
        for one in held
        if one.memory.content == brought[one.memory.id].memory.content
    }
    if vectors:
        space = await parts.caller_vectors.space_for(scope, external_name(DIMENSIONS), next(iter(vectors.values())))
        batch = Batch(changes=[], vectors=vectors, space_number=space.number)
        await parts.store.apply(scope, batch, now=parts.clock())


def _parts(path: Path) -> Iterator[tuple[Scope, list[_Line]]]:
    """The memories of a file that was checked, some of one scope at a time."""
    scope: Scope | None = None
    some: list[_Line] = []
    for _, line in _memories(path):
        if some and (line.scope != scope or len(some) == PART):
            yield scope or line.scope, some
            some = []
        scope = line.scope
        some.append(line)
    if some and scope:
        yield scope, some


def _check(path: Path, tenant: str | None) -> None:
    """Reads the file to its end, so that nothing is written of one that cannot be imported whole.

    Raises:
        InvalidInput: it is not an export, of a version this one cannot read, cut off, damaged, or of another tenant.
    """
    for number, line in _memories(path):
        if tenant is not None and line.scope.tenant != tenant:
            raise InvalidInput(
                f"Line {number} of {path} is of the tenant {line.scope.tenant!r}; this imports into {tenant!r} alone."
            )
        try:
            former = [revision.before for revision in line.revisions if revision.before is not None]
            changes = [Change(kind="add", memory=memory) for memory in (line.memory, *former)]
            checked(Batch(changes=changes), None)
            for revision in line.revisions:
                checked_text(revision.who + revision.why + revision.kind + (revision.group or ""), "A revision's text")
            if line.vector is not None:
                checked_vector(line.vector, DIMENSIONS)
            if any(revision.memory_id != line.memory.id for revision in line.revisions):
                raise InvalidInput("A revision is of another memory.")
        except InvalidInput as error:
            raise InvalidInput(f"Line {number} of {path} cannot be imported: {error}") from error


def _memories(path: Path) -> Iterator[tuple[int, _Line]]:
    """The lines between the first and the last, each with its number.

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
                    _check_head(path, text)
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


def _check_head(path: Path, text: str) -> None:
    try:
        head = _Head.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInput(f"{path} is not an export of kagent-memory; its first line says none.") from error
    if head.version != VERSION:
        raise InvalidInput(f"{path} has the version {head.version}; this kagent-memory reads version {VERSION}.")


def _check_end(path: Path, text: str, count: int, rest: str) -> None:
    try:
        told = _End.model_validate_json(text).memories
    except ValidationError as error:
        raise InvalidInput(f"The last line of {path} is damaged; export it again.") from error
    if told != count or rest.strip():
        raise InvalidInput(f"{path} should hold {told} memories and holds {count}, or more follows; export it again.")
