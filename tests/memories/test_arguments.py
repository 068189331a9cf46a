"""Arguments of another type than a verb declares: one typed error that names the parameter and what
it takes, before anything is done; in process, without an event loop, and over a server."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import product
from typing import Any

import numpy as np
import pytest

from kagent_memory import Fact, Filter, Scope, Scopes
from kagent_memory.errors import InvalidInput, KagentMemoryError, NotFound
from kagent_memory.memories.memories import Memories
from kagent_memory.memories.verbs import verbs_of
from kagent_memory.models.llm import CheckedLlm
from kagent_memory.records import Message
from kagent_memory.server.tokens import create_token
from memories.opening import opened, through_a_server

SCOPE = Scope("acme", "ada", "desk")
VERBS = sorted(verbs_of(Memories).keys() - {"work", "reembed", "rotate_keys"})
GIVEN: dict[str, Any] = {
    "scope": SCOPE,
    "messages": [Message(text="Ada sings", event_id="e1")],
    "session_id": "s",
    "items": ["Ada sails"],
    "id": "01980000-0000-7000-8000-000000000000",
    "job_id": "01980000-0000-7000-8000-000000000000",
    "query": "Ada",
    "tenant": "nobody",
    "success": True,
    "path": "/nowhere/none.jsonl",
}
fact: Any = Fact  # as callers without a type checker make them
message: Any = Message
OTHERS: tuple[Any, ...] = (
    None,
    -1,
    "",
    [],
    [None],
    {"a": 1},
    [SCOPE],
    Filter(),
    [fact(object())],
    [fact("x", metadata={"a": object()})],
    [message(text="x", compaction=5)],
    datetime(2026, 1, 1, tzinfo=UTC),
    [[0.5, 0.5]],
    float("nan"),
    10**400,
)


def parameters(verb: str) -> list[str]:
    return list(inspect.signature(getattr(Memories, verb)).parameters)[1:]


def needed(verb: str) -> dict[str, Any]:
    signature = inspect.signature(getattr(Memories, verb))
    required = [p.name for p in list(signature.parameters.values())[1:] if p.default is p.empty]
    return {name: GIVEN[name] for name in required if name in GIVEN}


async def outcome(answer: Awaitable[object] | AsyncGenerator[str]) -> object:
    if isinstance(answer, AsyncGenerator):
        return [line async for line in answer]
    return await answer


@pytest.fixture(params=["in process", "remote"])
async def memories(request: pytest.FixtureRequest) -> AsyncIterator[Memories]:
    async with AsyncExitStack() as stack:
        local = await stack.enter_async_context(await opened(ttl_days=16))
        if request.param == "in process":
            yield local
        else:
            yield await stack.enter_async_context(await through_a_server(local))


CASES = [(verb, name) for verb in VERBS for name in parameters(verb) if name != "embedding"]


async def test_what_fits_no_parameter_is_refused_by_its_name(memories: Memories):
    """A value of another type is an error that begins with the name of its argument."""
    for verb, name in CASES:
        with pytest.raises(InvalidInput, match=rf"^{name}\b.*: "):
            await outcome(getattr(memories, verb)(**{**needed(verb), name: object()}))
        if name in needed(verb) and verb != "feedback":
            values = [object() if key == name else value for key, value in needed(verb).items()]
            with pytest.raises(InvalidInput, match=rf"^{name}\b.*: "):
                await outcome(getattr(memories, verb)(*values))
    model: Any = CheckedLlm  # the class instead of a model
    with pytest.raises(InvalidInput, match=r"^llm\b"):
        await memories.remember(SCOPE, GIVEN["messages"], "s", llm=model)
    assert not (await memories.list(SCOPE)).memories
    assert not await memories.jobs()


async def test_a_misspelt_argument_is_refused_by_its_name(memories: Memories):
    """A misspelt argument is refused by its name and not left out."""
    for verb in VERBS:
        with pytest.raises(
            TypeError, match=rf"{verb}\(\) got an unexpected keyword argument 'limt'$"
        ):
            await outcome(getattr(memories, verb)(**needed(verb), limt=3))
    verbs: Any = memories
    with pytest.raises(TypeError, match="'options'"):
        await outcome(verbs.recall(SCOPE, "tea", options=3))
    with pytest.raises(TypeError, match=r"get\(\).*positional"):
        await outcome(verbs.get(SCOPE, "id", True))


async def test_no_value_whatever_makes_another_error_than_ours(memories: Memories):
    """Any value for a parameter of any verb raises our errors or none."""
    wrong: list[str] = []
    for verb in VERBS:
        # any number would be waited for
        for name in set(parameters(verb)) - {"timeout" if verb == "drain" else ""}:
            for value in OTHERS:
                try:
                    await outcome(getattr(memories, verb)(**{**needed(verb), name: value}))
                except KagentMemoryError:
                    pass
                except Exception as error:
                    wrong.append(f"{verb}({name}={str(value)[:40]!r}): {error!r}"[:200])
    assert not wrong, "\n".join(wrong)


async def test_numpy_scalars_are_taken_for_python_values(memories: Memories):
    """A numpy scalar counts as Python's number or truth of the same value."""
    [id] = await memories.add(SCOPE, ["Ada sails"])
    others: dict[str, Any] = {"importance": np.float32(0.25), "ttl_days": np.int64(3)}
    edited = await memories.edit(SCOPE, id, **others)
    assert (edited.importance, edited.ttl_days) == (0.25, 3)
    success: Any = np.float64(0.6) > 0.5
    await memories.feedback(SCOPE, id, success=success)
    assert (await memories.get(SCOPE, id)).usage.successes == 1
    with pytest.raises(InvalidInput, match=r"^limit: Input should be a valid integer$"):
        await memories.recall(SCOPE, "Ada", limit=success)


async def test_an_iterator_is_read_once_and_whole(memories: Memories):
    """A verb takes any iterable where it takes a sequence, even an iterator."""
    ids = await memories.add(SCOPE, iter(["Ada sails", "Ada skis"]))  # pyright: ignore[reportArgumentType]
    assert set(await memories.forget(SCOPE, set(ids))) == set(ids)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("part", ["tenant", "user", "app"])
async def test_no_name_is_longer_than_a_server_takes(memories: Memories, part: str):
    """A name of a scope has at most 1,024 characters, of any width, everywhere it is given."""
    names = {"tenant": "acme", "user": "ada", "app": "desk"}
    for kind in (Scope, Scopes):
        with pytest.raises(InvalidInput, match=f"{part}.*1,025 characters"):
            kind(**{**names, part: "x" * 1025})
    scope = Scope(**{**names, part: "\U0001f980" * 1024})
    [id] = await memories.add(scope, ["Ada sings"])
    assert (await memories.get(scope, id)).content == "Ada sings"


async def test_over_a_server_no_verb_reaches_another_users_scope():
    """To a user's token no memory of another user is there, whatever the verb; none is changed."""
    async with await opened(quarantine=["tool"]) as memories:
        ids = await memories.add(SCOPE, ["Ada sails", Fact("Ada skis", origin="tool")])
        before = await memories.stats(SCOPE)
        secret, _ = await create_token(memories, tenant=SCOPE.tenant, user="eve")
        async with await through_a_server(memories, secret) as remote:
            for verb, id in product(VERBS, ids):
                arguments = needed(verb) | ({"id": id} if "id" in needed(verb) else {})
                if "scope" in arguments:
                    with pytest.raises(NotFound):
                        await outcome(getattr(remote, verb)(**arguments))
        assert await memories.stats(SCOPE) == before
