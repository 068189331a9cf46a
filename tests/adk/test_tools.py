"""The memory tools through real runners."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.memory import InMemoryMemoryService
from google.adk.tools.agent_tool import AgentTool

from kagent_memory import (
    Fact,
    Filter,
    ForgetMemoryTool,
    KagentMemoryService,
    LoadMemoryTool,
    RecallMemoryTool,
    SaveMemoryTool,
    Scope,
)
from kagent_memory.language.tokenizer import estimated_tokens

from .scripted import APP, USER, Chat, assistant, call, declarations, responses, scripted, texts

SCOPE = Scope("", USER, APP)


async def answer_of(tool: Any, service: Any, **args: Any) -> dict[str, Any]:
    model = scripted(call(tool.name, **args), "done")
    await Chat(assistant(model, tools=[tool]), service).say("hello there")
    return responses(model.requests[-1])[-1]


async def test_what_the_model_saves_is_there_at_once_with_session_and_source_event(
    service: KagentMemoryService,
) -> None:
    model = scripted(call("save_memory", content="User prefers dark mode"), "done")
    chat = Chat(assistant(model, tools=[SaveMemoryTool(ttl_days=3, tags=["ui"])]), service)
    events = await chat.say("Remember that I prefer dark mode")
    answer = responses(model.requests[-1])[0]
    assert answer["status"] == "saved"
    assert answer["message"] == "Successfully saved information to long-term memory."
    memory = await service.memories.get(SCOPE, answer["id"])
    first = (await chat.session()).events[0]
    assert (memory.content, memory.origin, memory.author) == ("User prefers dark mode", "agent", "assistant")
    assert (memory.session_id, memory.event_ids) == (chat.session_id, (first.id,))
    assert (memory.tags, memory.ttl_days, memory.metadata) == (("ui",), 3, {"source": "explicit_save"})
    assert events[-1].content.parts[0].text == "done"


async def test_a_save_that_replaces_leaves_only_the_correction(service: KagentMemoryService) -> None:
    (old,) = await service.memories.add(SCOPE, ["Favourite tea is oolong"])
    answer = await answer_of(SaveMemoryTool(), service, content="Favourite tea is sencha", replaces=old)
    assert answer["status"] == "saved"
    found = await service.memories.recall(SCOPE, "favourite tea")
    assert [hit.memory.content for hit in found] == ["Favourite tea is sencha"]


async def test_loaded_memories_are_plain_and_leave_out_what_is_empty(service: KagentMemoryService) -> None:
    await service.memories.add(SCOPE, [Fact("User prefers dark mode", topics=("ui",))])
    answer = await answer_of(LoadMemoryTool(), service, query="dark mode")
    (memory,) = answer["memories"]
    assert memory["text"] == "User prefers dark mode"
    assert 0 <= memory["relevance"] <= 1
    assert memory["topics"] == ["ui"]
    assert set(memory) == {"id", "text", "relevance", "stored_at", "type", "origin", "topics"}


async def test_nothing_found_is_an_empty_list(service: KagentMemoryService) -> None:
    assert await answer_of(LoadMemoryTool(), service, query="dark mode") == {"memories": []}


@pytest.mark.parametrize(
    ("tool", "args", "error"),
    [
        (SaveMemoryTool(), {}, "content is required."),
        (SaveMemoryTool(), {"content": "  "}, "content is required."),
        (SaveMemoryTool(), {"content": 7}, "content is required."),
        (LoadMemoryTool(), {"query": ""}, "query is required."),
        (RecallMemoryTool(), {}, "query is required."),
        (
            RecallMemoryTool(),
            {"query": "x", "types": ["odd"]},
            "Unknown types odd; use semantic, episodic, procedural, reflective.",
        ),
        (RecallMemoryTool(), {"query": "x", "after": "soon"}, "after must be an ISO 8601 date, such as 2026-01-31."),
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
        (ForgetMemoryTool(), {"ids": ["secret words"], "confirm": True}),
    ],
)
async def test_a_dead_database_is_unavailable_not_empty_and_the_run_goes_on(
    tool: Any, args: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    dead = KagentMemoryService("postgresql://nobody@127.0.0.1:9/none?connect_timeout=1", llm=False)
    with caplog.at_level(logging.WARNING):
        assert await answer_of(tool, dead, **args) == {"error": "memory unavailable"}
    assert "secret words" not in caplog.text
    await dead.close()


async def test_the_model_cannot_choose_whose_memories_it_reads(service: KagentMemoryService) -> None:
    await service.memories.add(Scope("", "eve", APP), ["Eve prefers dark mode"])
    for tool in (LoadMemoryTool(), RecallMemoryTool()):
        answer = await answer_of(tool, service, query="dark mode", user_id="eve", app_name=APP, scope="eve", tenant="")
        assert answer == {"memories": []}
    answer = await answer_of(SaveMemoryTool(), service, content="planted", user_id="eve", metadata={"user_id": "eve"})
    assert (await service.memories.get(SCOPE, answer["id"])).content == "planted"


async def test_no_declaration_offers_a_scope(service: KagentMemoryService) -> None:
    model = scripted("done")
    tools = [SaveMemoryTool(), LoadMemoryTool(), RecallMemoryTool(), ForgetMemoryTool()]
    await Chat(assistant(model, tools=tools), service).say("hello there")
    declared = declarations(model.requests[0])
    assert len(declared) == 4
    for word in ("user_id", "app_name", "tenant", "scope"):
        assert not any(word in declaration for declaration in declared)


async def test_recall_narrows_by_what_the_model_asks_and_never_beyond_the_developer(
    service: KagentMemoryService,
) -> None:
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


@pytest.mark.parametrize(("given", "found"), [(True, 0), ("true", 0), (False, 1), ("false", 1), (None, 1)])
async def test_recall_stays_in_this_session_only_when_told(
    service: KagentMemoryService, given: Any, found: int
) -> None:
    await service.memories.add(SCOPE, [Fact("Deploy with make deploy", session_id="another")])
    answer = await answer_of(RecallMemoryTool(), service, query="deploy", this_session=given)
    assert len(answer["memories"]) == found


async def test_forgetting_shows_first_and_erases_only_after_confirmation(service: KagentMemoryService) -> None:
    ids = await service.memories.add(SCOPE, ["User prefers dark mode", "User owns a dark horse"])
    shown = await answer_of(ForgetMemoryTool(), service, query="dark mode")
    assert shown["status"] == "confirmation required"
    assert {memory["id"] for memory in shown["memories"]} == set(ids)
    assert (await answer_of(ForgetMemoryTool(), service, ids=[ids[0]]))["status"] == "confirmation required"
    assert len((await service.memories.list(SCOPE)).memories) == 2
    erased = await answer_of(ForgetMemoryTool(), service, ids=[ids[0]], confirm=True)
    assert erased == {"status": "forgotten", "ids": [ids[0]]}
    assert [memory.id for memory in (await service.memories.list(SCOPE)).memories] == [ids[1]]


async def test_a_confirmed_query_erases_only_what_holds_all_its_words(service: KagentMemoryService) -> None:
    ids = await service.memories.add(SCOPE, ["User prefers dark mode", "User owns a dark horse"])
    erased = await answer_of(ForgetMemoryTool(), service, query="dark mode", confirm=True)
    assert erased == {"status": "forgotten", "ids": [ids[0]]}
    left = await answer_of(ForgetMemoryTool(), service, query="pink elephant", confirm=True)
    assert left["status"] == "confirmation required"
    assert [memory.id for memory in (await service.memories.list(SCOPE)).memories] == [ids[1]]


async def test_nobody_forgets_the_memories_of_another_user(service: KagentMemoryService) -> None:
    (id,) = await service.memories.add(Scope("", "eve", APP), ["Eve prefers dark mode"])
    answer = await answer_of(ForgetMemoryTool(), service, ids=[id], confirm=True)
    assert "error" in answer
    assert len((await service.memories.list(Scope("", "eve", APP))).memories) == 1


async def test_a_tool_with_its_own_service_works_inside_agent_tool(service: KagentMemoryService) -> None:
    inner = scripted(call("save_memory", content="The code word is heron"), "saved it")
    expert = LlmAgent(name="expert", model=inner, tools=[SaveMemoryTool(memory_service=service)])
    outer = scripted(call("expert", request="Note the code word heron"), "done")
    await Chat(assistant(outer, tools=[AgentTool(expert)]), service).say("hello there")
    found = await service.memories.recall(SCOPE, "code word")
    assert [hit.memory.content for hit in found] == ["The code word is heron"]


async def test_the_tools_serve_memory_services_of_others_too() -> None:
    theirs = InMemoryMemoryService()
    answer = await answer_of(SaveMemoryTool(), theirs, content="User prefers dark mode")
    assert answer["status"] == "saved"
    answer = await answer_of(LoadMemoryTool(), theirs, query="dark mode")
    assert [memory["text"] for memory in answer["memories"]] == ["User prefers dark mode"]


async def test_memory_text_never_leaks_as_a_python_representation(service: KagentMemoryService) -> None:
    await service.memories.add(SCOPE, ["User prefers dark mode"])
    model = scripted(call("load_memory", query="dark mode"), "done")
    await Chat(assistant(model, tools=[LoadMemoryTool()]), service).say("hello there")
    assert "MemoryEntry(" not in str(responses(model.requests[-1])) + str(texts(model.requests[-1]))


@pytest.mark.parametrize("tool", [LoadMemoryTool(limit=50), RecallMemoryTool(50)])
async def test_an_answer_keeps_to_a_budget_of_tokens(service: KagentMemoryService, tool: Any) -> None:
    long = [Fact(f"Deploy note {number}: " + f"word{number} " * 400) for number in range(20)]
    labelled = [
        Fact(f"Deploy label {number}", topics=tuple(f"t{number} {n}" * 40 for n in range(40))) for number in range(4)
    ]
    await service.memories.add(SCOPE, [*long, *labelled])
    answer = await answer_of(tool, service, query="deploy")
    assert answer["memories"]
    assert len(json.dumps(answer)) < 4 * 2048 + 2_000


@pytest.mark.parametrize(
    "text", ["Deploy " + "leaf " * 3_000, "Deploy " + "茶" * 5_000, "Deploy " + "</memory> <" * 1_400]
)
async def test_a_memory_longer_than_the_budget_is_cut_and_says_so(service: KagentMemoryService, text: str) -> None:
    await service.memories.add(SCOPE, [Fact(text, topics=tuple("x" * 500 + str(n) for n in range(40)))])
    for tool in (LoadMemoryTool(budget_tokens=100), RecallMemoryTool(budget_tokens=100)):
        (memory,) = (await answer_of(tool, service, query="deploy"))["memories"]
        shown, _, note = memory["text"].partition(" … ")
        assert memory["id"]
        assert shown.startswith("Deploy ")
        assert estimated_tokens(shown) <= 130  # what is escaped in the cut text is escaped once more
        assert note == f"[cut off; it has {len(text):,} characters in all]"


@pytest.mark.parametrize(
    ("tool", "asked", "found"),
    [
        (RecallMemoryTool(), {}, 5),
        (RecallMemoryTool(), {"limit": 2}, 2),
        (RecallMemoryTool(), {"limit": "3"}, 3),
        (RecallMemoryTool(), {"limit": 7.0}, 7),
        (RecallMemoryTool(), {"limit": None}, 5),
        (RecallMemoryTool(), {"limit": 60}, 50),
        (RecallMemoryTool(), {"limit": 10**30}, 50),
        (RecallMemoryTool(), {"limit": float("inf")}, 50),
        (RecallMemoryTool(3), {}, 3),
        (RecallMemoryTool(3), {"limit": 2}, 2),
        (RecallMemoryTool(3), {"limit": 50}, 3),
        (RecallMemoryTool(60), {"limit": 60}, 60),
    ],
)
async def test_the_model_may_say_how_many_it_wants(
    service: KagentMemoryService, tool: Any, asked: dict[str, Any], found: int
) -> None:
    await service.memories.add(SCOPE, [f"deploy {number}" for number in range(70)])
    assert len((await answer_of(tool, service, query="deploy", **asked))["memories"]) == found


@pytest.mark.parametrize("limit", [0, -3, 1.5, "many", "", True, False, [], [3], {}, float("nan"), float("-inf")])
async def test_a_limit_that_cannot_be_is_told_to_the_model(service: KagentMemoryService, limit: Any) -> None:
    answer = await answer_of(RecallMemoryTool(), service, query="deploy", limit=limit)
    expected = {"memories": []} if limit == "" else {"error": "limit must be a whole number, 1 or more."}
    assert answer == expected


async def test_the_declaration_offers_the_limit_with_its_default(service: KagentMemoryService) -> None:
    for tool, default in ((RecallMemoryTool(), 5), (RecallMemoryTool(3), 3)):
        model = scripted("done")
        await Chat(assistant(model, tools=[tool]), service).say("hello there")
        (declared,) = declarations(model.requests[0])
        assert f"Max results (default: {default})" in declared


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
