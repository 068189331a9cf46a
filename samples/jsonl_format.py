"""Write another system's memories as JSONL: the shared part of the import samples.

docs/how-to/export-and-import.md describes the format. `kagent-memory import` refuses a file without
its last line, so nothing is imported if a script stops at an unreadable row.
"""

import argparse
import hashlib
import json
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kagent_memory.redaction import redact


@dataclass(frozen=True, kw_only=True)
class ForeignMemory:
    """A memory of another system.

    Attributes:
        key: identifies the memory in that system.
        app, user: None if the system names none.
        fields: further fields of our `Memory`.
    """

    key: tuple[str, ...]
    content: str
    app: str | None = None
    user: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    vector: list[float] | None = None


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all import samples share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--app", help="only this agent's; also the agent of memories that name none"
    )
    parser.add_argument("--user", help="only this user's; also the user of memories that name none")
    parser.add_argument("--tenant", default="", help="the tenant that all of them get")
    return parser


def write(
    system: str,
    rows: Iterable[Mapping[str, Any]],
    understand: Callable[[Mapping[str, Any]], ForeignMemory | None],
    args: argparse.Namespace,
) -> None:
    """Write `rows` as JSONL to standard output, and the names of omitted rows to standard error.

    Args:
        system: part of every id, so that the ids of two systems never meet.
        rows: sorted so that the rows of one agent, user and session follow the conversation.
        understand: turns a row into a memory; None omits the row.
        args: the arguments parsed by `options`.

    Raises:
        SystemExit: a row cannot be read or names no owner.
    """
    _print({"format": "kagent-memory", "version": 1, "exported_at": _utc(None)})
    positions: Counter[tuple[str, ...]] = Counter()
    count = 0
    for row in rows:
        name = ""
        try:
            name = "/".join(
                str(row[part]) for part in ("id", "event_id", "prefix", "key") if part in row
            )
            memory = understand(row)
            line = memory and _line(system, memory, args, positions)
            if line is None:
                print(f"Left out: {name}", file=sys.stderr)
                continue
            _print(line)
            count += 1
        except (AttributeError, KeyError, OverflowError, OSError, TypeError, ValueError) as error:
            sys.exit(f"{name or 'A row'} cannot be read as a memory of {system}: {error!r}")
    _print({"end": True, "memories": count})


def _line(
    system: str,
    memory: ForeignMemory,
    args: argparse.Namespace,
    positions: Counter[tuple[str, ...]],
) -> dict[str, Any] | None:
    """Return the memory's line; None if it has no text or belongs to another agent or user."""
    if (
        not memory.content.strip()
        or not _fits(memory.app, args.app)
        or not _fits(memory.user, args.user)
    ):
        return None
    app, user = memory.app or args.app, memory.user or args.user
    if not app or not user:
        raise ValueError("it names no owner; pass --app and --user")
    created_at = _utc(memory.created_at)
    session = (app, user, memory.fields.get("session_id") or "")
    values = {
        "id": _id(memory.created_at, [system, args.tenant, user, app, *memory.key]),
        "content": memory.content,
        "origin": "import",
        "created_at": created_at,
        "updated_at": _utc(memory.updated_at) if memory.updated_at else created_at,
        "said_at": created_at,
        "expires_at": memory.expires_at and _utc(memory.expires_at),
        "ttl_days": 0,
        "position": positions[session] if session[-1] else None,
        **memory.fields,
    }
    positions[session] += 1
    vectors = [memory.vector] if memory.vector else []
    scope = {"tenant": args.tenant, "user": user, "app": app}
    return {"scope": scope, "memory": _without_secrets(values), "vectors": vectors}


def _fits(value: str | None, wanted: str | None) -> bool:
    return not value or wanted is None or value == wanted


def _id(created_at: datetime | None, key: list[str]) -> str:
    """Return a UUIDv7 that stays the same in every import."""
    milliseconds = int(created_at.timestamp() * 1000) if created_at else 0
    digest = int.from_bytes(
        hashlib.blake2b(json.dumps(key).encode(), digest_size=10).digest(), "big"
    )
    number = (milliseconds & (1 << 48) - 1) << 80 | digest
    number = number & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


def _utc(at: datetime | None) -> str:
    """Return a time, by default now, as text; a time without a zone is taken as UTC."""
    at = at or datetime.now(UTC)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _without_secrets(value: Any) -> Any:
    """Mask secrets, because `import` stores a file unchanged."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key): _without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(inner) for inner in value]
    return value


def _print(line: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
