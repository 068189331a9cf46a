"""Generate pages of the reference from the code.

`make docs` writes the page of the settings, which is in the repository; a test compares it with the
code. `make site` adds the pages of `SITE_PAGES`, which are not.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from reference_commands import cli_page

import kagent_memory
from kagent_memory.memories import Memories
from kagent_memory.memories.opened import Opened
from kagent_memory.records import Filter
from kagent_memory.server.app import create_app
from kagent_memory.settings import MemorySettings

SETTINGS_PAGE = Path(__file__).parent / "reference/settings.md"
WIDTH = 100

SETTINGS = """# Settings

A setting has the same name everywhere:

| place | example |
|---|---|
| argument of `KagentMemoryService` and `Memories.open` | `search_limit=8` |
| query parameter of the URI | `libsql:///memory.db?search_limit=8` |
| environment variable | `KAGENT_MEMORY_SEARCH_LIMIT=8` |
| option of the command line | `--set search_limit=8` |

Arguments and options override the URI's query, and that overrides the environment. An unknown
argument or query parameter raises `ConfigurationError`, and so does an invalid value. A value with
several fields is a mapping, or JSON in text
(`KAGENT_MEMORY_PII='{{"mode": "mask", "kinds": ["email"]}}'`).

The argument `uri` names the store. Without it, `KAGENT_MEMORY_URI` does, and without that
`MEMORY_BACKEND`; the default is `libsql:///memory.db`. If `DATABASE_URL` is set but nothing selects
it, opening the store fails, so that it is not overlooked.

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
    "policy",
    "ttl_days",
    "quarantine",
    "pii",
    "rerank",
    "worker",
    "postgres_schema",
    "encryption_keys",
)
"""The settings of the first table; the others are advanced."""
BACKENDS = {
    "libsql": "`libsql:///memory.db`, in the working directory",
    "pgvector": ("the database at `DATABASE_URL` (`postgresql://…` or `pgserver:///…`)"),
}
PYTHON = """# Python

Every public name of `kagent_memory`. Importing the package loads nothing; a name is loaded when it
is first used. Functions that wait are async. The options of a service and of `Memories.open` are
[settings](settings.md).
"""
GROUPS = {
    "Service and wiring": (
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
    "Verbs": ("Memories",),
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
    "Extension points": (
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
INTERNAL = frozenset({"start", "state", *vars(Opened)})
WITHOUT_SIGNATURE = (*GROUPS["Errors"], "SummaryProvider", "Memories", "MemorySettings")


def settings_page() -> str:
    """Return the page of the settings, written from their class and its docstring."""
    meanings = _attributes(inspect.getdoc(MemorySettings) or "")
    default = MemorySettings()
    names = [field.name for field in fields(default)]

    def table(names: Sequence[str]) -> str:
        rows = [
            f"| `{name}` | `{shown(getattr(default, name))}` | {meanings[name]} |" for name in names
        ]
        return "\n".join(("| name | default | meaning |", "|---|---|---|", *rows))

    backends = "\n".join(
        f"- `MEMORY_BACKEND={backend}`: {BACKENDS[backend]}" for backend in BACKENDS
    )
    advanced = [name for name in names if name not in COMMON]
    return SETTINGS.format(backends=backends, common=table(COMMON), advanced=table(advanced))


def shown(default: object) -> str:
    """Return a default as the page writes it."""
    return "Filter()" if default == Filter() else repr(default)


def _attributes(doc: str) -> dict[str, str]:
    meanings: dict[str, str] = {}
    for names, text in _sections(doc)["Attributes"]:
        line = text.replace("|", "\\|")
        meanings.update(dict.fromkeys(re.findall(r"\w+", names), line[:1].upper() + line[1:]))
    return meanings


def _sections(doc: str) -> dict[str, list[tuple[str, str]]]:
    """Return a docstring's entries by section, as pairs of name and text; Returns has no name."""
    pieces = re.split(r"^(Args|Attributes|Returns|Raises):$", doc, flags=re.MULTILINE)
    sections: dict[str, list[tuple[str, str]]] = {
        name: [] for name in ("Args", "Attributes", "Returns", "Raises")
    }
    for section, text in zip(pieces[1::2], pieces[2::2], strict=True):
        entries = ["", text] if section == "Returns" else re.split(r"\n {4}(?! )", text)
        for entry in entries[1:]:
            line = " ".join(entry.split())
            name, _, said = ("", "", line) if section == "Returns" else line.partition(": ")
            sections[section].append((name, said))
    return sections


def _details(doc: str, mark: Sequence[str]) -> Iterator[str]:
    """Yield a docstring's arguments, answer and errors, one line each."""
    sections = _sections(doc)
    yield from (
        f"{mark[0]}{name}{mark[1]}: {said}"
        for name, said in sections["Args"] + sections["Attributes"]
    )
    for _, said in sections["Returns"]:
        yield (
            "returns "
            f"{said if said.startswith(('True', 'False', 'None')) else said[0].lower() + said[1:]}"
        )
    yield from (f"raises {mark[0]}{name}{mark[1]}: {said}" for name, said in sections["Raises"])


def python_page() -> str:
    """Return the page of Python: each public name with its signature and its docstring.

    Raises:
        ValueError: the groups and the public names differ.
    """
    named = [name for names in GROUPS.values() for name in names]
    if sorted(named) != sorted(kagent_memory.__all__):
        raise ValueError(f"Not in both: {set(named) ^ set(kagent_memory.__all__)}")
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
    # in the order of the base class, each as overridden here
    owners = {name: base for base in ours for name in vars(base)}
    members = [(base, name, vars(base)[name]) for name, base in owners.items()]
    between: list[str] = []
    for base, name, member in sorted(
        members, key=lambda member: not isinstance(member[2], classmethod)
    ):
        made = isinstance(member, classmethod | staticmethod)
        function = member.__func__ if made else member
        if inspect.isfunction(function) and not name.startswith("_") and name not in INTERNAL:
            yield from between
            between = [""]
            yield from textwrap.wrap(
                _promise(function), WIDTH, initial_indent="# ", subsequent_indent="# "
            )
            yield from (
                wrapped
                for line in _details(inspect.getdoc(function) or "", ("", ""))
                for wrapped in textwrap.wrap(
                    line, WIDTH, initial_indent="#   ", subsequent_indent="#     "
                )
            )
            prefix = "async def " if inspect.iscoroutinefunction(function) else "def "
            yield prefix + _signature(name, getattr(base, name) if made else function)


class _Written:
    """An annotation or default, shown as it is written in the code."""

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
    signature = inspect.signature(value)
    empty = inspect.Parameter.empty
    plain = [
        parameter.replace(
            annotation=empty if parameter.annotation is empty else _Written(parameter.annotation),
            default=_default(parameter.default),
        )
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    result = (
        empty
        if signature.return_annotation in (empty, None, "None")
        else _Written(signature.return_annotation)
    )
    text = name + str(inspect.Signature(plain, return_annotation=result)).replace("<factory>", "…")
    return text if len(text) <= WIDTH else _folded(name, plain, result)


def _folded(name: str, parameters: list[inspect.Parameter], result: object) -> str:
    lines, kind = [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for parameter in parameters:
        if (
            parameter.kind is inspect.Parameter.KEYWORD_ONLY
            and kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ):
            lines.append("    *,")
        kind = parameter.kind
        lines.append(f"    {parameter},".replace("<factory>", "…"))
    end = "" if result is inspect.Parameter.empty else f" -> {result!r}"
    return "\n".join([f"{name}(", *lines, f"){end}"])


def openapi() -> str:
    """Return the OpenAPI description that a server answers at `/openapi.json`."""

    async def never_opened() -> Memories:
        raise NotImplementedError

    return json.dumps(create_app(never_opened).openapi(), indent=1, ensure_ascii=False) + "\n"


SITE_PAGES = {"python.md": python_page, "cli.md": cli_page, "openapi.json": openapi}


if __name__ == "__main__":
    SETTINGS_PAGE.write_text(settings_page(), encoding="utf-8")
