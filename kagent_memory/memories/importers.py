"""What other memory systems keep, as lines that import takes: whose it is, what it says, when, until when."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..ingestion.editing import kept_fact
from ..records import Change, Memory, Scope, Usage
from ..retention.lifecycle import to_memory
from ..settings.kagent_config import DIMENSIONS
from ..stores.base import Batch, checked_vector
from ..stores.planning import checked
from .components import Components, without_secrets
from .foreign_rows import AdkRow, Form, Found, KagentRow, LangGraphRow, Mem0Memory, Mem0Row
from .options import TABLES, ImportOptions, Source

PART = 200
READ = 1_000_000  # characters: work for a thread
_EPOCH = datetime.fromtimestamp(0, UTC)
Row: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class Importer:
    """Makes lines of one source: pure but for the reading of it."""

    parts: Components
    source: Source
    place: str
    tenant: str
    options: ImportOptions
    left_out: int = 0
    _positions: Counter[tuple[Scope, str]] = field(default_factory=Counter[tuple[Scope, str]])

    def __post_init__(self) -> None:
        for name, fitting in (("table", TABLES), ("namespace", ("langgraph",))):
            if self.options.get(name) is not None and self.source not in fitting:
                raise InvalidInput(f"{name} goes with {', '.join(fitting)}, not with {self.source}; leave it out.")
        if self.source == "langgraph" and not self.options.get("namespace"):
            raise InvalidInput(
                "LangGraph does not say whose memories a namespace holds: pass namespace, such as 'memories.{user}'."
            )

    async def memories(self) -> AsyncGenerator[Sequence[tuple[Scope, Memory, tuple[float, ...] | None]]]:
        """All that is taken, some at a time.

        Raises:
            InvalidInput: the source is not what it is said to be, or a memory of it cannot be kept.
            ConfigurationError: the database's URI, or a right, does not fit.
            StoreError: the database is away.
        """
        async with aclosing(self._rows()) as portions:
            async for form, rows in portions:
                yield await run_in_thread(READ, partial(self._understood, form, rows))

    async def _rows(self) -> AsyncGenerator[tuple[type[Form], Sequence[Row]]]:
        forms: Mapping[Source, type[Form]] = {"kagent": KagentRow, "mem0": Mem0Row, "langgraph": LangGraphRow}
        if self.source in TABLES and self.place.startswith(("postgres://", "postgresql://")):
            from ..stores.postgres.foreign_tables import table_rows  # its driver is slow to import

            table = self.options.get("table")
            table = TABLES[self.source] if table is None else table
            async with aclosing(table_rows(self.place, self.source, table, part=PART)) as portions:
                async for rows in portions:
                    yield forms[self.source], rows
            return
        if self.source in ("kagent", "langgraph"):
            raise self._not_it("it is read from its database; pass postgresql://…")
        read = self._turns() if self.source == "adk-sqlite" else self._mem0_export()
        while some := await run_in_thread(READ, lambda: list(islice(read, PART))):
            yield (AdkRow if self.source == "adk-sqlite" else Mem0Memory), some

    def _turns(self) -> Iterator[Row]:
        path = Path(self.place.removeprefix("sqlite:///"))
        try:
            with closing(
                sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
            ) as db:
                db.row_factory = sqlite3.Row
                versions = db.execute("SELECT value FROM adk_memory_metadata WHERE key = 'schema_version'").fetchall()
                if [tuple(row) for row in versions] != [("1",)]:
                    raise self._not_it("its schema is not of version 1")
                for row in db.execute(
                    "SELECT app_name, user_id, session_id, event_id, author, timestamp, content_json "
                    "FROM memory_events ORDER BY app_name, user_id, session_id, timestamp, id"
                ):
                    yield dict(row)
        except sqlite3.Error as error:
            raise self._not_it(str(error)) from error

    def _mem0_export(self) -> Iterator[Row]:
        try:
            held: object = json.loads(Path(self.place).read_text("utf-8"))
            if isinstance(held, dict):
                held = TypeAdapter(dict[str, object]).validate_python(held)
                held = held.get("results", held.get("memories"))
            yield from TypeAdapter(list[dict[str, Any]]).validate_python(held)
        except OSError as error:
            raise self._not_it(error.strerror or str(error)) from error
        except (ValueError, RecursionError) as error:
            raise self._not_it("JSON with a list of memories is expected, as get_all() gives it") from error

    def _understood(
        self, form: type[Form], rows: Sequence[Row]
    ) -> Sequence[tuple[Scope, Memory, tuple[float, ...] | None]]:
        taken: list[tuple[Scope, Memory, tuple[float, ...] | None]] = []
        for row in rows:
            try:
                foreign = form.model_validate(row).found()
            except (ValueError, OverflowError, OSError) as error:  # the last two of times beyond the calendar
                first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
                where = ".".join(map(str, first["loc"]))
                raise self._not_it(f"{_name(row)}: {where}: {first['msg']}") from error
            if self.source == "langgraph":
                foreign = self._by_namespace(foreign)
            scope = self._scope_of(foreign)
            try:
                memory = self._memory(scope, foreign) if scope else None
            except InvalidInput as error:
                raise InvalidInput(f"{_name(row)} of {self._where} cannot be imported: {error}") from error
            if scope and memory:
                taken.append((scope, memory, foreign.vector))
            else:
                self.left_out += 1
        return taken

    def _by_namespace(self, foreign: Found) -> Found:
        """With what the parts of its namespace say; one of another form is left out."""
        form, parts = (self.options.get("namespace") or "").split("."), foreign.key[0].split(".")
        fits = len(form) == len(parts) and all(
            name == part or name in ("*", "{user}", "{app}", "{session}")
            for name, part in zip(form, parts, strict=True)
        )
        if not fits:
            return replace(foreign, fact=replace(foreign.fact, text=""))
        said = dict(zip(form, parts, strict=True))
        fact = replace(foreign.fact, session_id=said.get("{session}"))
        return replace(foreign, user=said.get("{user}"), app=said.get("{app}"), fact=fact)

    def _scope_of(self, foreign: Found) -> Scope | None:
        """Whose it is; None where it says nothing, or belongs to others than were asked for."""
        wanted = {name: self.options.get(name) for name in ("app", "user")}
        said = {"app": foreign.app, "user": foreign.user}
        if not foreign.fact.text.strip() or any(
            wanted[name] is not None and said[name] not in (None, wanted[name]) for name in said
        ):
            return None
        whose = {name: said[name] or wanted[name] for name in said}
        for name, value in whose.items():
            if not value:
                raise InvalidInput(f"{self._where} does not say the {name} of {'/'.join(foreign.key)}: pass {name}.")
        return Scope(self.tenant, whose["user"] or "", whose["app"] or "")

    def _memory(self, scope: Scope, foreign: Found) -> Memory | None:
        """The memory as it is kept: secrets masked, its id the same at every import; None: personal data kept it out.

        Raises:
            InvalidInput: it cannot be kept.
        """
        settings, now = self.parts.settings, self.parts.clock()
        fact = kept_fact(
            replace(foreign.fact, origin="import"),
            max_bytes=settings.max_content_bytes,
            redact=self.parts.redactors.save,
        )
        if fact is None:
            return None
        created = _utc(foreign.created_at) or now
        digest = hashlib.blake2b(
            json.dumps([self.source, *foreign.key]).encode(), key=scope.id, digest_size=10
        ).digest()
        at = int((_utc(foreign.created_at) or _EPOCH).timestamp() * 1000)
        number = (at & (1 << 48) - 1) << 80 | int.from_bytes(digest, "big")
        number = number & ~(0xF << 76) | 0x7 << 76
        id = str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))
        position = None
        if fact.session_id is not None:
            position = self._positions[scope, fact.session_id]
            self._positions[scope, fact.session_id] += 1
        memory = replace(
            to_memory(fact, now=created, ttl_days=0, id=id),
            updated_at=_utc(foreign.updated_at) or created,
            expires_at=_utc(foreign.expires_at),
            position=position,
            usage=Usage(delivered=foreign.delivered, delivered_total=foreign.delivered),
        )
        checked(Batch(changes=[Change(kind="add", memory=memory)]), None)
        if foreign.vector is not None:
            checked_vector(foreign.vector, DIMENSIONS)
        return memory

    @property
    def _where(self) -> str:
        return without_secrets(self.place) if "://" in self.place else self.place

    def _not_it(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"{self._where} cannot be read as {self.source}'s memories ({why}); name the right source, or its table."
        )


def _name(row: Row) -> str:
    names = ("id", "event_id", "prefix", "key")
    return "/".join(str(row[name]) for name in names if name in row) or "A row"


def _utc(at: datetime | None) -> datetime | None:
    """A time in UTC; without a zone it is UTC already.

    Raises:
        InvalidInput: in UTC it lies beyond the calendar.
    """
    if at is None:
        return None
    try:
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except OverflowError as error:
        raise InvalidInput(f"The time {at.isoformat()} lies beyond the calendar.") from error
