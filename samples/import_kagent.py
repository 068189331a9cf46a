"""Write kagent's table `memory` as JSONL for `kagent-memory import`.

    python samples/import_kagent.py postgresql://kagent@db/kagent > kagent.jsonl
    python samples/import_kagent.py postgresql://kagent@db/kagent --user ada \\
        | kagent-memory import -

The lines keep metadata (with the session), times, expiry, access counts and the vectors of 768
dimensions. The password of the database comes from PGPASSWORD or ~/.pgpass.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from jsonl_format import ForeignMemory, options, write
from postgres_table import rows

MAX_TTL_DAYS = 36_500
QUERY = """
    SELECT id::text AS id, agent_name, user_id, content, embedding::text AS embedding,
    metadata::text AS metadata,
        created_at, expires_at, access_count
    FROM {table} ORDER BY agent_name, user_id, created_at, id
"""


def metadata_of(text: str | None) -> dict[str, Any]:
    """Return kagent's metadata as an object, even if it is another kind of value."""
    try:
        metadata = json.loads(text or "{}")
    except ValueError:
        metadata = text
    if isinstance(metadata, dict):
        return metadata
    return {} if metadata is None else {"metadata": metadata}


def understand(row: Mapping[str, Any]) -> ForeignMemory:
    """Return the memory of a row."""
    metadata = metadata_of(row["metadata"])
    session_id = metadata.get("session_id")
    ttl_days = 0
    # rounded, because the client's clock wrote it and the database's wrote created_at
    if row["expires_at"]:
        ttl_days = max(1, round((row["expires_at"] - row["created_at"]) / timedelta(days=1)))
    delivered = row["access_count"] or 0
    vector = json.loads(row["embedding"] or "[]")
    return ForeignMemory(
        key=(row["id"],),
        content=row["content"] or "",
        app=row["agent_name"],
        user=row["user_id"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        fields={
            "session_id": session_id if isinstance(session_id, str) and session_id else None,
            "metadata": metadata,
            "ttl_days": min(ttl_days, MAX_TTL_DAYS),
            "usage": {"delivered": delivered, "delivered_total": delivered},
        },
        vector=vector if any(vector) else None,  # a vector of zeros has no direction
    )


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("uri", help="postgresql://… of kagent's database")
    parser.add_argument(
        "--table", default="memory", help="its name, also with its schema (default: memory)"
    )
    args = parser.parse_args()
    write("kagent", rows(args.uri, QUERY, args.table), understand, args)
