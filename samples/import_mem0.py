"""Write mem0's memories as JSONL for `kagent-memory import`.

The memories come from mem0's pgvector table or from the JSON of `get_all()`:

    python samples/import_mem0.py mem0.json --app support > mem0.jsonl
    python samples/import_mem0.py postgresql://mem0@db/app --app support | kagent-memory import -

The user is `user_id`, the agent `agent_id`, the session `run_id`, and the author `actor_id` or
`role`. Categories become topics. The password of a database comes from PGPASSWORD or ~/.pgpass.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jsonl_format import ForeignMemory, options, write

NOT_METADATA = {  # of a payload
    *("id", "memory", "data", "hash", "text_lemmatized", "metadata", "categories"),
    *("user_id", "agent_id", "run_id", "actor_id", "role"),
    *("created_at", "updated_at", "expiration_date"),
}


def exported(path: str) -> list[dict[str, Any]]:
    """Return the memories of a JSON file: a list, or an object with "results" or "memories"."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        memories = (
            content.get("results", content.get("memories"))
            if isinstance(content, dict)
            else content
        )
        if not isinstance(memories, list):
            raise ValueError('a list of memories, or an object with "results", is expected')
    except (OSError, ValueError, RecursionError) as error:
        raise SystemExit(f"{path} cannot be read as mem0's memories: {error}") from error
    return memories


def stored(uri: str, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of mem0's table as `get_all()` gives them."""
    from postgres_table import rows  # only a database needs a driver

    query = """
        SELECT id::text AS id, payload FROM {table}
        ORDER BY payload ->> 'agent_id', payload ->> 'user_id', payload ->> 'created_at', id
    """
    for row in rows(uri, query, table):
        payload = row["payload"]
        metadata = {name: value for name, value in payload.items() if name not in NOT_METADATA}
        yield {
            **payload,
            "id": row["id"],
            "memory": payload.get("data") or "",
            "metadata": metadata,
        }


def understand(row: Mapping[str, Any]) -> ForeignMemory:
    """Return the memory of a row."""
    times = {name: row.get(name) for name in ("created_at", "updated_at", "expiration_date")}
    at = {name: datetime.fromisoformat(value) if value else None for name, value in times.items()}
    expires_at = at["expiration_date"]
    return ForeignMemory(
        key=(row["id"],),
        content=row["memory"],
        app=row.get("agent_id"),
        user=row.get("user_id"),
        created_at=at["created_at"],
        updated_at=at["updated_at"],
        expires_at=expires_at and expires_at.replace(tzinfo=expires_at.tzinfo or UTC),
        fields={
            "session_id": row.get("run_id") or None,
            "author": row.get("actor_id") or row.get("role") or None,
            "topics": row.get("categories") or [],
            "metadata": row.get("metadata") or {},
        },
    )


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("place", help="a JSON file, or postgresql://…")
    parser.add_argument(
        "--table", default="mem0", help="its name, also with its schema (default: mem0)"
    )
    args = parser.parse_args()
    is_database = args.place.startswith(("postgres://", "postgresql://"))
    write(
        "mem0",
        stored(args.place, args.table) if is_database else exported(args.place),
        understand,
        args,
    )
