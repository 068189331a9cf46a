"""`scope_of` that gives a list for reading and a scope for writing: a team's memory beside one's
own.
"""

from __future__ import annotations

from typing import Any

import pytest

from kagent_memory import (
    ConfigurationError,
    ForgetMemoryTool,
    KagentMemoryService,
    LoadMemoryTool,
    NotFound,
    PreloadMemoryTool,
    RecallMemoryTool,
    SaveMemoryTool,
    Scope,
    tenant,
)
from kagent_memory.records import current_tenant

from .scripted import (
    APP,
    USER,
    blocks,
    call,
    contents,
    responses,
    talk,
    text_of,
)


def with_team(app: str, user: str) -> tuple[list[Scope], Scope]:
    name = current_tenant() or "acme"
    own = Scope(name, user, app)
    return [own, Scope(name, "team", app)], own


ASKED = "When is the release, and where are my release notes?"
OWN, TEAM = with_team(APP, USER)[0]


@pytest.fixture
async def shared(each_uri: str):
    async with KagentMemoryService(each_uri, llm=False, scope_of=with_team) as opened:
        await opened.memories.add(TEAM, ["The release train leaves on Thursday at 14:00."])
        await opened.memories.add(OWN, ["Ada's release notes are in the blue folder."])
        yield opened


async def test_every_reader_sees_shared_memory(
    shared: KagentMemoryService,
):
    """Tools, prefetch and ADK's search read both scopes; saves and sessions go to one's own."""
    steps = (
        call("load_memory", query="release"),
        call("recall_memory", query="release", limit=9),
        call("save_memory", content="Ada checks the release at noon."),
    )
    tools = [LoadMemoryTool(), RecallMemoryTool(), SaveMemoryTool(), PreloadMemoryTool()]
    chat = talk(shared, *steps, tools=tools)
    await chat.say(ASKED)
    [block] = blocks(chat.requests[0])
    assert "Thursday at 14:00" in block
    assert "blue folder" in block
    loaded, recalled = responses(chat.requests[-1])[:2]
    for answer in (loaded, recalled):
        assert {memory["text"]: memory.get("shared") for memory in answer["memories"]} == {
            "The release train leaves on Thursday at 14:00.": True,
            "Ada's release notes are in the blue folder.": None,
        }
    assert await contents(shared, TEAM) == ["The release train leaves on Thursday at 14:00."]
    assert "Ada checks the release at noon." in await contents(shared, OWN)
    response = await shared.search_memory(app_name=APP, user_id=USER, query="release train")
    assert text_of(response.memories[0]).startswith("The release train")
    await shared.add_session_to_memory(await chat.session())
    assert await shared.drain(60)
    assert ASKED in await contents(shared, OWN)
    assert len(await contents(shared, TEAM)) == 1


async def test_a_reader_cannot_change_shared_memory(
    shared: KagentMemoryService,
):
    """A reader neither replaces nor forgets what is shared."""
    [team] = (await shared.memories.list(TEAM)).memories
    steps = (
        call("save_memory", content="The release train leaves on Friday.", replaces=team.id),
        call("forget_memory", ids=[team.id]),
    )
    chat = talk(shared, *steps, tools=[SaveMemoryTool(), ForgetMemoryTool()])
    await chat.say("Change it")
    assert all("error" in answer for answer in responses(chat.requests[-1]))
    with pytest.raises(NotFound):
        await shared.delete_memory(app_name=APP, user_id=USER, memory_id=team.id)
    assert await contents(shared, TEAM) == ["The release train leaves on Thursday at 14:00."]
    assert len(await contents(shared, OWN)) == 1


async def test_every_scope_must_be_of_the_runs_tenant(uri: str):
    """A scope of another tenant than that of the run is refused."""

    def leaky(app: str, user: str) -> tuple[list[Scope], Scope]:
        own = Scope("acme", user, app)
        return [own, Scope("rival", "team", app)], own

    service = KagentMemoryService(uri, llm=False, scope_of=leaky)
    assert service.scope(APP, USER) == Scope("acme", USER, APP)
    with tenant("acme"), pytest.raises(ConfigurationError, match="'rival' inside `with tenant"):
        await service.search_memory(app_name=APP, user_id=USER, query="tea")
    with tenant("acme"):
        assert KagentMemoryService(uri, scope_of=with_team).scopes(APP, USER) == ([OWN, TEAM], OWN)


@pytest.mark.parametrize(
    "scope",
    [
        [OWN, TEAM],
        ([], OWN),
        ([OWN, "team"], OWN),
        None,
    ],
    ids=str,
)
async def test_a_wrong_scope_of_is_a_clear_error(uri: str, scope: Any):
    """A `scope_of` that returns neither a scope nor a pair for reading and writing is a clear
    error.
    """
    service = KagentMemoryService(uri, llm=False, scope_of=lambda app, user: scope)
    with pytest.raises(ConfigurationError, match=r"such as \(\[own, team\], own\)"):
        await service.search_memory(app_name=APP, user_id=USER, query="tea")
