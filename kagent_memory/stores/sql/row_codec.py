"""Memories, revisions and jobs as rows, and back: the one place where rows are encrypted.

With keys, the fields of a record that are marked `SEALED` go into one sealed value of its row, and
their own columns are left empty. What the database must compare is left as a digest keyed by the
scope's salt, which is sealed itself: the fields that a filter names, the slot, and the content's
hash. Without keys nothing is changed, and a row that was sealed is refused rather than shown empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any, TypeAlias, cast

from ...checks import json_text
from ...language import tokenizer
from ...records import Filter, Memory, Revision, Scope, Usage
from .. import codec
from ..encryption import FORMAT, KeyRing, key_id, missing_key
from ..index import Entry
from ..planning import Texts, slot_of
from ..values import Job

Row: TypeAlias = Mapping[str, Any]

SALT_BYTES = 16
_MEMORY = tuple(field.name for field in fields(Memory) if field.name != "usage")
_USAGE = tuple(field.name for field in fields(Usage))
_REVISION = tuple(field.name for field in fields(Revision))
_JOB = tuple(field.name for field in fields(Job) if field.name != "scope")
_ERROR = "\x1f"  # begins a sealed error


def sealed_fields(record: type) -> Mapping[str, str | None]:
    """Return the fields of a record that are encrypted, each with what its column holds then."""
    marked = (field for field in fields(record) if field.metadata.get("sealed"))
    return {field.name: "" if field.type in ("str", "Text") else None for field in marked}


_SEALED_MEMORY = {**sealed_fields(Memory), "slot": None}
_SEALED_REVISION = sealed_fields(Revision)
FILTERED = sorted(_SEALED_MEMORY.keys() & {field.name for field in fields(Filter)})


class RowCodec:
    """Encode and decode the rows of one scope in one transaction.

    Every decoding method raises ConfigurationError where a key is missing or differs from what it
    was, and StoreError where a row was altered or stood in another place.

    Args:
        ring: the keys; None: nothing is sealed, and what is sealed is refused.
        scope: whose rows.

    Attributes:
        key: the scope's salt, which digests are keyed by; empty until it was read.
    """

    def __init__(self, ring: KeyRing | None, scope: Scope) -> None:
        self.ring = ring
        self._scope = scope
        self.key = b""
        self._is_salt_sealed = False

    # -- scopes ---------------------------------------------------------------------------------

    def salt(self, row: Row) -> bytes:
        """Return the salt of a scope's row; later digests are keyed by it."""
        stored = bytes(row["salt"])
        self._is_salt_sealed = len(stored) != SALT_BYTES
        self.key = self._open(stored, b"salt") if self._is_salt_sealed else stored
        return self.key

    def sealed_salt(self, salt: bytes | None = None) -> bytes:
        """Return a salt, or a new one, as a scope's row keeps it."""
        if salt is not None:
            self.key, self._is_salt_sealed = salt, self.ring is not None
        return self._seal(salt or os.urandom(SALT_BYTES), b"salt")

    def sealed_index(self, packed: bytes) -> bytes:
        """Return a packed index as it is kept."""
        return self._seal(packed, b"index")

    def index(self, stored: bytes) -> bytes:
        """Return the packed index that was kept as these bytes."""
        return self._open(stored, b"index") if stored[:1] == FORMAT else stored

    # -- memories -------------------------------------------------------------------------------

    def memory(self, row: Row) -> Memory:
        """Return the memory of a row of `remembered`."""
        if row["sealed"] is not None:
            row = {**row, **self.memory_texts(row)}
        values = {name: row[name] for name in _MEMORY}
        values.update({name: tuple(row[name] or ()) for name in codec.MEMORY_LISTS})
        return Memory(**values, usage=Usage(**{name: row[name] for name in _USAGE}))

    def memory_texts(self, row: Row) -> dict[str, Any]:
        """Return the sealed fields of a memory's row."""
        return self._opened(row["sealed"], "memory", row["id"])

    def memory_values(
        self,
        memory: Memory,
        texts: Texts,
        *,
        touched: int,
        postings: bytes | None = None,
    ) -> dict[str, Any]:
        """Return a memory as the columns of its row.

        Args:
            memory: which; the scope's salt was read.
            texts: its prepared texts.
            touched: the version of the scope that writes it.
            postings: its index terms; None: the row's stay.
        """
        values: dict[str, Any] = {
            **{name: getattr(memory, name) for name in _MEMORY},
            "metadata": dict(memory.metadata),
            "content_hash": self.hashes([texts.identity(memory)])[0],
            "slot": slot_of(memory),
            "sealed": None,
            "postings": postings,
            "touched": touched,
        }
        if self.ring is None:
            return values
        place = {"chars": len(memory.content), "asks": tokenizer.is_question(memory.content)}
        indexed = _json({**place, "author": memory.author}) + b"\n"
        terms = indexed + (postings or texts.postings(memory))
        assert self.key
        digests = self.digests({name: values[name] for name in (*FILTERED, "slot")})
        sealed = self._sealed(values, _SEALED_MEMORY, "memory", memory.id)
        postings = self._seal(terms, _place("postings", memory.id))
        return {**sealed, **digests, "postings": postings}

    def entry(self, row: Row) -> Entry:
        """Return what the index holds of a row of `indexed`."""
        row = self.with_terms(row)
        return Entry(**{name: row[name] for name in Entry._fields})

    def with_terms(self, row: Row) -> Row:
        """Return a memory's row with its index terms, and what the index reads of its texts."""
        if not row["is_sealed"]:
            return row
        opened = self._open(row["postings"], _place("postings", row["id"]))
        indexed, _, terms = opened.partition(b"\n")
        return {**row, **json.loads(indexed), "postings": terms}

    # -- revisions ------------------------------------------------------------------------------

    def revision(self, row: Row) -> Revision:
        """Return the revision of a row of `memory_revision`."""
        values = {**row, "group": row["change_group"]}
        if row["sealed"] is not None:
            values |= self._opened(row["sealed"], "revision", row["memory_id"], row["revision"])
        values["before"] = values["before"] and codec.from_snapshot(values["before"])
        return Revision(**{name: values[name] for name in _REVISION})

    def revision_values(self, revision: Revision) -> dict[str, Any]:
        """Return a revision as the columns of its row."""
        values: dict[str, Any] = {name: getattr(revision, name) for name in _REVISION}
        values["before"] = revision.before and codec.to_snapshot(revision.before)
        values["sealed"] = None
        place = (revision.memory_id, revision.revision)
        return self._sealed(values, _SEALED_REVISION, "revision", *place)

    # -- jobs -----------------------------------------------------------------------------------

    def job(self, row: Row) -> Job:
        """Return the job of a row of `ingest_job`."""
        values = {**{name: row[name] for name in _JOB}, **self.job_texts(row)}
        return Job(scope=self._scope, **values)

    def job_texts(self, row: Row) -> dict[str, Any]:
        """Return the payload and the error of a job's row, as far as the row has them."""
        texts: dict[str, Any] = {"payload": row["payload"], "error": row.get("error", "")}
        if row["sealed"] is not None:
            texts |= self._opened(row["sealed"], "job", row["id"])
        if texts["error"].startswith(_ERROR):
            sealed = bytes.fromhex(texts["error"].removeprefix(_ERROR))
            texts["error"] = self._open(sealed, _place("error", row["id"])).decode()
        return texts

    def job_values(self, job: Job) -> dict[str, Any]:
        """Return a job as the columns of its row."""
        values = {name: getattr(job, name) for name in _JOB}
        return values | self.job_text_values(job.id, job.payload, job.error)

    def job_text_values(
        self, id: str, payload: Mapping[str, Any], error: str = ""
    ) -> dict[str, Any]:
        """Return the payload and the error of a job as the columns of its row."""
        if error and self.ring is not None:
            error = _ERROR + self._seal(error.encode(), _place("error", id)).hex()
        values = {"id": id, "payload": dict(payload), "error": error}
        return self._sealed({**values, "sealed": None}, {"payload": {}}, "job", id)

    # -- digests --------------------------------------------------------------------------------

    def _digest(self, kind: str, data: bytes) -> bytes:
        return blake2b(data, key=self.key, digest_size=16, person=kind.encode()).digest()

    def hashes(self, hashes: Sequence[bytes]) -> list[bytes]:
        """Return content hashes as the scope's rows keep them."""
        if self.ring is None or not self._is_salt_sealed:
            return [*hashes]
        return [self._digest("content", hash) for hash in hashes]

    def slots(self, slots: Iterable[str]) -> list[str]:
        """Return what the rows that fill these slots may hold, plain or sealed."""
        plain = [*dict.fromkeys(slots)]
        return [*plain, *self.digests({"slot": plain}).get("slot", ())]

    def digests(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the digests of values that the database compares, where rows are sealed."""
        if self.ring is None or not self.key:
            return {}

        def digest(kind: str, value: str) -> str:
            return self._digest(kind, value.encode()).hex()

        def digests(name: str, value: Any) -> object:
            if isinstance(value, Mapping):
                items = cast("Mapping[str, object]", value).items()
                return {
                    digest("name", key): digest("value", _canonical(part)) for key, part in items
                }
            if isinstance(value, list | tuple):
                return [digest(name, part) for part in cast("Sequence[str]", value)]
            return None if value is None else digest(name, str(value))

        return {name: digests(name, value) for name, value in values.items()}

    # -- sealing --------------------------------------------------------------------------------

    def _seal(self, data: bytes, place: bytes) -> bytes:
        return data if self.ring is None else self.ring.seal(data, self._scope.id, place)

    def _sealed(self, values: Row, fields: Mapping[str, Any], *place: object) -> dict[str, Any]:
        """Return the columns of a row with these fields sealed, where rows are."""
        if self.ring is None:
            return dict(values)
        said = _json({name: values[name] for name in fields})
        return {**values, **fields, "sealed": self._seal(said, _place(*place))}

    def _open(self, sealed: bytes, place: bytes) -> bytes:
        if self.ring is None:
            raise missing_key(key_id(bytes(sealed)))
        return self.ring.open(bytes(sealed), self._scope.id, place)

    def _opened(self, sealed: bytes, *place: object) -> dict[str, Any]:
        return json.loads(self._open(sealed, _place(*place)))


def to_scope(row: Row) -> Scope:
    """Return the scope of a row with its texts."""
    return Scope(row["tenant"], row["user_id"], row["app"])


def _place(*parts: object) -> bytes:
    return "\0".join(map(str, parts)).encode()


def _canonical(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a filter takes 1 and 1.0 for the same
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def _json(value: Mapping[str, Any]) -> bytes:
    return json_text(value, "The value", compact=True).encode()
