"""`with tenant(…)`: what a run does is done in the tenant's scopes, whoever else runs at the same
time.
"""

from __future__ import annotations

import asyncio

import pytest
from google.adk.agents.run_config import RunConfig
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session

from kagent_memory import (
    AutoSave,
    InvalidInput,
    KagentMemoryService,
    LoadMemoryTool,
    PreloadMemoryTool,
    SaveMemoryTool,
    Scope,
    enable_memory,
    tenant,
)
from kagent_memory.records import current_tenant

from .scripted import (
    APP,
    USER,
    Chat,
    assistant,
    blocks,
    call,
    contents,
    responses,
    scripted,
    user_message,
)

TENANTS = ("acme", "acme-corp", "Ämter & Söhne", "a::b", "%")


async def of_tenant(service: KagentMemoryService, name: str) -> list[str]:
    return await contents(service, Scope(name, USER, APP))


async def test_concurrent_runs_keep_to_their_tenants(each_service):
    """Runs at the same time save and load in their own tenants."""

    async def run(name: str) -> list[dict]:
        model = scripted(
            call("save_memory", content=f"The password hint of {name} is blue."),
            "saved",
            call("load_memory", query="password hint"),
            "loaded",
        )
        agent = assistant(model, tools=[SaveMemoryTool(), LoadMemoryTool()])
        with tenant(name):
            chat = Chat(agent, each_service)
            await chat.say("Save it")
            await asyncio.sleep(0)
            await chat.say("Load it")
        return responses(model.requests[-1])

    answers = await asyncio.gather(*map(run, TENANTS))
    for name, answer in zip(TENANTS, answers, strict=True):
        assert [memory["text"] for memory in answer[-1]["memories"]] == [
            f"The password hint of {name} is blue."
        ]
        assert await of_tenant(each_service, name) == [f"The password hint of {name} is blue."]
    assert await of_tenant(each_service, "") == []
    assert current_tenant() is None


async def test_auto_save_keeps_to_the_runs_tenant(service):
    """Auto-save and the work that it leaves behind go to the run's tenant."""
    agent = enable_memory(
        assistant(scripted(*["ok"] * 8)), auto_save=AutoSave(every_turns=1, inactivity_minutes=600)
    )
    for name in TENANTS:
        with tenant(name):
            chat = Chat(agent, service, sessions=InMemorySessionService())
            await chat.say(f"{name} moves to Lisbon in May")
    with tenant("nobody"):  # whoever drains or closes has no say in it
        assert await service.drain(60)
    for name in TENANTS:
        assert f"{name} moves to Lisbon in May" in await of_tenant(service, name)
        assert not [
            text
            for text in await of_tenant(service, name)
            if "moves" in text and not text.startswith(name)
        ]
    assert {scope.tenant for scope in await service.memories.scopes()} == set(TENANTS)


def test_the_sync_runner_keeps_the_tenant(uri):
    """The blocking runner keeps the tenant in its own thread."""
    service = KagentMemoryService(uri, llm=False)
    model = scripted(call("save_memory", content="The gate code is 7."), "saved")
    sessions = InMemorySessionService()
    chat = Chat(assistant(model, tools=[SaveMemoryTool()]), service, sessions=sessions)
    session = asyncio.run(sessions.create_session(app_name=APP, user_id=USER))
    with tenant("acme"):
        list(
            chat.runner.run(
                user_id=USER, session_id=session.id, new_message=user_message("Save it")
            )
        )

    async def look() -> list[list[str]]:
        texts = [await of_tenant(service, name) for name in ("acme", "")]
        await service.close()
        return texts

    assert asyncio.run(look()) == [["The gate code is 7."], []]


async def test_no_tenant_sees_anothers_prefetch(service):
    """Tenants whose sessions, users and invocations have the same names are kept apart."""

    class SameIds(InMemorySessionService):
        async def create_session(self, **options):  # type: ignore[override]
            return await super().create_session(**{**options, "session_id": "1"})

    for name in ("acme", "other"):
        await service.memories.add(
            Scope(name, USER, APP), [f"{name} ships the blue crates on Monday."]
        )
    shown = {}
    for name in ("acme", "other"):
        model = scripted("ok", "ok")
        with tenant(name):
            chat = Chat(assistant(model, tools=[PreloadMemoryTool()]), service, sessions=SameIds())
            await chat.say("When do the blue crates ship?")
        shown[name] = blocks(model.requests[0])
    for name, other in (("acme", "other"), ("other", "acme")):
        [block] = shown[name]
        assert f"{name} ships" in block
        assert f"{other} ships" not in block
    session = Session(id="1", app_name=APP, user_id=USER)
    with tenant("acme"):
        assert service.state(session).recalled == ("acme ships the blue crates on Monday.",)
    assert service.state(session).recalled == ()


async def test_only_the_application_names_a_tenant(service):
    """Neither metadata, nor a model, nor a user can name a tenant."""
    await service.memories.add(Scope("other", USER, APP), ["The vault is behind the mirror."])
    model = scripted(
        call("save_memory", content="x1 is kept", tenant="other", scope="other"),
        call("load_memory", query="vault mirror", tenant="other"),
        "done",
    )
    metadata = {"tenant": "other", "kagent.tenant": "other", "scope": ["other", USER, APP]}
    with tenant("acme"):
        chat = Chat(assistant(model, tools=[SaveMemoryTool(), LoadMemoryTool()]), service)
        begun = await chat.sessions.create_session(app_name=APP, user_id=USER, state=metadata)
        chat.session_id = begun.id
        await chat.say(
            '{"tenant": "other"} with tenant("other"):',
            run_config=RunConfig(custom_metadata=metadata),
        )
        session = await chat.session()
        session.state.update(metadata)
        await service.add_events_to_memory(
            app_name=APP,
            user_id=USER,
            events=session.events,
            session_id="s",
            custom_metadata=metadata,
        )
    assert await service.drain(60)
    assert "vault" not in str(responses(model.requests[-1]))
    assert await of_tenant(service, "other") == ["The vault is behind the mirror."]


async def test_tenants_nest(service):
    """The inner tenant holds; the outer comes back, also after an error."""
    with tenant("outer"):
        with tenant("inner"):
            assert service.scope(APP, USER) == Scope("inner", USER, APP)
        with pytest.raises(KeyError), tenant("inner"):
            raise KeyError
        assert service.scope(APP, USER) == Scope("outer", USER, APP)
    assert service.scope(APP, USER) == Scope("", USER, APP)


@pytest.mark.parametrize("name", ["", None, 7, b"acme", "a\0b", "\ud800", ["acme"]])
async def test_what_is_no_tenant_is_refused(service, name):
    """A name that no tenant can have is an error, and nothing is run for it."""
    with pytest.raises(InvalidInput, match="tenant"), tenant(name):
        raise AssertionError
    assert current_tenant() is None
