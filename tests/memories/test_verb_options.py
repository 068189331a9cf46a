"""The options that an editor shows for a verb are its keyword arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from kagent_memory.memories import MemoryApi, options


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
