"""The two models of a test without models keep what they promise."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from pydantic import BaseModel

from kagent_memory.errors import ModelError
from kagent_memory.models.embedding import Embedder
from kagent_memory.models.llm import Llm
from kagent_memory.testing import HashEmbedder, ScriptedLlm


class Tea(BaseModel):
    name: str


async def test_the_same_text_always_has_the_same_unit_vector_and_likeness_is_nearness() -> None:
    embedder: Embedder = HashEmbedder(dimensions=64)
    texts = ["green tea", "a cup of green tea", "deployment", "we deploy on Monday", "rain in Oslo", "", "!?"]
    one = await embedder.embed(texts, kind="document")
    other = await HashEmbedder(dimensions=64).embed(texts, kind="query")
    assert (one.shape, one.dtype) == ((7, 64), np.float32)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1.0, rtol=1e-6)
    near = one @ one.T
    assert near[0, 1] > near[0, 4] + 0.3
    assert near[2, 3] > near[2, 4]
    assert (await embedder.embed([], kind="query")).shape == (0, 64)


async def test_a_script_answers_by_the_prompt_or_in_order_and_remembers_what_it_was_asked() -> None:
    by_prompt: Llm = ScriptedLlm(lambda prompt: {"name": prompt.upper()})
    assert (await by_prompt.complete("sencha", schema=Tea)).name == "SENCHA"
    in_order = ScriptedLlm([Tea(name="one"), '{"name": "two"}', ModelError("away"), {"nome": "wrong"}])
    assert [(await in_order.complete(prompt, schema=Tea)).name for prompt in ("a", "b")] == ["one", "two"]
    for prompt, words in (("c", "away"), ("d", "does not fit Tea"), ("e", "asked once more")):
        with pytest.raises(ModelError, match=words):
            await in_order.complete(prompt, schema=Tea)
    assert in_order.prompts == ["a", "b", "c", "d", "e"]


def test_the_models_need_neither_pytest_nor_a_driver() -> None:
    heavy = ("pytest", "hypothesis", "libsql", "psycopg", "litellm", "google.adk")
    code = f"import sys, kagent_memory.testing; sys.exit(str([n for n in {heavy} if n in sys.modules] or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
