"""Conversion of memories, revisions and jobs to rows and back: the only place that encrypts rows.

With keys, all `Sealed` fields of a record go into one sealed value of its row, and their own
columns are left empty. Values that the database compares (filtered fields, the slot, the content
hash) are stored as digests keyed by the scope's salt, which is sealed itself. Without keys rows are
plain, and a sealed row is refused rather than shown empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias, cast, get_args, get_type_hints

from ...checks import json_text
from ...language import tokenizer
from ...records import Filter, Memory, Revision, Scope, Usage
from .. import codec
from ..encryption import FORMAT, KeyRing, key_id, missing_key
from ..index import Entry
from ..planning import slot_of
from ..values import Job

Row: TypeAlias = Mapping[str, Any]

SALT_BYTES = 16
_ERROR = "\x1f"  # prefix of a sealed error


def _columns(record: type, *apart: str) -> Sequence[str]:
    """Return the fields of a record that are columns of its table."""
    return [field.name for field in fields(record) if field.name not in apart]


def sealed_fields(record: type) -> Mapping[str, str | None]:
    """Return sealed field → the value of its own column in a sealed row."""
    hints = get_type_hints(record, include_extras=True)
    return {
        name: "" if get_args(hint)[0] is str else None
        for name, hint in hints.items()
        if "sealed" in get_args(hint)
    }


class Table(NamedTuple):
    """The table of one kind of record.

    Attributes:
        name: the name that sealed values are bound to, along with the row's key.
        key: the columns that identify a row within its scope.
        columns: the fields of the record that are columns.
        sealed: sealed column → its value in a sealed row.
    """

    name: str
    key: Sequence[str]
    columns: Sequence[str]
    sealed: Mapping[str, Any]

    def place(self, row: Row) -> bytes:
        """Return the place that the row's sealed value is bound to."""
        return _place(self.name, *(row[name] for name in self.key))

    def values(self, record: object) -> dict[str, Any]:
        """Return column → value of a record."""
        return {name: getattr(record, name) for name in self.columns}


MEMORIES = Table(
    "memory", ["id"], _columns(Memory, "usage"), {**sealed_fields(Memory), "slot": None}
)
USAGE = _columns(Usage)
REVISIONS = Table(
    "revision", ["memory_id", "revision"], _columns(Revision), sealed_fields(Revision)
)
JOBS = Table("job", ["id"], _columns(Job, "scope"), {"payload": {}})
FILTERED = sorted(MEMORIES.sealed.keys() & {*_columns(Filter)})


class RowCodec:
    """Encode and decode the rows of one scope in one transaction.

    Every decoding method raises ConfigurationError if a key is missing or differs from the
    original, and StoreError if a row was altered or moved.

    Args:
        ring: the keys; None: rows are plain, and sealed ones are refused.
        scope: the scope of the rows.

    Attributes:
        key: the scope's salt, the key of its digests; empty until read.
    """

    def __init__(self, ring: KeyRing | None, scope: Scope) -> None:
        self.ring = ring
        self._scope = scope
        self.key = b""
        self._is_salt_sealed = False

    # -- scopes ---------------------------------------------------------------------------------

    def salt(self, row: Row) -> bytes:
        """Return the salt of a scope's row; it keys later digests."""
        stored = bytes(row["salt"])
        self._is_salt_sealed = len(stored) != SALT_BYTES
        self.key = self._open(stored, b"salt") if self._is_salt_sealed else stored
        return self.key

    def sealed_salt(self, salt: bytes | None = None) -> bytes:
        """Return a salt, or a new one, as stored in the row of a scope."""
        if salt is not None:
            self.key, self._is_salt_sealed = salt, self.ring is not None
        return self._seal(salt or os.urandom(SALT_BYTES), b"salt")

    def sealed_index(self, packed: bytes) -> bytes:
        """Return a packed index as stored."""
        return self._seal(packed, b"index")

    def index(self, stored: bytes) -> bytes:
        """Return the packed index from its stored bytes."""
        return self._open(stored, b"index") if stored[:1] == FORMAT else stored

    # -- memories -------------------------------------------------------------------------------

    def memory(self, row: Row) -> Memory:
        """Return the memory of a row of `remembered`."""
        usage = Usage(**{name: row[name] for name in USAGE})
        return Memory(**self.opened(MEMORIES, row), usage=usage)

    def memory_values(
        self, memory: Memory, texts: codec.Texts, *, touched: int, has_new_text: bool = True
    ) -> dict[str, Any]:
        """Return the columns of a memory's row. The scope's salt must have been read.

        Args:
            memory: the memory.
            texts: its prepared texts.
            touched: the version of the scope that writes it.
            has_new_text: False to keep the index terms of the row, if that is plain.
        """
        values = MEMORIES.values(memory) | {
            "metadata": dict(memory.metadata),
            "content_hash": self.hash(texts.identity(memory)),
            "slot": slot_of(memory),
            "postings": texts.postings(memory) if has_new_text else None,
            "touched": touched,
        }
        digests = self.digests({name: values[name] for name in (*FILTERED, "slot")})
        if self.ring is not None:
            assert self.key
            indexed = {
                "chars": len(memory.content),
                "asks": tokenizer.is_question(memory.content),
                "author": memory.author,
            }
            terms = _json(indexed) + b"\n" + texts.postings(memory)
            values["postings"] = self._seal(terms, _place("postings", memory.id))
        return self._sealed(MEMORIES, values) | digests

    def entry(self, row: Row) -> Entry:
        """Return the index entry of a row of `indexed`."""
        if row["is_sealed"]:
            opened = self._open(row["postings"], _place("postings", row["id"]))
            indexed, _, terms = opened.partition(b"\n")
            row = {**row, **json.loads(indexed), "postings": terms}
        return Entry(**{name: row[name] for name in Entry._fields})

    # -- revisions and jobs ---------------------------------------------------------------------

    def revision(self, row: Row) -> Revision:
        """Return the revision of a row of `memory_revision`."""
        values = self.opened(REVISIONS, row)
        values["before"] = values["before"] and codec.from_snapshot(values["before"])
        return Revision(**values)

    def revision_values(self, revision: Revision) -> dict[str, Any]:
        """Return the columns of a revision's row."""
        before = revision.before and codec.to_snapshot(revision.before)
        return self._sealed(REVISIONS, {**REVISIONS.values(revision), "before": before})

    def job(self, row: Row) -> Job:
        """Return the job of a row of `ingest_job`."""
        values = self.opened(JOBS, row)
        if values["error"].startswith(_ERROR):
            sealed = bytes.fromhex(values["error"].removeprefix(_ERROR))
            values["error"] = self._open(sealed, _place("error", row["id"])).decode()
        return Job(scope=self._scope, **values)

    def job_values(self, job: Job) -> dict[str, Any]:
        """Return the columns of a job's row."""
        values = JOBS.values(job) | {"payload": dict(job.payload)}
        if job.error and self.ring is not None:
            values["error"] = _ERROR + self._seal(job.error.encode(), _place("error", job.id)).hex()
        return self._sealed(JOBS, values)

    # -- digests --------------------------------------------------------------------------------

    def _digest(self, kind: str, data: bytes) -> bytes:
        return blake2b(data, key=self.key, digest_size=16, person=kind.encode()).digest()

    def hash(self, hash: bytes) -> bytes:
        """Return a content hash as stored in the scope's rows."""
        is_keyed = self.ring is not None and self._is_salt_sealed
        return self._digest("content", hash) if is_keyed else hash

    def slots(self, slots: Iterable[str]) -> list[str]:
        """Return slots as rows may store them, plain or as digests."""
        plain = [*dict.fromkeys(slots)]
        return [*plain, *self.digests({"slot": plain}).get("slot", ())]

    def digests(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return name → digest of values that the database compares; {} without keys."""
        if self.ring is None or not self.key:
            return {}
        return {name: self._digests(name, value) for name, value in values.items()}

    def _digests(self, name: str, value: object) -> object:
        match value:
            case None:
                return None
            case Mapping():
                items = cast("Mapping[str, object]", value).items()
                return {
                    self._digests("name", key): self._digests("value", _canonical(part))
                    for key, part in items
                }
            case list() | tuple():
                return [self._digests(name, part) for part in cast("Sequence[object]", value)]
            case _:
                return self._digest(name, str(value).encode()).hex()

    # -- sealing --------------------------------------------------------------------------------

    def _seal(self, data: bytes, place: bytes) -> bytes:
        return data if self.ring is None else self.ring.seal(data, self._scope.id, place)

    def _sealed(self, table: Table, values: Row) -> dict[str, Any]:
        """Return the columns of a row, sealed if there are keys."""
        if self.ring is None:
            return {**values, "sealed": None}
        plain = _json({name: values[name] for name in table.sealed})
        return {**values, **table.sealed, "sealed": self._seal(plain, table.place(values))}

    def _open(self, sealed: bytes, place: bytes) -> bytes:
        if self.ring is None:
            raise missing_key(key_id(bytes(sealed)))
        return self.ring.open(bytes(sealed), self._scope.id, place)

    def opened(self, table: Table, row: Row) -> dict[str, Any]:
        """Return field → value of a record from its row, decrypted if sealed."""
        if row["sealed"] is not None:
            row = {**row, **json.loads(self._open(row["sealed"], table.place(row)))}
        return {
            name: tuple(cast("list[Any]", value)) if isinstance(value := row[name], list) else value
            for name in table.columns
        }


def to_scope(row: Row) -> Scope:
    """Return the scope of a row with its names."""
    return Scope(row["tenant"], row["user_id"], row["app"])


def _place(*parts: object) -> bytes:
    return "\0".join(map(str, parts)).encode()


def _canonical(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # to a filter 1 equals 1.0
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def _json(value: Mapping[str, Any]) -> bytes:
    return json_text(value, "The value").encode()
