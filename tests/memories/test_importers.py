"""Other systems' memories become ours: whose they are, what they say, when; what is no such system is refused whole."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.adk import memory as adk_memory
from google.adk.events.event import Event
from google.genai import types

from kagent_memory import ConfigurationError, Filter, InvalidInput, Memories, Memory, Scope, StoreError
from kagent_memory.cli import main
from kagent_memory.memories.transfer import Imported

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
APP = "kagent__NS__helper"
SECRET = "ghp_" + "a1B2" * 9
CREATE = """
DROP TABLE IF EXISTS memory, mem0, store;
CREATE TABLE memory (
    id TEXT PRIMARY KEY DEFAULT gen_random_uuid(), agent_name TEXT NOT NULL, user_id TEXT NOT NULL, content TEXT,
    embedding {vector}(768), metadata TEXT, created_at TIMESTAMPTZ DEFAULT now(), expires_at TIMESTAMPTZ,
    access_count BIGINT DEFAULT 0
);
CREATE TABLE mem0 (id UUID PRIMARY KEY, vector {vector}(3), payload JSONB);
CREATE TABLE store (
    prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL, created_at timestamptz DEFAULT CURRENT_TIMESTAMP,
    updated_at timestamptz DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key)
);
"""


def unit(place: int) -> list[float]:
    return [float(number == place) for number in range(768)]


async def opened(uri: str = "libsql:///:memory:", **more: Any) -> Memories:
    return await Memories.open(uri, **{"embedding": None, "llm": False, "worker": False, "clock": lambda: START} | more)


async def held(memories: Memories, user: str, app: str = APP, tenant: str = "") -> list[Memory]:
    scope = Scope(tenant, user, app)
    found = await memories.store.whole(scope, await memories.store.kept(scope, Filter()))
    return sorted((one.memory for one in found), key=lambda one: one.content)


class TestTables:
    """Tables in PostgreSQL, made as their systems make them."""

    @pytest.fixture(params=["libsql", "row security"])
    def target(self, request: pytest.FixtureRequest, emptied_uri: str) -> str:
        return f"{emptied_uri}&rls=true" if request.param == "row security" else "libsql:///:memory:"

    @pytest.fixture
    def there(self, emptied_uri: str) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(emptied_uri, autocommit=True) as connection:
            [(schema,)] = connection.execute(
                "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
            ).fetchall()
            connection.execute(CREATE.format(vector=f"{schema}.vector"))
            yield connection

    @staticmethod
    def kagent(there: psycopg.Connection[Any], **values: Any) -> None:
        row = {
            "id": "m1",
            "agent_name": "kagent__NS__helper",
            "user_id": "ada",
            "content": "Ada likes tea",
            "embedding": str(unit(3)),
            "metadata": "{}",
            "created_at": START - timedelta(days=20),
            "expires_at": START + timedelta(days=10),
            "access_count": 0,
            **values,
        }
        names = ", ".join(row)
        there.execute(f"INSERT INTO memory ({names}) VALUES ({', '.join(f'%({name})s' for name in row)})", row)

    async def test_kagents(self, there, emptied_uri, target):
        self.kagent(there, metadata='{"session_id": "s1", "source": "explicit_save", "n": [1, null]}', access_count=12)
        self.kagent(there, id="m2", content=f"Ada's token is {SECRET}", embedding=str(unit(4)), expires_at=None)
        self.kagent(there, id="m3", user_id="grace", content="Grace skis", metadata="[1]", embedding=str([0.0] * 768))
        self.kagent(there, id="m4", user_id="grace", content=" ", metadata=None)
        self.kagent(there, id="m5", user_id="grace", content="Gone", expires_at=START - timedelta(days=1))
        before = there.execute("SELECT * FROM memory ORDER BY id").fetchall()
        async with await opened(target) as memories:
            taken = {"source": "kagent", "tenant": "acme"}
            assert await memories.import_(emptied_uri, dry_run=True, **taken) == Imported(added=4, left_out=1)
            assert await memories.scopes() == []
            told: list[int] = []
            assert (await memories.import_(emptied_uri, progress=told.append, **taken)).added == 4
            assert told[-1] == 4
            likes, token = await held(memories, "ada", tenant="acme")
            assert (likes.content, likes.session_id, likes.position, likes.usage.delivered) == (
                "Ada likes tea",
                "s1",
                0,
                12,
            )
            assert likes.metadata == {"session_id": "s1", "source": "explicit_save", "n": [1, None]}
            assert (likes.created_at, likes.expires_at) == (START - timedelta(days=20), START + timedelta(days=10))
            assert (likes.ttl_days, likes.origin, token.ttl_days, token.expires_at) == (30, "import", 0, None)
            assert SECRET not in token.content
            gone, skis = await held(memories, "grace", tenant="acme")
            assert (gone.content, skis.metadata) == ("Gone", {"metadata": [1]})
            assert [one.content for one in (await memories.list(Scope("acme", "grace", APP))).memories] == [
                "Grace skis"
            ]
            scope = Scope("acme", "ada", APP)
            near = await memories._parts.caller_vectors.nearest(scope, unit(4), limit=1)
            assert [(one.id, round(cosine, 3)) for one, cosine in near] == [(token.id, 1.0)]
            await memories.forget(scope, likes.id)
            assert await memories.import_(emptied_uri, **taken) == Imported(present=3, forgotten=1, left_out=1)
        assert there.execute("SELECT * FROM memory ORDER BY id").fetchall() == before

    async def test_kagents_days_though_two_clocks_told_them(self, there, emptied_uri):
        brief, later = timedelta(hours=1), timedelta(milliseconds=40)  # the row's time is the database's
        for number, life in enumerate([timedelta(days=15) - later, timedelta(days=15) + later, brief, -brief]):
            times = {"created_at": START, "expires_at": START + life}
            self.kagent(there, id=f"m{number}", content=f"Fact {number}", **times)
        async with await opened() as memories:
            await memories.import_(emptied_uri, source="kagent")
            assert [one.ttl_days for one in await held(memories, "ada")] == [15, 15, 1, 1]

    async def test_of_one_user(self, there, emptied_uri):
        self.kagent(there)
        self.kagent(there, id="m2", user_id="grace", content="Grace skis")
        self.kagent(there, id="m3", agent_name="other", content="Elsewhere")
        async with await opened(tenant="acme") as memories:
            done = await memories.import_(emptied_uri, source="kagent", user="ada", app="kagent__NS__helper")
            assert done == Imported(added=1, left_out=2)
            assert done.vectors == 1
            assert await memories.scopes() == [Scope("acme", "ada", "kagent__NS__helper")]

    async def test_a_vector_is_not_kept_for_other_words(self, there, emptied_uri):
        self.kagent(there)
        async with await opened() as memories:
            await memories.import_(emptied_uri, source="kagent")
            [one], scope = await held(memories, "ada"), Scope("", "ada", APP)
            await memories.edit(scope, one.id, content="Ada likes coffee")
            assert (await memories.import_(emptied_uri, source="kagent")).present == 1
            assert await memories._parts.caller_vectors.nearest(scope, unit(3), limit=1) == []

    async def test_mem0s(self, there, emptied_uri, target):
        known = {"hash": "h", "created_at": "2026-01-01T10:00:00-08:00", "updated_at": "2026-01-02T10:00:00"}
        for number, payload in enumerate(
            [
                {"data": "Likes tea", "user_id": "ada", "agent_id": "a", "run_id": "r", "actor_id": "Bob", "food": 1},
                {"data": f"password={SECRET}", "user_id": "ada", "text_lemmatized": "x"},
                {"data": "", "user_id": "ada"},
                {"data": "Other agent", "user_id": "ada", "agent_id": "b"},
            ]
        ):
            values = (f"00000000-0000-0000-0000-00000000000{number}", json.dumps(known | payload))
            there.execute("INSERT INTO mem0 VALUES (%s, '[1,2,3]', %s)", values)
        async with await opened(target) as memories:
            with pytest.raises(InvalidInput, match="pass app"):
                await memories.import_(emptied_uri, source="mem0")
            assert await memories.scopes() == []
            done = await memories.import_(emptied_uri, source="mem0", app="a")
            assert done == Imported(added=2, left_out=2)
            tea, masked = await held(memories, "ada", "a")
            assert (tea.content, tea.session_id, tea.author, tea.metadata) == ("Likes tea", "r", "Bob", {"food": 1})
            assert tea.created_at == datetime(2026, 1, 1, 18, tzinfo=UTC)
            assert tea.updated_at == datetime(2026, 1, 2, 10, tzinfo=UTC)
            assert SECRET not in masked.content
            assert masked.metadata == {}
            assert (await memories.import_(emptied_uri, source="mem0", app="a")).present == 2

    async def test_langgraphs(self, there, emptied_uri, target):
        rows = [
            ("memories.ada", "k1", {"text": "Likes tea", "kind": "food"}),
            ("memories.ada", "k2", {"kind": "Memory", "content": {"content": f"Token {SECRET}", "x": [SECRET]}}),
            ("memories.grace", "k1", {"colour": "blue"}),
            ("memories.grace.deep", "k1", {"text": "Too deep"}),
            ("cache.ada", "k1", {"text": "No memory"}),
            ("memories.grace", "k2", {}),
        ]
        for prefix, key, value in rows:
            there.execute("INSERT INTO store VALUES (%s, %s, %s)", (prefix, key, json.dumps(value)))
        where: dict[str, Any] = {"source": "langgraph", "app": "a"}
        async with await opened(target) as memories:
            with pytest.raises(InvalidInput, match="namespace"):
                await memories.import_(emptied_uri, **where)
            with pytest.raises(InvalidInput, match="pass user"):
                await memories.import_(emptied_uri, namespace="memories.*", **where)
            done = await memories.import_(emptied_uri, namespace="memories.{user}", **where)
            assert done == Imported(added=3, left_out=3)
            tea, token = await held(memories, "ada", "a")
            assert (tea.content, tea.metadata) == (
                "Likes tea",
                {"kind": "food", "namespace": "memories.ada", "key": "k1"},
            )
            assert token.content.startswith("Token [secret")
            assert SECRET not in json.dumps(token.metadata)
            (blue,) = await held(memories, "grace", "a")
            assert json.loads(blue.content) == {"colour": "blue"}
            there.execute("ALTER TABLE store ADD COLUMN expires_at timestamptz")
            there.execute("INSERT INTO store VALUES ('memories.ada', 'k3', '{\"text\": \"Brief\"}')")
            there.execute("UPDATE store SET expires_at = '2026-03-02T12:00Z' WHERE key = 'k3'")
            done = await memories.import_(emptied_uri, namespace="memories.{user}", **where)
            assert done == Imported(added=1, present=3, left_out=3)
            brief = (await held(memories, "ada", "a"))[0]
            assert (brief.content, brief.expires_at) == ("Brief", START + timedelta(days=1))

    @pytest.mark.parametrize(
        ("source", "more", "said"),
        [
            ("kagent", {"table": "mem0"}, "not the table of kagent"),
            ("kagent", {"table": "nothing"}, "not the table of kagent"),
            ("kagent", {"table": "no.such.schema.here"}, "not the table of kagent"),
            ("kagent", {"table": "a..b"}, "not the table of kagent"),
            ("kagent", {"table": ""}, "not the table of kagent"),
            ("kagent", {"table": 'x"; DROP TABLE memory; --'}, "not the table of kagent"),
            ("mem0", {"table": "memory"}, "not the table of mem0"),
            ("langgraph", {"namespace": "{user}", "table": "mem0"}, "not the table of langgraph"),
            ("kagent", {"namespace": "{user}"}, "namespace goes with langgraph"),
            ("kagent-memory", {"app": "a"}, "app goes with other systems"),
            ("dream", {}, "source takes one of"),
        ],
    )
    async def test_what_is_something_else_is_refused(self, there, emptied_uri, source, more, said):
        self.kagent(there)
        async with await opened() as memories:
            with pytest.raises(InvalidInput, match=said):
                await memories.import_(emptied_uri, source=source, **more)
            assert await memories.scopes() == []
        assert there.execute("SELECT count(*) FROM memory").fetchall() == [(1,)]

    async def test_one_bad_row_keeps_all_out(self, there, emptied_uri):
        self.kagent(there)
        self.kagent(there, id="long", content="long " * 50_000, user_id="zoe")
        async with await opened() as memories:
            with pytest.raises(InvalidInput, match=r"long of .*max_content_bytes"):
                await memories.import_(emptied_uri, source="kagent")
            assert await memories.scopes() == []

    async def test_on_the_command_line(self, there, emptied_uri, tmp_path, capsys):
        self.kagent(there)
        self.kagent(there, id="m2", user_id="grace", content="Grace skis")
        words = ["import", "--from", "kagent", emptied_uri, "--user", "ada", "--uri", f"libsql:///{tmp_path}/a.db"]
        for more, added in ((["--dry-run"], 1), ([], 1), ([], 0)):
            assert await asyncio.to_thread(main, [*words, "--json", *more]) == 0
            done = json.loads(capsys.readouterr().out)
            assert (done["added"], done["left_out"]) == (added, 1)
        assert await asyncio.to_thread(main, [*words, "--table", "store"]) == 2


@pytest.mark.skipif(not hasattr(adk_memory, "SqliteMemoryService"), reason="ADK has it since 2.11")
async def test_turns_of_adks_own_service(tmp_path):
    path = tmp_path / "adk memory.db"
    service = adk_memory.SqliteMemoryService(path)

    def said(id: str, author: str, *parts: types.Part, at: float = 0.0) -> Event:
        content = types.Content(role="user", parts=list(parts))
        return Event(id=id, author=author, content=content, timestamp=START.timestamp() - 100 + at)

    events = [
        said("e2", "helper", types.Part(text="hm", thought=True), types.Part(text="Noted"), at=1),
        said("e1", "user", types.Part(text="I like tea"), types.Part(text=f"and {SECRET}")),
    ]
    await service.add_events_to_memory(app_name="a", user_id="ada", events=events, session_id="s")
    await service.add_events_to_memory(
        app_name="a", user_id="grace", events=[said("e1", "user", types.Part(text="Hi"))]
    )
    async with await opened() as memories:
        assert await memories.import_(path, source="adk-sqlite") == Imported(added=3)
        noted, tea = sorted(await held(memories, "ada", "a"), key=lambda one: one.content, reverse=True)
        assert (tea.content[:11], tea.author, tea.position, tea.event_ids) == ("I like tea\n", "user", 0, ("e1",))
        assert (noted.content, noted.author, noted.position, noted.session_id) == ("Noted", "helper", 1, "s")
        assert SECRET not in tea.content
        assert tea.verbatim
        assert tea.created_at == START - timedelta(seconds=100)
        (hi,) = await held(memories, "grace", "a")
        assert hi.session_id is None
        later = [said("e3", "user", types.Part(text="More"), at=9)]
        await service.add_events_to_memory(app_name="a", user_id="ada", events=later, session_id="s")
        place = f"sqlite:///{path}"
        assert await memories.import_(place, source="adk-sqlite", user="ada") == Imported(
            added=1, present=2, left_out=1
        )
        assert [one.position for one in await held(memories, "ada", "a") if one.content == "More"] == [2]
        found = await memories.recall(Scope("", "ada", "a"), "tea")
        assert found.hits[0].memory.event_ids == ("e1",)


async def test_what_mem0_exports(tmp_path):
    path = tmp_path / "mem0.json"
    one = {"id": "x1", "memory": "Likes tea", "user_id": "ada", "metadata": None, "categories": ["food"], "score": None}
    two = {"id": "x2", "memory": "Until May", "user_id": "grace", "expiration_date": "2026-05-01", "role": "user"}
    for whole in ([one, two], {"results": [one, two], "relations": []}, {"count": 2, "memories": [one, two]}):
        path.write_text(json.dumps(whole))
        async with await opened() as memories:
            assert await memories.import_(path, source="mem0", app="a") == Imported(added=2)
            assert await memories.import_(path, source="mem0", app="a") == Imported(present=2)
            [tea], [may] = await held(memories, "ada", "a"), await held(memories, "grace", "a")
            assert (tea.topics, tea.created_at, tea.expires_at) == (("food",), START, None)
            assert (may.author, may.expires_at) == ("user", datetime(2026, 5, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "values",
    [
        {"memory": "a\0b"},
        {"memory": "x\ud800"},
        {"run_id": "r" * 3000},
        {"metadata": {"a": float("nan")}},
        {"created_at": "0001-01-01T00:00:00+14:00"},
        {"updated_at": "9999-12-31T23:59:59-14:00"},
    ],
    ids=lambda values: next(iter(values)),
)
async def test_what_cannot_be_kept_is_named(values, tmp_path):
    good, bad = ({"id": id, "memory": "Likes tea", "user_id": "ada"} for id in ("good", "bad"))
    (tmp_path / "mem0.json").write_text(json.dumps([good, bad | values]))
    async with await opened() as memories:
        with pytest.raises(InvalidInput, match=r"bad of .*mem0\.json cannot be imported"):
            await memories.import_(tmp_path / "mem0.json", source="mem0", app="a")
        assert await memories.scopes() == []


@pytest.mark.parametrize("timestamp", [float("inf"), 1e18, -1e18, 1e12])
async def test_a_turn_of_no_time_is_refused(timestamp, tmp_path):
    sqlite_file(
        tmp_path / "adk.db",
        "CREATE TABLE adk_memory_metadata AS SELECT 'schema_version' AS key, '1' AS value",
        "CREATE TABLE memory_events AS SELECT 1 AS id, 'a' AS app_name, 'ada' AS user_id, 's' AS session_id, "
        f"'e1' AS event_id, 'user' AS author, {timestamp if timestamp < 1e99 else '9e999'} AS timestamp, "
        """'{"parts": [{"text": "Hi"}]}' AS content_json""",
    )
    async with await opened() as memories:
        with pytest.raises(InvalidInput, match="e1: "):
            await memories.import_(tmp_path / "adk.db", source="adk-sqlite")


def sqlite_file(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("source", ["kagent", "mem0", "adk-sqlite", "langgraph"])
async def test_a_file_of_something_else_is_refused(source, tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_text("")
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "list").write_text('[{"id": "x", "memory": 7, "user_id": "ada"}]')
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "object").write_text('{"a": 1}')
    version = "CREATE TABLE adk_memory_metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
    sqlite_file(tmp_path / "other.db", "CREATE TABLE a (b)")
    sqlite_file(tmp_path / "new.db", version, "INSERT INTO adk_memory_metadata VALUES ('schema_version', '2')")
    sqlite_file(tmp_path / "half.db", version, "INSERT INTO adk_memory_metadata VALUES ('schema_version', '1')")
    options = {"app": "a", "user": "ada"} | ({"namespace": "{user}"} if source == "langgraph" else {})
    async with await opened() as memories:
        for name in (
            "text",
            "empty",
            "deep",
            "list",
            "bytes",
            "object",
            "other.db",
            "new.db",
            "half.db",
            ".",
            "nothing",
        ):
            with pytest.raises(InvalidInput, match=f"cannot be read as {source}'s memories"):
                await memories.import_(tmp_path / name, source=source, **options)
        assert await memories.scopes() == []
    assert not (tmp_path / "nothing").exists()


async def test_a_database_that_is_away_or_a_uri_that_is_none(tmp_path):
    async with await opened() as memories:
        with pytest.raises(StoreError) as raised:
            await memories.import_("postgresql://me:hunter2secret@127.0.0.1:1/x", source="kagent")
        assert "hunter2secret" not in str(raised.value)
        with pytest.raises(ConfigurationError):
            await memories.import_("postgresql://127.0.0.1/x?nonsense=1", source="kagent")
