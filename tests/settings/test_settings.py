"""The settings: how many there are, and how they are written and refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from urllib.parse import quote

import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.settings import (
    EmbeddingConfig,
    MemorySettings,
    PersonalDataRules,
    RerankConfig,
    compose,
)

MAX_SETTINGS = 40


def test_there_are_few_settings():
    """The settings stay few enough to be read: their number has a bound."""
    assert len(fields(MemorySettings)) <= MAX_SETTINGS


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("pii", "drop", PersonalDataRules(mode="drop")),
        (
            "pii",
            '{"mode": "mask", "kinds": ["email", "card"], "regions": "DE,FR", "file": "own.toml"}',
            PersonalDataRules(
                mode="mask", kinds=("email", "card"), regions=("DE", "FR"), file="own.toml"
            ),
        ),
        ("pii", "", None),
        ("rerank", "cohere/rerank-v3.5", RerankConfig(model="cohere/rerank-v3.5")),
        (
            "rerank",
            '{"model": "hosted_vllm/any", "api_base": "http://127.0.0.1:8000"}',
            RerankConfig(model="hosted_vllm/any", api_base="http://127.0.0.1:8000"),
        ),
        ("rerank", "", None),
        (
            "embedding",
            '{"type": "openai", "model": "m"}',
            EmbeddingConfig(provider="openai", model="m"),
        ),
        ("ttl_days_by", '{"episodic": 3, "tag=note: it": "0"}', {"episodic": 3, "tag=note: it": 0}),
    ],
)
def test_a_compound_setting_has_a_text_form(name: str, text: str, value: object):
    """A compound setting means the same in the environment, in the URI and in a call."""
    for uri, environ in (
        ("libsql:///m.db", {f"KAGENT_MEMORY_{name.upper()}": text}),
        (f"libsql:///m.db?{name}={quote(text)}", {}),
    ):
        _, settings = compose(uri, None, {}, environ)
        assert getattr(settings, name) == value
    assert getattr(MemorySettings().updated({name: text}), name) == value


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("pii", "hide", r"pii\.mode: Input should be 'mask', 'drop' or 'refuse'"),
        ("pii", {"kinds": ["email"]}, r"pii\.mode: Field required"),
        ("pii", {"mode": "mask", "kind": "email"}, r"pii\.kind: Unexpected"),
        (
            "rerank",
            {"model": "cohere/any", "base_url": "http://127.0.0.1"},
            r"rerank\.base_url: Unexpected",
        ),
        ("rerank", {"api_base": "http://127.0.0.1"}, r"rerank\.model: Field required"),
        ("ttl_days_by", {"invoice": 3650}, r"ttl_days_by\..*episodic.*tag="),
        *(
            ("ttl_days_by", wrong, "ttl_days_by")
            for wrong in (
                {"semantic": -1},
                {"semantic": 36501},
                {"tag=": 3},
                {"tag=a": 3.5},
                "episodic:3",
                '{"semantic',
            )
        ),
        *(("half_life_days", wrong, "half_life_days") for wrong in (-1, "nan")),
        *(("policy", wrong, "policy.*kagent.*archive.*tiers") for wrong in ("Tiers", 3)),
        ("embedding", "{no json", "embedding"),
        ("model_timeout_seconds", 0, "model_timeout_seconds: Input should be greater than 0"),
    ],
)
def test_a_misfit_is_told_what_the_setting_takes(name: str, value: Any, reason: str):
    """A value that does not fit is refused with the setting's name and what it takes."""
    with pytest.raises(
        ConfigurationError, match=f"Invalid value for the setting .*{reason}.*(?<!\\.)\\.$"
    ):
        MemorySettings().updated({name: value})
