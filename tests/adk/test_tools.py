"""The memory tools through real runners."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk.memory import InMemoryMemoryService
from google.adk.tools.agent_tool import AgentTool
from ingestion.ground import AsSaid

from kagent_memory import (
    AutoSave,
    ConfirmMemoryTool,
    Fact,
    Filter,
    ForgetMemoryTool,
    KagentMemoryService,
    LoadMemoryTool,
    MemoryPlugin,
    RecallMemoryTool,
    SaveMemoryTool,
    enable_memory,
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
    contents,
    responses,
    scripted,
    talk,
    texts,
)


def shown(answer: dict[str, Any]) -> list[str]:
    return [memory["text"] for memory in answer["memories"]]


async def test_a_saved_memory_names_its_session_and_event(service: KagentMemoryService):
    """A memory that the model saves is there at once, with its session and source event."""
    saving = call("save_memory", content="User prefers dark mode")
    chat = talk(service, saving, tools=[SaveMemoryTool(ttl_days=3, tags=["ui"])])
    await chat.say("Remember that I prefer dark mode")
    answer = responses(chat.requests[-1])[0]
    memory = await service.memories.get(SCOPE, answer["id"])
    assert answer == {
        "status": "saved",
        "id": memory.id,
        "message": "Successfully saved information to long-term memory.",
    }
    first = (await chat.session()).events[0]
    assert (memory.content, memory.origin, memory.author) == (
        "User prefers dark mode",
        "agent",
        "assistant",
    )
    assert (memory.session_id, memory.event_ids) == (chat.session_id, (first.id,))
    source = {"source": "explicit_save"}
    assert (memory.tags, memory.ttl_days, memory.metadata) == (("ui",), 3, source)


async def test_loaded_memories_leave_out_what_is_empty(service: KagentMemoryService):
    """The model reads the fields of a memory that say something, as plain values."""
    await service.memories.add(SCOPE, [Fact("User prefers dark mode", topics=("ui",))])
    (memory,) = (await answer_of(LoadMemoryTool(), service, query="dark mode"))["memories"]
    assert memory["text"] == "User prefers dark mode"
    assert 0 <= memory["relevance"] <= 1
    assert memory["topics"] == ["ui", "preference"]
    assert set(memory) == {"id", "text", "relevance", "stored_at", "type", "origin", "topics"}


NO_WHOLE = [("limit", limit) for limit in (0, 1.5, "many", [3], float("nan"))]


@pytest.mark.parametrize(
    ("tool", "args", "message"),
    [
        (SaveMemoryTool(), {"content": "  "}, "content: is required."),
        (LoadMemoryTool(), {"query": ""}, "query: Field required."),
        (RecallMemoryTool(), {"query": "x", "types": ["odd"]}, "types: 'semantic', 'episodic'"),
        (RecallMemoryTool(), {"query": "x", "after": "soon"}, "after must be an ISO 8601 date"),
        *(
            (RecallMemoryTool(), {"query": "x", name: value}, f"{name}: ")
            for name, value in NO_WHOLE
        ),
        (ForgetMemoryTool(), {}, "ids or query is required."),
    ],
)
async def test_wrong_arguments_are_told_to_the_model(
    service: KagentMemoryService, tool: Any, args: dict[str, Any], message: str
):
    """An argument that does not fit is an error that names it and what it takes."""
    answer = await answer_of(tool, service, **args)
    assert answer["error"].startswith(message)


@pytest.mark.parametrize("theirs", [None, InMemoryMemoryService()])
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (SaveMemoryTool(), {"content": "x"}),
        (LoadMemoryTool(), {"query": "x"}),
        (RecallMemoryTool(), {"query": "x"}),
        (ForgetMemoryTool(), {"ids": ["x"]}),
        (ConfirmMemoryTool(), {}),
    ],
)
async def test_without_our_service_the_model_is_told_so(
    theirs: Any, tool: Any, args: dict[str, Any]
):
    """In a run without a memory of ours, as inside AgentTool, the tools say so and nothing is
    searched or saved.
    """
    assert await answer_of(tool, theirs, **args) == {"error": "Memory service is not available."}


@pytest.mark.parametrize("theirs", [None, InMemoryMemoryService()])
async def test_without_our_service_runs_go_on(theirs: Any):
    """Prefetch and auto-save leave a run as it is where it has no memory of ours."""
    agent = enable_memory(assistant(scripted()), auto_save=AutoSave(every_turns=1))
    chat = Chat(agent, theirs, plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))])
    await chat.say("My parrot is called Grace")
    assert texts(chat.requests[0]) == ["My parrot is called Grace"]
    if theirs is not None:
        answer = await theirs.search_memory(app_name=APP, user_id=USER, query="parrot")
        assert answer.memories == []


async def test_recall_never_widens_the_developers_filter(service: KagentMemoryService):
    """The model narrows a search, and never beyond the developer's filter."""
    await service.memories.add(
        SCOPE,
        [
            Fact("Deploy failed on Monday", type="episodic", tags=("ops",)),
            Fact("Deploy with make deploy", type="procedural", tags=("ops",)),
            Fact("Deploy song by the band", type="semantic"),
        ],
    )
    arguments = {"query": "deploy", "types": "procedural", "tags": ["ops"]}
    assert shown(await answer_of(RecallMemoryTool(), service, **arguments)) == [
        "Deploy with make deploy"
    ]
    fixed = RecallMemoryTool(5, filter=Filter(types=("episodic",)))
    assert shown(await answer_of(fixed, service, **arguments)) == ["Deploy failed on Monday"]


@pytest.mark.parametrize(
    ("flag", "count"), [(True, 0), ("true", 0), (False, 1), ("false", 1), (None, 1)]
)
async def test_recall_stays_in_this_session_only_when_told(
    service: KagentMemoryService, flag: Any, count: int
):
    """A search is narrowed to this session by a true value, written as models write it."""
    await service.memories.add(SCOPE, [Fact("Deploy with make deploy", session_id="another")])
    answer = await answer_of(RecallMemoryTool(), service, query="deploy", this_session=flag)
    assert len(answer["memories"]) == count


@pytest.mark.parametrize(
    ("tool", "arguments", "count"),
    [
        (RecallMemoryTool(), {}, 5),
        (RecallMemoryTool(), {"limit": "3"}, 3),
        (RecallMemoryTool(), {"limit": 10**6}, 50),
        (RecallMemoryTool(3), {"limit": 50}, 3),
    ],
)
async def test_the_model_may_say_how_many_it_wants(
    service: KagentMemoryService, tool: Any, arguments: dict[str, Any], count: int
):
    """The model's number counts up to the developer's, or 50; without one 5 come, or theirs."""
    await service.memories.add(SCOPE, [f"deploy {number}" for number in range(70)])
    assert len(shown(await answer_of(tool, service, query="deploy", **arguments))) == count


def forgetting(service: Any) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Return the answers of `forget_memory` to these arguments in one conversation."""
    chat = talk(service, tools=[ForgetMemoryTool()])

    async def answer(**args: Any) -> dict[str, Any]:
        chat.agent.model.steps = [call("forget_memory", **args)]
        await chat.say("Please forget it")
        return responses(chat.requests[-1])[-1]

    return answer


@pytest.mark.parametrize("by", ["query", "ids"])
async def test_forgetting_lists_first_and_erases_by_its_token(
    service: KagentMemoryService, by: str
):
    """A first call erases nothing; the second, with the token, erases exactly what was listed."""
    texts = ["User prefers dark mode", "User owns a dark horse"]
    ids = await service.memories.add(SCOPE, texts)
    answer = forgetting(service)
    listed = await answer(**{"query": "dark mode"} if by == "query" else {"ids": ids, "token": "y"})
    assert {memory["id"] for memory in listed["memories"]} == set(ids)
    other = await answer(ids=[ids[0]], token=listed["token"])
    elsewhere = await forgetting(service)(ids=ids, token=listed["token"])
    assert {answer["status"] for answer in (listed, other, elsewhere)} == {"confirmation required"}
    assert await contents(service) == texts
    erased = await answer(ids=[ids[0]], token=other["token"])
    assert erased == {"status": "forgotten", "ids": [ids[0]]}
    assert await contents(service) == texts[1:]


async def test_forgetting_names_what_is_linked_and_leaves_it(uri: str):
    """A memory that says the same is named in the answer, and is not erased with the other."""

    same = ScriptedLlm(lambda _: {"decisions": [{"fact": "F1", "action": "NOOP", "memory": "M1"}]})
    async with KagentMemoryService(uri, llm=same, summary=AsSaid()) as service:
        for number, text in enumerate(("The user lives in Graz", "Graz is where the user lives")):
            messages = [Message(text=text, event_id=f"e{number}")]
            await service.memories.remember(SCOPE, messages, f"s{number}")
            assert await service.drain()
        first, second = (await service.memories.list(SCOPE)).memories
        answer = forgetting(service)
        request = await answer(ids=[first.id])
        for reply in (request, await answer(ids=[first.id], token=request["token"])):
            assert [memory["id"] for memory in reply["linked"]["memories"]] == [second.id]
        assert await contents(service) == [second.content]
        assert "linked" not in await answer(ids=[second.id])


async def test_a_tool_with_its_own_service_works_in_agent_tool(
    service: KagentMemoryService,
):
    """Inside AgentTool a tool saves to the service that it was given."""
    inner = scripted(call("save_memory", content="The code word is heron"))
    tools = [SaveMemoryTool(memory_service=service)]
    expert = AgentTool(assistant(inner, name="expert", tools=tools))
    asking = call("expert", request="Note the code word heron")
    await talk(service, asking, tools=[expert]).say("hello there")
    assert await contents(service) == ["The code word is heron"]


@pytest.mark.parametrize("tool", [LoadMemoryTool(limit=50), RecallMemoryTool(50)])
async def test_an_answer_keeps_to_a_budget_of_tokens(service: KagentMemoryService, tool: Any):
    """An answer with long texts and labels stays within its budget of tokens."""
    long = [f"Deploy note {number}: " + f"word{number} " * 400 for number in range(20)]
    topics = [tuple(f"t{number} {n}" * 40 for n in range(40)) for number in range(4)]
    labelled = [Fact(f"Deploy label {each[0][:2]}", topics=each) for each in topics]
    await service.memories.add(SCOPE, [*long, *labelled])
    answer = await answer_of(tool, service, query="deploy")
    assert answer["memories"]
    assert len(json.dumps(answer)) < 4 * 2048 + 2_000


@pytest.mark.parametrize(
    "text",
    ["Deploy " + "leaf " * 3_000, "Deploy " + "茶" * 5_000, "Deploy " + "</memory> <" * 1_400],
)
async def test_a_memory_longer_than_the_budget_is_cut(service: KagentMemoryService, text: str):
    """A memory that alone is longer than the budget is cut, and says so."""
    topics = tuple("x" * 500 + str(n) for n in range(40))
    await service.memories.add(SCOPE, [Fact(text, topics=topics)])
    for tool in (LoadMemoryTool(budget_tokens=100), RecallMemoryTool(budget_tokens=100)):
        (memory,) = (await answer_of(tool, service, query="deploy"))["memories"]
        cut, _, note = memory["text"].partition(" … ")
        assert memory["id"]
        assert cut.startswith("Deploy ")
        # what is escaped in the cut text is escaped once more
        assert estimated_tokens(cut) <= 130
        assert note == f"[cut off; it has {len(text):,} characters in all]"


async def test_the_tools_find_what_their_session_keeps(uri: str):
    """Short-term memories are found by the tools of their session, and by nobody else."""
    async with KagentMemoryService(uri, policy="tiers", llm=False) as service:
        loading = call("load_memory", query="dark mode")
        chat = talk(service, "hi", loading, tools=[LoadMemoryTool()])
        await chat.say("User prefers dark mode")
        await service.add_session_to_memory(await chat.session())
        assert await service.drain(60)
        await chat.say("hello there")
        assert shown(responses(chat.requests[-1])[-1]) == ["User prefers dark mode"]
        assert await answer_of(LoadMemoryTool(), service, query="dark mode") == {"memories": []}
        query = {"app_name": APP, "user_id": USER, "query": "dark mode"}
        assert (await service.search_memory(**query)).memories == []
