"""Where rows are encrypted and decrypted: every value that a session sends and every row that it
gives passes here.

Of a memory, a revision and a job, what holds somebody's words goes into one sealed value of the
row, and its own columns are left empty. What the database must compare is left as a digest keyed by
the scope's salt, which is sealed itself: topics, tags, author, category, metadata and slot for
filters, and the content's hash. Without keys nothing is changed, and a row that was sealed is
refused rather than shown empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ...checks import json_text
from ...language import tokenizer
from ...records import Scope
from ..encryption import FORMAT, KeyRing, key_id, missing_key
from ..postings import packed
from .session import Row, Values

SALT_BYTES = 16
# the fields of records that are sealed; `tests/stores/test_encryption.py` lists those left plain
MEMORY = (
    "content",
    "topics",
    "tags",
    "author",
    "subject",
    "attribute",
    "metadata",
    "category",
    "slot",
)
REVISION = ("before", "who", "why")
JOB = ("payload", "error")
_LISTS = ("topics", "tags")
_ERROR = "\x1f"  # begins a sealed error


@dataclass(frozen=True, slots=True)
class _Salt:
    value: bytes
    is_sealed: bool


class Sealing:
    """What one session seals and opens. It learns the salts of the scopes on its way; a row that
    has one gets it opened as its `key`.

    Args:
        ring: the keys; None: it seals nothing, and refuses what is sealed.
    """

    def __init__(self, ring: KeyRing | None) -> None:
        self.ring = ring
        self._salts: dict[bytes, _Salt] = {}

    def lacks_salt(self, query: str, values: Values) -> bool:
        """Whether the statement compares what is keyed by its scope's salt, which must be read
        first.
        """
        if not isinstance(scope_id := values.get("scope_id"), bytes) or scope_id in self._salts:
            return False
        if "sealed_topics" in values and any(values[name] is not None for name in _FILTERS):
            # without keys too: a filter that cannot see what it asks for must not say that there is
            # none
            return True
        return self.ring is not None and query in _KEYED

    def sent(self, query: str, values: Values) -> Values:
        """The values of a statement as the database is to keep or compare them."""
        if (ring := self.ring) is None:
            return values
        match query:
            case "insert_memory" | "replace_memory" | "reseal_memory":
                return self._memory(ring, values)
            case "insert_revision" | "restore_revision" | "reseal_revision":
                place = _place("revision", values["memory_id"], values["revision"])
                said = _json({name: values[name] for name in REVISION})
                sealed = ring.seal(said, values["scope_id"], place)
                return {**values, "before": None, "who": "", "why": "", "sealed": sealed}
            case "insert_job" | "coalesce_job" | "release_job" | "replace_payload" | "reseal_job":
                return self._job(ring, values)
            case "put_index":
                return {
                    **values,
                    "packed": ring.seal(values["packed"], values["scope_id"], b"index"),
                }
            case "replace_salt":
                self._salts[values["scope_id"]] = _Salt(values["salt"], True)
                return {**values, "salt": ring.seal(values["salt"], values["scope_id"], b"salt")}
            case "touch_scope":
                return {**values, "salt": ring.seal(values["salt"], values["scope_id"], b"salt")}
            case _:
                return self._compared(query, values)

    def given(self, query: str, values: Values, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of a query as they were before they were sealed.

        Raises:
            ConfigurationError: a key is missing, or another one than it was.
            StoreError: a row was altered, or stood in another place.
        """
        if not rows:
            return rows
        first = rows[0]
        if "payload" in first:
            return [self._queued(row, values) for row in rows]
        if "sealed" in first:
            return [row if row["sealed"] is None else self._row(row, values) for row in rows]
        if "salt" in first:
            return [self._scope(row, values) for row in rows]
        if "is_sealed" in first:
            return [
                {**row, **self._postings(row, values)} if row["is_sealed"] else row for row in rows
            ]
        if query in ("equal_memories", "quarantined_memories") and self.ring is not None:
            former = {self._hash(values["scope_id"], one): one for one in values["hashes"]}
            return [{**row, "content_hash": former[bytes(row["content_hash"])]} for row in rows]
        return rows

    # -- rows -----------------------------------------------------------------------------------

    def _open(self, sealed: bytes, scope_id: bytes, place: bytes) -> bytes:
        if self.ring is None:
            raise missing_key(key_id(sealed))
        return self.ring.open(sealed, scope_id, place)

    def _row(self, row: Row, values: Values) -> Row:
        scope_id, sealed = _scope_id(row, values), bytes(row["sealed"])
        if "before" in row:
            place = _place("revision", row["memory_id"], row["revision"])
        else:
            place = _place("memory", row["id"])
        opened: dict[str, Any] = json.loads(self._open(sealed, scope_id, place))
        for name in _LISTS:
            if name in opened:
                opened[name] = tuple(opened[name])
        if "postings" in row:
            opened["postings"] = self._postings(row, values)["postings"]
        return {**row, **opened}

    def _queued(self, row: Row, values: Values) -> Row:
        opened: dict[str, Any] = {}
        if row["sealed"] is not None:
            payload = self._open(
                bytes(row["sealed"]), _scope_id(row, values), _place("job", row["id"])
            )
            opened |= json.loads(payload)
        if (error := str(row.get("error", ""))).startswith(_ERROR):
            sealed = bytes.fromhex(error[len(_ERROR) :])
            opened["error"] = self._open(
                sealed, _scope_id(row, values), _place("error", row["id"])
            ).decode()
        return {**row, **opened} if opened else row

    def _postings(self, row: Row, values: Values) -> dict[str, Any]:
        """What the index reads of a memory, and its terms as "postings"."""
        opened = self._open(
            bytes(row["postings"]), _scope_id(row, values), _place("postings", row["id"])
        )
        told, _, postings = opened.partition(b"\n")
        return {**json.loads(told), "postings": postings}

    def _scope(self, row: Row, values: Values) -> Row:
        scope_id, stored = _scope_id(row, values), bytes(row["salt"])
        is_sealed, index = len(stored) != SALT_BYTES, row.get("packed")
        salt = self._open(stored, scope_id, b"salt") if is_sealed else stored
        self._salts[scope_id] = _Salt(salt, is_sealed)
        if index is not None and index[:1] == FORMAT:
            return {**row, "key": salt, "packed": self._open(bytes(index), scope_id, b"index")}
        return {**row, "key": salt}

    # -- values ---------------------------------------------------------------------------------

    def _digest(self, scope_id: bytes, kind: bytes, data: str) -> str:
        return blake2b(
            data.encode(), key=self._salts[scope_id].value, digest_size=16, person=kind
        ).hexdigest()

    def _hash(self, scope_id: bytes, content_hash: bytes) -> bytes:
        salt = self._salts.get(scope_id)  # a scope that nobody wrote to has none
        if salt is None or not salt.is_sealed:
            return content_hash
        return blake2b(content_hash, key=salt.value, digest_size=16, person=b"content").digest()

    def _told(self, scope_id: bytes, values: Values) -> dict[str, Any]:
        """The digests that filters compare, of those values that are set."""
        said: dict[str, Any] = {}
        for name in ("topics", "tags"):
            if values.get(name) is not None:
                said[name] = [self._digest(scope_id, name.encode(), one) for one in values[name]]
        for name in ("author", "category", "slot"):
            if values.get(name) is not None:
                said[name] = self._digest(scope_id, name.encode(), values[name])
        if values.get("metadata") is not None:
            said["metadata"] = {}
            for name, value in values["metadata"].items():
                if isinstance(value, float) and value.is_integer():
                    value = int(value)  # a filter takes 1 and 1.0 for the same
                canonical = json.dumps(
                    value, ensure_ascii=True, sort_keys=True, separators=(",", ":")
                )
                digest = self._digest(scope_id, b"value", canonical)
                said["metadata"][self._digest(scope_id, b"name", name)] = digest
        return said

    def _compared(self, query: str, values: Values) -> Values:
        """The values with digests instead of, or beside, what the database compares with the
        digests that it keeps.
        """
        scope_id = values.get("scope_id")
        if query in ("equal_memories", "quarantined_memories"):
            return {
                **values,
                "hashes": [self._hash(values["scope_id"], one) for one in values["hashes"]],
            }
        if query == "replace_hash":
            return {
                **values,
                "content_hash": self._hash(values["scope_id"], values["content_hash"]),
            }
        if scope_id not in self._salts:
            return values
        if query == "in_slots":
            digests = (self._digest(scope_id, b"slot", one) for one in values["slots"])
            return {**values, "slots": [*values["slots"], *digests]}
        if "sealed_topics" not in values:
            return values
        told = self._told(scope_id, values)
        return {**values, **{f"sealed_{name}": told[name] for name in _FILTERS if name in told}}

    def _memory(self, ring: KeyRing, values: Values) -> Values:
        scope_id, id, content = values["scope_id"], values["id"], values["content"]
        sealed = _json({name: values[name] for name in MEMORY})
        terms = values["postings"] or packed(tokenizer.index_terms(content, values["author"]))
        asks = tokenizer.is_question(content)
        told = _json({"chars": len(content), "asks": asks, "author": values["author"]})
        hidden = {**dict.fromkeys(MEMORY), "content": "", **self._told(scope_id, values)}
        if "content_hash" in values:
            hidden["content_hash"] = self._hash(scope_id, values["content_hash"])
        hidden["sealed"] = ring.seal(sealed, scope_id, _place("memory", id))
        hidden["postings"] = ring.seal(told + b"\n" + terms, scope_id, _place("postings", id))
        return {**values, **hidden}

    def _job(self, ring: KeyRing, values: Values) -> Values:
        scope_id, id = values["scope_id"], values["id"]
        hidden: dict[str, Any] = {}
        if values["payload"] is not None:
            payload = _json({"payload": dict(values["payload"])})
            hidden = {"payload": {}, "sealed": ring.seal(payload, scope_id, _place("job", id))}
        if values.get("error"):
            error = ring.seal(values["error"].encode(), scope_id, _place("error", id))
            hidden["error"] = sealed_error(error)
        return {**values, **hidden}


_FILTERS = ("topics", "tags", "metadata", "author", "category")
_KEYED = frozenset(
    {
        "equal_memories",
        "quarantined_memories",
        "in_slots",
        "insert_memory",
        "replace_memory",
        "reseal_memory",
    }
)


def sealed_error(sealed: bytes) -> str:
    """A sealed error as the text of its column."""
    return _ERROR + sealed.hex()


def _scope_id(row: Row, values: Values) -> bytes:
    given = values.get("scope_id")
    return (
        given if isinstance(given, bytes) else Scope(row["tenant"], row["user_id"], row["app"]).id
    )


def _place(table: str, id: object, *more: object) -> bytes:
    return "\0".join(map(str, (table, id, *more))).encode()


def _json(value: Mapping[str, Any]) -> bytes:
    return json_text(value, "The value", compact=True).encode()
