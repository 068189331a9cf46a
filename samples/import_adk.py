"""Write the turns in ADK's SqliteMemoryService as JSONL for `kagent-memory import`.

    python samples/import_adk.py adk_memory.db > adk.jsonl
    python samples/import_adk.py adk_memory.db --user ada | kagent-memory import -

Each event becomes a memory, word for word, with its agent, user, session, author, id and time.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jsonl_format import ForeignMemory, options, write

NO_SESSION = "__unknown_session_id__"  # what ADK writes for events without one
QUERY = """
    SELECT app_name, user_id, session_id, event_id, author, timestamp, content_json
    FROM memory_events ORDER BY app_name, user_id, session_id, timestamp, id
"""


def events(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of ADK's table, reading only."""
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.row_factory = sqlite3.Row
            query = "SELECT value FROM adk_memory_metadata WHERE key = 'schema_version'"
            versions = [version for (version,) in database.execute(query)]
            if versions != ["1"]:
                raise SystemExit(f"{path} has the schema version {versions}; this reads version 1.")
            yield from map(dict, database.execute(QUERY))
    except sqlite3.Error as error:
        raise SystemExit(f"{path} cannot be read as ADK's memories: {error}") from error


def understand(row: Mapping[str, Any]) -> ForeignMemory:
    """Return the turn of a row, without thoughts."""
    parts = json.loads(row["content_json"]).get("parts") or []
    texts = [part["text"] for part in parts if part.get("text") and not part.get("thought")]
    return ForeignMemory(
        key=(row["app_name"], row["user_id"], row["session_id"], row["event_id"]),
        content="\n".join(texts),
        app=row["app_name"],
        user=row["user_id"],
        created_at=datetime.fromtimestamp(row["timestamp"], UTC),
        fields={
            "type": "episodic",
            "session_id": None if row["session_id"] == NO_SESSION else row["session_id"],
            "event_ids": [row["event_id"]],
            "author": row["author"] or None,
            "verbatim": True,
        },
    )


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("path", help="the file of ADK's SqliteMemoryService")
    args = parser.parse_args()
    write("adk-sqlite", events(args.path.removeprefix("sqlite:///")), understand, args)
