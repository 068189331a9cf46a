"""The lines that connect an agent: Python, kagent's JSON and its YAML, from one choice. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import InvalidInput
from ..settings.kagent_config import TTL_DAYS, options

PROVIDERS: Mapping[str, str] = {
    "": "None: find by keywords",
    "ollama": "Ollama",
    "openai": "OpenAI, or a server like it",
    "azure_openai": "Azure OpenAI",
    "gemini": "Gemini",
    "vertex_ai": "Vertex AI",
    "bedrock": "Amazon Bedrock",
    "local": "On this machine (sentence-transformers)",
}
KINDS = {  # provider → kagent's name of it in a ModelConfig, and where it names its server
    "ollama": ("Ollama", "ollama", "host"),
    "openai": ("OpenAI", "openAI", "baseUrl"),
    "azure_openai": ("AzureOpenAI", "azureOpenAI", "azureEndpoint"),
    "gemini": ("Gemini", "", ""),
    "vertex_ai": ("GeminiVertexAI", "", ""),
    "bedrock": ("Bedrock", "", ""),
}
PREFIXES = {"azure_openai": "azure", "openai": "openai"}
SCHEMES = ("libsql", "libsql+http", "libsql+https", "postgresql", "postgres", "pgserver", "http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What somebody chose in the form.

    Attributes:
        needs_token: the store is a server that lets only tokens in.
        needs_model: the store is a server without a model, and the agents' own are not at hand there.
    """

    app: str = "demo"
    uri: str = "libsql:///memory.db"
    provider: str = ""
    model: str = ""
    base_url: str = ""
    ttl_days: int = TTL_DAYS
    needs_token: bool = False
    needs_model: bool = False

    @property
    def is_server(self) -> bool:
        """Whether the store is a server: it has the embedder and the model then."""
        return _scheme(self.uri) in ("http", "https")

    @property
    def has_password(self) -> bool:
        """Whether the store's address holds a password or a token, which is never shown."""
        parts = urlsplit(self.uri)
        return parts.password is not None or "authToken=" in parts.query

    def checked(self) -> Choice:
        """`self`.

        Raises:
            InvalidInput: says which part does not fit.
        """
        if _scheme(self.uri) not in SCHEMES:
            raise InvalidInput(f"The store's address must start with one of {', '.join(SCHEMES)} and ://.")
        if self.provider not in PROVIDERS or bool(self.provider) != bool(self.model):
            raise InvalidInput("Choose an embedder and name its model, or choose none and leave the model empty.")
        if not 1 <= self.ttl_days <= 36_500:
            raise InvalidInput("Days to live must be between 1 and 36,500.")
        if not self.app:
            raise InvalidInput("Name the agent's app.")
        return self

    @property
    def embedding(self) -> dict[str, str] | str | None:
        """What `embedding=` takes."""
        if not self.provider or self.is_server:
            return None
        if self.provider == "local":
            return f"local/{self.model}"
        if self.base_url:
            return {"provider": self.provider, "model": self.model, "base_url": self.base_url}
        return f"{PREFIXES.get(self.provider, self.provider)}/{self.model}"


def _scheme(uri: str) -> str:
    try:
        return urlsplit(uri).scheme.removeprefix("kagent+")
    except ValueError:  # half an IPv6 address, say
        return ""


def python_lines(choice: Choice) -> str:
    """The agent's code; a password never stands in it."""
    where = 'os.environ["KAGENT_MEMORY_URI"]' if choice.has_password else _quoted(choice.uri)
    arguments = [where]
    embedding = choice.embedding
    if isinstance(embedding, dict):
        arguments.append("embedding={" + ", ".join(f"{_quoted(k)}: {_quoted(v)}" for k, v in embedding.items()) + "}")
    elif embedding:
        arguments.append(f"embedding={_quoted(embedding)}")
    if choice.ttl_days != TTL_DAYS:
        arguments.append(f"ttl_days={choice.ttl_days}")
    if choice.needs_model:
        arguments.append("llm=False")
    called = f"KagentMemoryService({', '.join(arguments)})"
    if len(called) > 90:
        called = "KagentMemoryService(\n    " + ",\n    ".join(arguments) + ",\n)"
    first = "import os\n\n" if choice.has_password else ""
    notes = "# The token comes from KAGENT_MEMORY_TOKEN.\n" if choice.needs_token else ""
    if choice.needs_model:
        notes += "# The server has no model: with llm=False it stores turns as they are said.\n"
    return f"""{first}from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from kagent_memory import KagentMemoryService, enable_memory

{notes}memory = {called}
agent = enable_memory(LlmAgent(name="assistant", model="gemini-2.5-flash", instruction="Help."))
runner = Runner(
    app_name={_quoted(choice.app)},
    agent=agent,
    session_service=InMemorySessionService(),
    memory_service=memory,
)
"""


def shell_lines(choice: Choice, user: str) -> str:
    """Commands that try the choice out, for a POSIX shell; a password never stands in them."""
    lines = [f"export KAGENT_MEMORY_URI={shlex.quote(choice.uri)}"]
    if choice.has_password:
        lines = ["# KAGENT_MEMORY_URI holds the address with its password"]
    if choice.needs_token:
        lines.append("# KAGENT_MEMORY_TOKEN holds the token")
    embedding = choice.embedding
    if embedding:
        text = embedding if isinstance(embedding, str) else json.dumps(embedding, ensure_ascii=False)
        lines.append(f"export KAGENT_MEMORY_EMBEDDING={shlex.quote(text)}")
    whose = f"--app {shlex.quote(choice.app)} --user {shlex.quote(user)}"
    lines += [
        f"kagent-memory add 'The first memory' {whose}",
        f"kagent-memory search 'first memory' {whose}",
        "kagent-memory doctor",
    ]
    return "\n".join(lines) + "\n"


def kagent_json(choice: Choice) -> str:
    """The memory block of kagent's config.json; checked by reading it back."""
    block: dict[str, Any] = {"ttl_days": choice.ttl_days}
    if choice.provider:
        pairs = {"provider": choice.provider, "model": choice.model, "base_url": choice.base_url}
        block["embedding"] = {name: value for name, value in pairs.items() if value}
    text = json.dumps({"memory": block}, indent=2, ensure_ascii=False)
    options(text)
    return text + "\n"


def kagent_yaml(choice: Choice) -> str:
    """The Agent and its ModelConfig; checked by reading them back. kagent has no memory without an embedder."""
    if choice.provider not in KINDS:
        return "# kagent's memory needs an embedder that its ModelConfigs know; choose one above.\n"
    kind, section, key = KINDS[choice.provider]
    address = f"\n  {section}:\n    {key}: {_quoted(choice.base_url)}" if choice.base_url and section else ""
    text = f"""apiVersion: kagent.dev/v1alpha2
kind: ModelConfig
metadata:
  name: memory-embedding
spec:
  provider: {kind}
  model: {_quoted(choice.model)}{address}
---
apiVersion: kagent.dev/v1alpha2
kind: Agent
metadata:
  name: {_quoted(choice.app.replace("_", "-"))}
spec:
  declarative:
    memory:
      modelConfig: memory-embedding
      ttlDays: {choice.ttl_days}
"""
    options(text)
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
