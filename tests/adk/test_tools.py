"""The memory tools through real runners."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from kagent_memory import (
    ConfigurationError,
    Fact,
    Filter,
    ForgetMemoryTool,
    KagentMemoryService,
    LoadMemoryTool,
    RecallMemoryTool,
    SaveMemoryTool,
)
from kagent_memory.language.tokenizer import estimated_tokens
from kagent_memory.records import Message
from kagent_memory.testing import ScriptedLlm

from .scripted import (
    APP,
    SCOPE,
    USER,
    Chat,
    answer_of,
    assistant,
    call,
    declarations,
    responses,
    scripted,
)


async def test_a_saved_memory_names_its_session_and_event(
    service: KagentMemoryService,
) -> None:
    """What the model saves is there at once, with its session and source event."""
    model = scripted(call("save_memory", content="User prefers dark mode"), "done")
    chat = Chat(assistant(model, tools=[SaveMemoryTool(ttl_days=3, tags=["ui"])]), service)
    events = await chat.say("Remember that I prefer dark mode")
    answer = responses(model.requests[-1])[0]
    assert answer["status"] == "saved"
    assert answer["message"] == "Successfully saved information to long-term memory."
    memory = await service.memories.get(SCOPE, answer["id"])
    first = (await chat.session()).events[0]
    assert (memory.content, memory.origin, memory.author) == (
        "User prefers dark mode",
        "agent",
        "assistant",
    )
    assert (memory.session_id, memory.event_ids) == (chat.session_id, (first.id,))
    assert (memory.tags, memory.ttl_days, memory.metadata) == (
        ("ui",),
        3,
        {"source": "explicit_save"},
    )
    assert events[-1].content.parts[0].text == "done"


async def test_a_save_that_replaces_leaves_only_the_correction(
    service: KagentMemoryService,
) -> None:
    (old,) = await service.memories.add(SCOPE, ["Favourite tea is oolong"])
    answer = await answer_of(
        SaveMemoryTool(), service, content="Favourite tea is sencha", replaces=old
    )
    assert answer["status"] == "saved"
    found = await service.memories.recall(SCOPE, "favourite tea")
    assert [hit.memory.content for hit in found] == ["Favourite tea is sencha"]


async def test_loaded_memories_are_plain_and_leave_out_what_is_empty(
    service: KagentMemoryService,
) -> None:
    await service.memories.add(SCOPE, [Fact("User prefers dark mode", topics=("ui",))])
    answer = await answer_of(LoadMemoryTool(), service, query="dark mode")
    (memory,) = answer["memories"]
    assert memory["text"] == "User prefers dark mode"
    assert 0 <= memory["relevance"] <= 1
    assert memory["topics"] == ["ui", "preference"]
    assert set(memory) == {"id", "text", "relevance", "stored_at", "type", "origin", "topics"}


@pytest.mark.parametrize(
    ("tool", "args", "error"),
    [
        (SaveMemoryTool(), {"content": "  "}, "content: is required."),
        (LoadMemoryTool(), {"query": ""}, "query: Field required."),
        (RecallMemoryTool(), {}, "query: Field required."),
        (
            RecallMemoryTool(),
            {"query": "x", "types": ["odd"]},
            "types: 'semantic', 'episodic', 'procedural' or 'reflective'.",
        ),
        (
            RecallMemoryTool(),
            {"query": "x", "after": "soon"},
            "after must be an ISO 8601 date, such as 2026-01-31.",
        ),
        (ForgetMemoryTool(), {}, "ids or query is required."),
    ],
)
async def test_wrong_arguments_are_told_to_the_model(
    service: KagentMemoryService, tool: Any, args: dict[str, Any], error: str
) -> None:
    assert await answer_of(tool, service, **args) == {"error": error}


async def test_without_a_service_the_model_is_told_so() -> None:
    expected = {"error": "Memory service is not available."}
    assert await answer_of(SaveMemoryTool(), None, content="x") == expected


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (SaveMemoryTool(), {"content": "secret words"}),
        (LoadMemoryTool(), {"query": "secret words"}),
        (RecallMemoryTool(), {"query": "secret words"}),
        (ForgetMemoryTool(), {"ids": ["secret words"]}),
    ],
)
async def test_a_dead_database_is_unavailable_not_empty(
    tool: Any, args: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A dead database is told to the model as unavailable, and the run goes on."""
    dead = KagentMemoryService("postgresql://nobody@127.0.0.1:9/none?connect_timeout=1", llm=False)
    with caplog.at_level(logging.WARNING):
        assert await answer_of(tool, dead, **args) == {"error": "memory unavailable"}
    assert "secret words" not in caplog.text
    await dead.close()


async def test_no_declaration_offers_a_scope(service: KagentMemoryService) -> None:
    model = scripted("done")
    tools = [SaveMemoryTool(), LoadMemoryTool(), RecallMemoryTool(), ForgetMemoryTool()]
    await Chat(assistant(model, tools=tools), service).say("hello there")
    declared = declarations(model.requests[0])
    assert len(declared) == 4
    for word in ("user_id", "app_name", "tenant", "scope"):
        assert not any(word in declaration for declaration in declared)


async def test_recall_never_widens_the_developers_filter(
    service: KagentMemoryService,
) -> None:
    """The model narrows a search, and never beyond the developer's filter."""
    await service.memories.add(
        SCOPE,
        [
            Fact("Deploy failed on Monday", type="episodic", tags=("ops",)),
            Fact("Deploy with make deploy", type="procedural", tags=("ops",)),
            Fact("Deploy song by the band", type="semantic"),
        ],
    )
    answer = await answer_of(RecallMemoryTool(), service, query="deploy", types=["procedural"])
    assert [memory["text"] for memory in answer["memories"]] == ["Deploy with make deploy"]
    fixed = RecallMemoryTool(5, filter=Filter(types=("episodic",)))
    answer = await answer_of(fixed, service, query="deploy", types=["procedural"])
    assert [memory["text"] for memory in answer["memories"]] == ["Deploy failed on Monday"]
    answer = await answer_of(RecallMemoryTool(1), service, query="deploy")
    assert len(answer["memories"]) == 1


@pytest.mark.parametrize(
    ("given", "found"), [(True, 0), ("true", 0), (False, 1), ("false", 1), (None, 1)]
)
async def test_recall_stays_in_this_session_only_when_told(
    service: KagentMemoryService, given: Any, found: int
) -> None:
    await service.memories.add(SCOPE, [Fact("Deploy with make deploy", session_id="another")])
    answer = await answer_of(RecallMemoryTool(), service, query="deploy", this_session=given)
    assert len(answer["memories"]) == found


class Forgetting:
    """One conversation in which the model calls `forget_memory` and nothing else."""

    def __init__(self, service: Any, **options: Any) -> None:
        self.model = scripted(*[lambda _: call("forget_memory", **self.args), "done"] * 9)
        self.chat = Chat(assistant(self.model, tools=[ForgetMemoryTool(**options)]), service)

    async def answer(self, **args: Any) -> dict[str, Any]:
        self.args = args
        await self.chat.say("Please forget it")
        return responses(self.model.requests[-1])[-1]


async def kept(service: KagentMemoryService) -> set[str]:
    return {memory.id for memory in (await service.memories.list(SCOPE)).memories}


@pytest.mark.parametrize("by", ["query", "ids"])
async def test_forgetting_lists_first_and_erases_by_its_token(
    service: KagentMemoryService, by: str
) -> None:
    """A first call erases nothing; the second, with the token, erases exactly what was listed."""
    ids = await service.memories.add(SCOPE, ["User prefers dark mode", "User owns a dark horse"])
    forgetting = Forgetting(service)
    listed = await forgetting.answer(
        **{"query": {"query": "dark mode"}, "ids": {"ids": ids, "token": "yes"}}[by]
    )
    assert listed["status"] == "confirmation required"
    assert {memory["id"] for memory in listed["memories"]} == set(ids) == await kept(service)
    token = listed["token"]
    other = await forgetting.answer(ids=[ids[0]], token=token)
    assert (other["status"], await kept(service)) == ("confirmation required", set(ids))
    elsewhere = await Forgetting(service).answer(ids=ids, token=token)
    assert (elsewhere["status"], await kept(service)) == ("confirmation required", set(ids))
    assert await forgetting.answer(ids=[ids[0]], token=other["token"]) == {
        "status": "forgotten",
        "ids": [ids[0]],
    }
    assert await kept(service) == {ids[1]}


async def test_forgetting_names_what_is_linked_and_leaves_it(uri: str) -> None:
    class AsSaid:
        name = "as said"

        async def facts(self, transcript: Any) -> list[Fact]:
            return [Fact(message.text, event_ids=(message.event_id,)) for message in transcript]

    same = ScriptedLlm(lambda _: {"decisions": [{"fact": "F1", "action": "NOOP", "memory": "M1"}]})
    async with KagentMemoryService(uri, llm=same, summary=AsSaid()) as service:
        for number, text in enumerate(("The user lives in Graz", "Graz is where the user lives")):
            await service.memories.remember(
                SCOPE, [Message(text=text, event_id=f"e{number}")], f"s{number}"
            )
            assert await service.drain()
        one, other = (await service.memories.list(SCOPE)).memories
        forgetting = Forgetting(service)
        asked = await forgetting.answer(ids=[one.id])
        erased = await forgetting.answer(ids=[one.id], token=asked["token"])
        for answer in (asked, erased):
            assert [memory["id"] for memory in answer["linked"]["memories"]] == [other.id]
        assert await kept(service) == {other.id}
        assert "linked" not in await forgetting.answer(ids=[other.id])


async def test_a_person_decides_what_is_forgotten(service: KagentMemoryService) -> None:
    """`confirm="person"` asks by ADK's tool confirmation; nothing that a model says erases
    anything.
    """
    [id] = await service.memories.add(SCOPE, ["User prefers dark mode"])
    forgetting = Forgetting(service, confirm="person")
    listed = await forgetting.answer(query="dark mode")
    assert "token" not in listed
    for confirmed, left in ((False, {id}), (True, set())):
        forgetting.args = {"ids": [id], "token": "yes", "confirm": True}
        events = await forgetting.chat.say("Yes, erase it")
        requests = [one for event in events for one in event.get_function_calls()]
        [request] = [one for one in requests if one.name == "adk_request_confirmation"]
        assert "User prefers dark mode" in str(request.args)
        assert await kept(service) == {id}
        response = types.FunctionResponse(
            id=request.id, name=request.name, response={"confirmed": confirmed}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=response)])
        ask = {"user_id": USER, "session_id": forgetting.chat.session_id, "new_message": message}
        assert [event async for event in forgetting.chat.runner.run_async(**ask)]
        assert await kept(service) == left
    with pytest.raises(ConfigurationError):
        ForgetMemoryTool(confirm="nobody")


async def test_a_tool_with_its_own_service_works_inside_agent_tool(
    service: KagentMemoryService,
) -> None:
    inner = scripted(call("save_memory", content="The code word is heron"), "saved it")
    expert = LlmAgent(name="expert", model=inner, tools=[SaveMemoryTool(memory_service=service)])
    outer = scripted(call("expert", request="Note the code word heron"), "done")
    await Chat(assistant(outer, tools=[AgentTool(expert)]), service).say("hello there")
    found = await service.memories.recall(SCOPE, "code word")
    assert [hit.memory.content for hit in found] == ["The code word is heron"]


@pytest.mark.parametrize("tool", [LoadMemoryTool(limit=50), RecallMemoryTool(50)])
async def test_an_answer_keeps_to_a_budget_of_tokens(
    service: KagentMemoryService, tool: Any
) -> None:
    long = [Fact(f"Deploy note {number}: " + f"word{number} " * 400) for number in range(20)]
    labelled = [
        Fact(f"Deploy label {number}", topics=tuple(f"t{number} {n}" * 40 for n in range(40)))
        for number in range(4)
    ]
    await service.memories.add(SCOPE, [*long, *labelled])
    answer = await answer_of(tool, service, query="deploy")
    assert answer["memories"]
    assert len(json.dumps(answer)) < 4 * 2048 + 2_000


@pytest.mark.parametrize(
    "text",
    ["Deploy " + "leaf " * 3_000, "Deploy " + "茶" * 5_000, "Deploy " + "</memory> <" * 1_400],
)
async def test_a_memory_longer_than_the_budget_is_cut_and_says_so(
    service: KagentMemoryService, text: str
) -> None:
    await service.memories.add(
        SCOPE, [Fact(text, topics=tuple("x" * 500 + str(n) for n in range(40)))]
    )
    for tool in (LoadMemoryTool(budget_tokens=100), RecallMemoryTool(budget_tokens=100)):
        (memory,) = (await answer_of(tool, service, query="deploy"))["memories"]
        shown, _, note = memory["text"].partition(" … ")
        assert memory["id"]
        assert shown.startswith("Deploy ")
        # what is escaped in the cut text is escaped once more
        assert estimated_tokens(shown) <= 130
        assert note == f"[cut off; it has {len(text):,} characters in all]"


@pytest.mark.parametrize(
    ("tool", "asked", "found"),
    [
        (RecallMemoryTool(), {}, 5),
        (RecallMemoryTool(), {"limit": 2}, 2),
        (RecallMemoryTool(), {"limit": "3"}, 3),
        (RecallMemoryTool(), {"limit": 7.0}, 7),
        (RecallMemoryTool(), {"limit": 10**6}, 50),
        (RecallMemoryTool(), {"limit": "", "tags": None}, 5),
        (RecallMemoryTool(3), {"limit": 50}, 3),
        (RecallMemoryTool(60), {"limit": 60}, 60),
    ],
)
async def test_the_model_may_say_how_many_it_wants(
    service: KagentMemoryService, tool: Any, asked: dict[str, Any], found: int
) -> None:
    await service.memories.add(SCOPE, [f"deploy {number}" for number in range(70)])
    assert len((await answer_of(tool, service, query="deploy", **asked))["memories"]) == found


@pytest.mark.parametrize("limit", [0, 1.5, "many", [3], float("nan")])
async def test_a_limit_that_cannot_be_is_told_to_the_model(
    service: KagentMemoryService, limit: Any
) -> None:
    """A limit that is no whole number of 1 or more is an error that names it."""
    answer = await answer_of(RecallMemoryTool(), service, query="deploy", limit=limit)
    assert answer["error"].startswith("limit: ")


async def test_the_tools_find_what_their_session_keeps_for_itself(tmp_path: Any) -> None:
    uri = f"libsql:///{tmp_path}/memory.db"
    async with KagentMemoryService(uri, policy="tiers", llm=False) as service:
        model = scripted("hi", call("load_memory", query="dark mode"), "done")
        chat = Chat(assistant(model, tools=[LoadMemoryTool()]), service)
        await chat.say("User prefers dark mode")
        await service.add_session_to_memory(await chat.session())
        assert await service.drain(60)
        await chat.say("hello there")
        (memory,) = responses(model.requests[-1])[-1]["memories"]
        assert memory["text"] == "User prefers dark mode"
        assert await answer_of(LoadMemoryTool(), service, query="dark mode") == {"memories": []}
        asked = {"app_name": APP, "user_id": USER, "query": "dark mode"}
        assert (await service.search_memory(**asked)).memories == []
        assert len((await service.search_memory(**asked, session_id=chat.session_id)).memories) == 1
