"""Pages of docs/reference that are written from the code.

`make site` adds those of `SITE_PAGES`, which are not in the repository. `make docs` writes the page of the settings,
which is, and a test compares it with the code.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from reference_commands import cli_page

import kagent_memory
from kagent_memory.memories import Memories, api
from kagent_memory.records import Filter
from kagent_memory.server.app import create_app
from kagent_memory.settings import Backend, MemorySettings

SETTINGS_PAGE = Path(__file__).parent / "reference/settings.md"
WIDTH = 100

SETTINGS = """# Settings

A setting has one name everywhere: an argument of `KagentMemoryService` and `Memories.open`, a query parameter of the
URI (`libsql:///memory.db?search_limit=8`), a variable of the environment (`KAGENT_MEMORY_SEARCH_LIMIT=8`),
and `--set search_limit=8` on the command line. Arguments win over the URI's query, that over the
environment. An unknown argument or query parameter is a `ConfigurationError`, and so is a value that does not fit. A
value of several fields is a mapping, or JSON in text (`KAGENT_MEMORY_PII='{{"mode": "mask", "kinds": ["email"]}}'`).

The store itself is named by the argument, else `KAGENT_MEMORY_URI`, else by `MEMORY_BACKEND`, else it is
`libsql:///kagent_memory.db`. A `DATABASE_URL` that nothing chooses is refused rather than passed over.

{backends}

{common}

## Advanced

{advanced}
"""
COMMON = (
    "embedding",
    "llm",
    "tenant",
    "token",
    "search_limit",
    "min_score",
    "search_filter",
    "policy",
    "ttl_days",
    "quarantine",
    "pii",
    "rerank",
    "worker",
    "postgres_schema",
    "encryption_keys",
)
"""The settings of the first table: what a user may want; the others are advanced."""
BACKENDS = {
    Backend.LIBSQL: "`libsql:///kagent_memory.db`, in the working directory",
    Backend.PGVECTOR: "the PostgreSQL that `DATABASE_URL` names (`postgresql://…` or `pgserver:///…`)",
}
PYTHON = """# Python

Every public name; `from kagent_memory import …`. Importing the package loads nothing; a name is loaded when it is
first used. Everything that waits is async. The options of a service or of `Memories.open` are [settings](settings.md).
"""
GROUPS = {
    "The service and its wiring": (
        "KagentMemoryService",
        "enable_memory",
        "MemoryPlugin",
        "AutoSave",
        "auto_save_session_to_memory_callback",
        "register",
    ),
    "Tools": (
        "SaveMemoryTool",
        "LoadMemoryTool",
        "RecallMemoryTool",
        "ForgetMemoryTool",
        "ConfirmMemoryTool",
        "PrefetchMemoryTool",
        "PreloadMemoryTool",
    ),
    "The verbs": ("Memories",),
    "Settings": ("MemorySettings", "EmbeddingConfig"),
    "Values": (
        "Scope",
        "Scopes",
        "tenant",
        "Message",
        "Fact",
        "Memory",
        "Filter",
        "Recall",
        "Hit",
        "Change",
        "Revision",
    ),
    "What you can bring": (
        "SummaryProvider",
        "LlmSummary",
        "CompactionAwareSummary",
        "PassthroughSummary",
        "RankSettings",
    ),
    "Errors": (
        "KagentMemoryError",
        "ConfigurationError",
        "InvalidInput",
        "StoreError",
        "ModelError",
        "UnusableAnswer",
        "NotFound",
        "Conflict",
    ),
}
WITH_METHODS = ("KagentMemoryService", "Memories", "SummaryProvider")
WITHOUT_SIGNATURE = (*GROUPS["Errors"], "SummaryProvider", "Memories", "MemorySettings")


def settings_page() -> str:
    """Return two tables of the settings with their defaults, in the words of their class."""
    said = _attributes(inspect.getdoc(MemorySettings) or "")
    default = MemorySettings()
    names = [field.name for field in fields(default)]

    def table(names: Sequence[str]) -> str:
        rows = [f"| `{name}` | `{shown(getattr(default, name))}` | {said[name]} |" for name in names]
        return "\n".join(("| name | default | what |", "|---|---|---|", *rows))

    backends = "\n".join(f"- `MEMORY_BACKEND={backend}`: {BACKENDS[backend]}" for backend in Backend)
    advanced = [name for name in names if name not in COMMON]
    return SETTINGS.format(backends=backends, common=table(COMMON), advanced=table(advanced))


def shown(default: object) -> str:
    """Return a default as the page writes it."""
    return "Filter()" if default == Filter() else repr(default)


def _attributes(doc: str) -> dict[str, str]:
    said: dict[str, str] = {}
    for names, text in _sections(doc)["Attributes"]:
        line = text.replace("|", "\\|")
        said.update(dict.fromkeys(re.findall(r"\w+", names), line[:1].upper() + line[1:]))
    return said


def _sections(doc: str) -> dict[str, list[tuple[str, str]]]:
    """The named entries of a docstring by their section; what is returned has no name."""
    pieces = re.split(r"^(Args|Attributes|Returns|Raises):$", doc, flags=re.MULTILINE)
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Args", "Attributes", "Returns", "Raises")}
    for section, text in zip(pieces[1::2], pieces[2::2], strict=True):
        entries = ["", text] if section == "Returns" else re.split(r"\n {4}(?! )", text)
        for entry in entries[1:]:
            line = " ".join(entry.split())
            name, _, said = ("", "", line) if section == "Returns" else line.partition(": ")
            found[section].append((name, said))
    return found


def _details(doc: str, mark: Sequence[str]) -> Iterator[str]:
    """What a docstring says of arguments, answer and errors, one line each."""
    found = _sections(doc)
    yield from (f"{mark[0]}{name}{mark[1]}: {said}" for name, said in found["Args"] + found["Attributes"])
    for _, said in found["Returns"]:
        yield f"gives {said if said.startswith(('True', 'False', 'None')) else said[0].lower() + said[1:]}"
    yield from (f"raises {mark[0]}{name}{mark[1]}: {said}" for name, said in found["Raises"])


def python_page() -> str:
    """Each public name with its signature, its promise, its arguments and its errors.

    Raises:
        ValueError: the groups and the public names differ.
    """
    named = [name for names in GROUPS.values() for name in names]
    if sorted(named) != sorted(kagent_memory.__all__):
        raise ValueError(f"Grouped or public, not both: {set(named) ^ set(kagent_memory.__all__)}")
    return "\n".join([PYTHON, *(line for title in GROUPS for line in _group(title))])


def _group(title: str) -> Iterator[str]:
    yield f"## {title}\n"
    for name in GROUPS[title]:
        value = getattr(kagent_memory, name)
        yield f"### {name}\n"
        yield f"{_promise(value)}\n"
        if name == "MemorySettings":
            yield "Its fields are the [settings](settings.md).\n"
        elif details := [f"- {line}" for line in _details(inspect.getdoc(value) or "", "``")]:
            yield "\n".join(details) + "\n"
        entries = [] if name in WITHOUT_SIGNATURE else [_signature(name, value)]
        entries += _methods(value) if name in WITH_METHODS else []
        if entries:
            yield "```py\n" + "\n".join(entries) + "\n```\n"


def _promise(value: object) -> str:
    doc = inspect.getdoc(value)
    if not doc:
        raise ValueError(f"{value} has no docstring")
    return " ".join(doc.partition("\n\n")[0].split())


def _methods(value: type) -> Iterator[str]:
    ours = [base for base in reversed(value.__mro__) if base.__module__.startswith("kagent_memory")]
    owners = {name: base for base in ours for name in vars(base)}  # in the order of the contract, each as it is here
    members = [(base, name, vars(base)[name]) for name, base in owners.items()]
    between: list[str] = []
    for base, name, member in sorted(members, key=lambda found: not isinstance(found[2], classmethod)):
        made = isinstance(member, classmethod | staticmethod)
        function = member.__func__ if made else member
        if inspect.isfunction(function) and not name.startswith("_"):
            yield from between
            between = [""]
            yield from textwrap.wrap(_promise(function), WIDTH, initial_indent="# ", subsequent_indent="# ")
            yield from (
                wrapped
                for line in _arguments(function)
                for wrapped in textwrap.wrap(line, WIDTH, initial_indent="#   ", subsequent_indent="#     ")
            )
            prefix = "async def " if inspect.iscoroutinefunction(function) else "def "
            yield prefix + _signature(name, getattr(base, name) if made else function)


def _arguments(function: Callable[..., Any]) -> Iterator[str]:
    """What is said of a verb, with each of the options where its docstring names their class."""
    for line in _details(inspect.getdoc(function) or "", ("", "")):
        if named := re.match(r"options: see `(\w+Options)`", line):
            options = vars(api)[named[1]]
            yield from _details(inspect.getdoc(options) or "", ("", ""))
        else:
            yield line


class _Written:
    """An annotation or a default as it stands in the code."""

    def __init__(self, value: Any) -> None:
        if get_origin(value) is Annotated:
            value = get_args(value)[0]
        self.text = value if isinstance(value, str) else inspect.formatannotation(value)

    def __repr__(self) -> str:
        return self.text


def _default(value: Any) -> Any:
    if inspect.isfunction(value):
        return _Written(value.__name__)
    if is_dataclass(value) and not isinstance(value, type) and value == type(value)():
        return _Written(f"{type(value).__name__}()")
    return value


def _signature(name: str, value: Any) -> str:
    found = inspect.signature(value)
    empty = inspect.Parameter.empty
    plain = [
        one.replace(
            annotation=empty if one.annotation is empty else _Written(one.annotation), default=_default(one.default)
        )
        for one in found.parameters.values()
        if one.name != "self"
    ]
    result = empty if found.return_annotation in (empty, None, "None") else _Written(found.return_annotation)
    text = name + str(inspect.Signature(plain, return_annotation=result)).replace("<factory>", "…")
    return text if len(text) <= WIDTH else _folded(name, plain, result)


def _folded(name: str, parameters: list[inspect.Parameter], result: object) -> str:
    lines, kind = [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for one in parameters:
        if one.kind is inspect.Parameter.KEYWORD_ONLY and kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            lines.append("    *,")
        kind = one.kind
        lines.append(f"    {one},".replace("<factory>", "…"))
    end = "" if result is inspect.Parameter.empty else f" -> {result!r}"
    return "\n".join([f"{name}(", *lines, f"){end}"])


def openapi() -> str:
    """What a server says of its HTTP interface, as `/openapi.json` does."""

    async def never_opened() -> Memories:
        raise NotImplementedError

    return json.dumps(create_app(never_opened).openapi(), indent=1, ensure_ascii=False) + "\n"


SITE_PAGES = {"python.md": python_page, "cli.md": cli_page, "openapi.json": openapi}


if __name__ == "__main__":
    SETTINGS_PAGE.write_text(settings_page(), encoding="utf-8")
