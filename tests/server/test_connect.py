"""The lines that connect an agent run as they are: against this server first, and for every store and embedder."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.server.auth import Access
from kagent_memory.server.connect_code import PROVIDERS, Choice, python_lines, shell_lines

from .ground import client_of, live

AFTERWARDS = """
import asyncio
from google.adk.memory.memory_entry import MemoryEntry
from google.genai.types import Content, Part


async def main() -> None:
    kept = MemoryEntry(content=Content(parts=[Part(text="Ada likes oolong")]))
    await memory.add_memory(app_name=runner.app_name, user_id="ada", memories=[kept])
    found = await memory.search_memory(app_name=runner.app_name, user_id="ada", query="oolong")
    print(found.memories[0].content.parts[0].text)
    await memory.close()


asyncio.run(main())
"""


def texts_of(page: str) -> list[str]:
    return [html.unescape(text) for text in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)]


def run(lines: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (directory / "agent.py").write_text(lines)
    env = {name: value for name, value in os.environ.items() if not name.startswith("KAGENT_MEMORY_")}
    return subprocess.run(
        [sys.executable, "agent.py"], cwd=directory, env={**env, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def run_in_shell(lines: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (directory / "kagent-memory").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kagent_memory "$@"\n')
    (directory / "kagent-memory").chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith("KAGENT_MEMORY_")}
    env["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", lines], cwd=directory, env={**env, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


async def _keyword() -> Memories:
    return await Memories.open("libsql:///:memory:")


def test_this_server_comes_first_and_its_lines_run_as_they_are(tmp_path: Path) -> None:
    with live(_keyword) as address:
        page = httpx.get(f"{address}/connect?app=travel&user=ada", timeout=60).text
        assert f'<input name="uri" value="{address}"' in page
        python, shell, _, _ = texts_of(page)
        done = run(python + AFTERWARDS, tmp_path)
        assert (done.returncode, done.stdout) == (0, "Ada likes oolong\n"), done.stderr
        done = run_in_shell(shell, tmp_path)
        assert done.returncode == 0, done.stderr
        assert "The first memory" in done.stdout
        stored = httpx.get(f"{address}/api/v1/memories", params={"app": "travel", "user": "ada"}, timeout=60).json()[
            "memories"
        ]
        assert {one["content"] for one in stored} == {"Ada likes oolong", "The first memory"}


def test_the_lines_of_a_server_with_tokens_run_with_the_token_in_the_environment(tmp_path: Path) -> None:
    secret: list[str] = []

    async def opener() -> Memories:
        memories = await _keyword()
        made, _ = await memories.tokens.create(user="ada")
        secret.append(made)
        return memories

    with live(opener, Access(required=True)) as address:
        headers = {"authorization": f"Bearer {secret[0]}"}
        python, shell, _, _ = texts_of(
            httpx.get(f"{address}/connect?app=travel&user=ada", headers=headers, timeout=60).text
        )
        assert secret[0] not in python + shell
        assert "KAGENT_MEMORY_TOKEN" in python
        assert "KAGENT_MEMORY_TOKEN" in shell
        done = run(python + AFTERWARDS, tmp_path, KAGENT_MEMORY_TOKEN=secret[0])
        assert (done.returncode, done.stdout) == (0, "Ada likes oolong\n"), done.stderr
        searches = shell.replace("kagent-memory doctor\n", "")  # a token of one user may not look at the whole server
        done = run_in_shell(searches, tmp_path, KAGENT_MEMORY_TOKEN=secret[0])
        assert (done.returncode, "The first memory" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("app", ["demo", 'a "quoted" app', "it's $HOME `x` \\ 日本"])
def test_the_lines_of_a_file_run_as_they_are(tmp_path: Path, app: str) -> None:
    choice = Choice(app=app, uri="libsql:///memory.db", ttl_days=30).checked()
    done = run(python_lines(choice) + AFTERWARDS, tmp_path)
    assert (done.returncode, done.stdout) == (0, "Ada likes oolong\n"), done.stderr
    done = run_in_shell(shell_lines(choice, "ada"), tmp_path)
    assert (done.returncode, "The first memory" in done.stdout) == (0, True), done.stderr


def test_the_lines_of_every_embedder_and_store_are_python_that_opens_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAGENT_MEMORY_URI", "libsql:///elsewhere.db")
    for provider in PROVIDERS:
        for uri in ("libsql:///m.db", "postgresql://u@h/d", "postgresql://u:p%40ss@h/d", "http://127.0.0.1:8080"):
            for base_url in ("", "http://127.0.0.1:9/v1"):
                model = "some-model" if provider else ""
                choice = Choice(uri=uri, provider=provider, model=model, base_url=base_url).checked()
                lines = python_lines(choice)
                assert "p%40ss" not in lines + shell_lines(choice, "ada")
                names: dict[str, object] = {}
                exec(compile(lines, "agent.py", "exec"), names)
                assert {"memory", "agent", "runner"} <= set(names)
                assert ("embedding" in lines) == (bool(provider) and not choice.is_server)


async def test_the_form_keeps_its_choice_when_it_does_not_fit(client: httpx.AsyncClient) -> None:
    await client.get("/")
    fields = {"app": "travel", "uri": "mysql://x", "provider": "ollama", "model": "m", "base_url": "http://o"}
    csrf = {"csrf": client.cookies["kagent_memory_csrf"]}
    for more in ({"ttl_days": "30"}, {"ttl_days": "soon"}, {"ttl_days": "0"}):
        answer = await client.post("/connect", data={**csrf, **fields, **more})
        assert answer.status_code == 400
        for value in ("travel", "mysql://x", "m", "http://o"):
            assert f'value="{value}"' in answer.text
        assert '<option value="ollama" selected>' in answer.text


async def test_the_doctor_looks_at_this_server_from_within(client: httpx.AsyncClient) -> None:
    await client.get("/")
    csrf = client.cookies["kagent_memory_csrf"]
    own = urlsplit(str(client.base_url))._replace(path="").geturl()
    fields = {"csrf": csrf, "app": "demo", "ttl_days": "15", "check": "yes"}
    answer = await client.post("/connect", data={**fields, "uri": own})
    assert (answer.status_code, "answers:" in answer.text) == (200, True)
    answer = await client.post("/connect", data={**fields, "uri": "http://127.0.0.1:9"})
    assert "is not looked at from here" in answer.text


async def test_a_host_that_is_none_breaks_nothing() -> None:
    async with await Memories.open("libsql:///:memory:", worker=False) as memories:
        secret, _ = await memories.tokens.create(is_operator=True)
        access = Access(required=True)
        async with client_of(memories, lambda: datetime.now(UTC), access) as client:
            for host in ("[", "x y", "a:b", "<b>", ""):
                headers = {"authorization": f"Bearer {secret}", "host": host}
                answer = await client.get("/connect", headers=headers)
                assert answer.status_code in (200, 400), host
                assert "<b>" not in answer.text
