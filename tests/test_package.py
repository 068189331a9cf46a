"""The package as it is shipped: light to import, honest about its names, whole in its wheel, small
in its parts.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import kagent_memory

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kagent_memory"
PUBLIC = """
KagentMemoryService enable_memory AutoSave auto_save_session_to_memory_callback MemoryPlugin
SaveMemoryTool LoadMemoryTool PrefetchMemoryTool RecallMemoryTool PreloadMemoryTool
ForgetMemoryTool ConfirmMemoryTool
Memories Scope Scopes Fact Message Memory Hit Recall Filter Change Revision
LlmSummary CompactionAwareSummary PassthroughSummary SummaryProvider
MemorySettings EmbeddingConfig RankSettings tenant register
KagentMemoryError ConfigurationError InvalidInput StoreError ModelError UnusableAnswer NotFound
Conflict
"""
PUBLIC_IN_MODULES = {
    "Embedder": "models.embedding",
    "Llm": "models.llm",
    "Prefetch": "adk.prefetch",
    "WordGate": "retrieval.query",
    "ImportanceWeights": "retrieval.ranking.importance",
    "current_tenant": "records",
}


def run_python(
    code: str, *arguments: object, env: dict[str, str] | None = None, cwd: Path = ROOT
) -> str:
    command = [sys.executable, *(["-S"] if env else []), "-P", "-c", code, *map(str, arguments)]
    environ = {**os.environ, **(env or {})}
    process = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


OPENED = """
from kagent_memory.settings import MemorySettings
from kagent_memory.models import embedding, llm, reranking
settings = MemorySettings()
embedding.open_embedder("openai/any", settings)
llm.open_llm("openai/any", settings)
reranking.open_reranker("cohere/any", settings)
"""
COMMAND = """
from kagent_memory.cli import main
assert main(["migrate", "--uri", "libsql:///:memory:", "--json"]) == 0
"""


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import kagent_memory", "kagent_memory."),
        (OPENED, "litellm openai httpx fastembed onnxruntime"),
        (COMMAND, "fastapi google libsql litellm psycopg torch"),
        ("import kagent_memory.testing", "google.adk litellm psycopg pytest"),
        ("from kagent_memory.testing import Chat, in_memory_service", "hypothesis pytest"),
    ],
    ids=["the package", "models", "a command", "stand-ins", "an agent in a test"],
)
def test_what_is_imported_is_light(code: str, heavy: str):
    """Code loads no module that it does not use: the package none of its own, opened models, a
    command and the models of `testing` no driver and no framework, and what runs an agent no
    pytest.
    """
    loaded = run_python(f"import sys\n{code}\nprint(*sys.modules)").split()
    assert not [name for name in loaded if name.startswith(tuple(heavy.split()))]


def test_forty_names_are_public_at_the_top():
    """The package exports exactly the forty public names."""
    assert sorted(kagent_memory.__all__) == sorted(PUBLIC.split())
    assert len(kagent_memory.__all__) == 40


def test_what_can_be_brought_is_public_in_its_module():
    """Protocols and classes for extensions are documented there, not at the top."""
    for name, module in PUBLIC_IN_MODULES.items():
        assert hasattr(importlib.import_module(f"kagent_memory.{module}"), name)
        assert not hasattr(kagent_memory, name)
        assert f"`{module}.{name}`" in (ROOT / "docs/how-to/deploy.md").read_text(encoding="utf-8")


def test_a_name_that_is_not_public_is_refused():
    """An unknown name raises AttributeError."""
    assert not hasattr(kagent_memory, "Nothing")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


def test_an_index_shows_links_that_lead_to_the_repository(tmp_path: Path):
    """Links of the published README lead to the repository."""
    command = [sys.executable, "-m", "hatchling", "metadata"]
    environ = {
        **os.environ,
        "GITHUB_SERVER_URL": "https://forge.example",
        "GITHUB_REPOSITORY": "ada/memory",
    }
    process = subprocess.run(
        command, cwd=ROOT, env=environ, check=True, capture_output=True, timeout=300
    )
    shown = json.loads(process.stdout)
    urls, links = shown["urls"], re.findall(r"\]\(([^)]*)\)", shown["readme"]["text"])
    assert urls["Repository"] == "https://forge.example/ada/memory"
    files = f"{urls['Repository']}/blob/v{shown['version']}/"
    assert f"{files}docs/tutorial/install.md" in links
    for link in [*links, *urls.values()]:
        assert link.startswith("https://")
        if link.startswith(files):
            assert (ROOT / link.removeprefix(files).partition("#")[0]).exists()


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path):
    """The wheel holds every file of the package and nothing else."""
    ours = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == ours
    kinds = {Path(name).suffix or Path(name).name for name in ours}
    assert {".py", ".typed", ".sql", ".md", ".html", ".css"} <= kinds
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_remembers_with_the_checkout_out_of_the_way(wheel: Path, tmp_path: Path):
    """The installed wheel remembers and recalls without the checkout."""
    target = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(target)
    code = """
import asyncio, sys
import kagent_memory
from kagent_memory import Memories, Scope

async def main():
    async with await Memories.open("libsql:///memory.db", llm=False) as memories:
        scope = Scope("", "ada", "app")
        (added,) = await memories.add(scope, ["The spare key is with Grace."])
        found = await memories.recall(scope, "Where is the spare key?")
        assert [hit.memory.id for hit in found.hits] == [added]

asyncio.run(main())
for name in kagent_memory.__all__:
    getattr(kagent_memory, name)
print({module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "kagent_memory"})
"""  # noqa: E501
    # -S reads no .pth file, so an editable install of the checkout is not seen.
    paths = os.pathsep.join(
        [str(target), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    )
    printed = run_python(code, env={"PYTHONPATH": paths}, cwd=tmp_path)
    files = ast.literal_eval(printed)
    assert len(files) > 50
    assert all(Path(file).is_relative_to(target) for file in files)
    assert (tmp_path / "memory.db").exists()
