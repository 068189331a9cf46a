"""Write the items of LangGraph's PostgresStore as JSONL for `kagent-memory import`.

    python samples/import_langgraph.py postgresql://db/graph --app support \\
        --namespace 'memories.{user}' > graph.jsonl

--namespace describes your namespaces part by part: a fixed word, * for any word, {user}, {app} or
{session}. Items of other namespaces are left out. The text of an item is its "text", "content",
"memory" or "data" (also one level deeper, as in LangMem), or else the whole value as JSON. The
password of the database comes from PGPASSWORD or ~/.pgpass.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from jsonl_format import ForeignMemory, options, write
from postgres_table import rows

TEXT_KEYS = ("text", "content", "memory", "data")
PLACEHOLDERS = ("{user}", "{app}", "{session}", "*")
QUERY = """
    SELECT prefix, key, value, created_at, updated_at, to_jsonb(item) ->> 'expires_at' AS expires_at
    FROM {table} AS item ORDER BY prefix, created_at, key
"""  # early versions have no column expires_at


def text_and_rest(value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text of a value, and its other keys."""
    for name in TEXT_KEYS:
        inner = value.get(name)
        rest = {key: other for key, other in value.items() if key != name}
        if isinstance(inner, str):
            return inner, rest
        if isinstance(inner, dict) and any(isinstance(inner.get(key), str) for key in TEXT_KEYS):
            text, inner_rest = text_and_rest(inner)
            return text, {**rest, **inner_rest}
    return (json.dumps(value, ensure_ascii=False), {}) if value else ("", {})


def understand(namespace: str, row: Mapping[str, Any]) -> ForeignMemory | None:
    """Return the memory of a row, or None if the namespace does not match."""
    pattern, parts = namespace.split("."), row["prefix"].split(".")
    if len(pattern) != len(parts) or any(
        name not in (part, *PLACEHOLDERS) for name, part in zip(pattern, parts, strict=True)
    ):
        return None
    names = dict(zip(pattern, parts, strict=True))
    text, rest = text_and_rest(row["value"])
    return ForeignMemory(
        key=(row["prefix"], row["key"]),
        content=text,
        app=names.get("{app}"),
        user=names.get("{user}"),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        expires_at=datetime.fromisoformat(row["expires_at"]) if row["expires_at"] else None,
        fields={
            "session_id": names.get("{session}"),
            "metadata": {**rest, "namespace": row["prefix"], "key": row["key"]},
        },
    )


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("uri", help="postgresql://… of the store")
    parser.add_argument("--namespace", required=True, help="such as 'memories.{user}'")
    parser.add_argument(
        "--table", default="store", help="its name, also with its schema (default: store)"
    )
    args = parser.parse_args()
    write("langgraph", rows(args.uri, QUERY, args.table), partial(understand, args.namespace), args)
