"""Importing costs nothing, and every public name is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kagent_memory

HEAVY = ("google", "litellm", "psycopg", "libsql", "torch", "fastapi", "numpy", "pydantic", "opentelemetry")


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {module.partition(".")[0] for module in run.stdout.split()}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import kagent_memory") & set(HEAVY) == set()


def test_names_that_need_no_adk_load_no_adk_and_no_driver() -> None:
    loaded = loaded_by("from kagent_memory import Memories, MemorySettings, Scope, Fact, LlmSummary, StoreError")
    assert loaded & {"google", "litellm", "psycopg", "libsql", "torch", "fastapi"} == set()


def test_the_service_loads_no_driver_and_no_model_library() -> None:
    code = (
        "from kagent_memory import KagentMemoryService, MemoryPlugin, enable_memory\n"
        "KagentMemoryService('libsql:///x.db', embedding='ollama/nomic-embed-text')"
    )
    assert loaded_by(code) & {"litellm", "psycopg", "libsql", "torch"} == set()


@pytest.mark.parametrize("name", kagent_memory.__all__)
def test_every_public_name_is_there_and_listed(name: str) -> None:
    assert getattr(kagent_memory, name) is not None
    assert name in dir(kagent_memory)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = kagent_memory.no_such_name
