"""The keyword arguments that an editor shows are the settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from kagent_memory import KagentMemoryService, Memories
from kagent_memory.memories import MemoryApi, OpenOptions, PartOptions, options
from kagent_memory.settings import MemorySettings, SettingOptions

OBJECTS_TOO = {"embedding", "former_embedding", "llm", "rerank", "gate"}


def test_every_setting_is_a_typed_option() -> None:
    assert set(SettingOptions.__annotations__) == {field.name for field in fields(MemorySettings)} - OBJECTS_TOO


def test_every_argument_of_open_is_a_typed_option_of_who_opens_for_others() -> None:
    named = set(inspect.signature(Memories.open).parameters) - {"uri", "options"}
    assert set(OpenOptions.__annotations__) == named | set(SettingOptions.__annotations__)
    service = set(inspect.signature(KagentMemoryService).parameters) - {"uri", "options", "scope_of", "agents_dir"}
    assert set(PartOptions.__annotations__) | service | {"resolve_llm"} == set(OpenOptions.__annotations__)


@pytest.mark.parametrize(
    ("verb", "taken"),
    [
        (MemoryApi.remember, options.RememberOptions),
        (MemoryApi.add, options.AddOptions),
        (MemoryApi.edit, options.EditOptions),
        (MemoryApi.forget, options.ForgetOptions),
        (MemoryApi.list, options.ListOptions),
    ],
    ids=lambda value: value.__name__,
)
def test_the_options_of_a_verb_are_its_keyword_arguments(verb: Callable[..., Any], taken: Any) -> None:
    keywords = {
        name: one.annotation
        for name, one in inspect.signature(verb).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert keywords == {name: one.__forward_arg__ for name, one in taken.__annotations__.items()}
