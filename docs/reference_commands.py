"""The site's page of the command line, written from the commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kagent_memory.cli import COMMANDS
from kagent_memory.cli.command import EXIT_CODES, JSON_OPTION, STORE_OPTIONS, Option

HEAD = """# The command line

`kagent-memory COMMAND …`, or `python -m kagent_memory COMMAND …`; `kagent-memory --version` names the version. This
page is written from the commands.
"""


def cli_page() -> str:
    """Return the page: the options that commands share, the exit codes, and every command."""
    lines = [
        HEAD,
        "## Options of every command that uses a store\n",
        *_table((*STORE_OPTIONS, JSON_OPTION)),
        "Settings come from the command line, then the URI's query, then `KAGENT_MEMORY_*` in the environment.\n",
        "## Exit codes\n",
        "| code | meaning |\n|---|---|",
        *(f"| {code} | {text} |" for code, text in EXIT_CODES.items()),
        "\nAn error is one line on the error stream. With `--json` it is the document on standard output: "
        '`{"error": {"family": "not-found", "message": "…", "exit_code": 3}}`. The families are those of `/api/v1`.',
    ]
    for command in COMMANDS:
        examples = [f"$ {example}" for example in command.examples]
        lines += [f"\n## {command.name}\n", f"{command.help}\n", "```console", *examples, "```\n"]
        if not command.uses_store:
            lines.append("Takes none of the store's options.\n")
        if command.options:
            lines += _table(command.options)
    return "\n".join(lines).rstrip() + "\n"


def _table(options: Sequence[Option]) -> Iterator[str]:
    yield "| option | meaning |\n|---|---|"
    for one in options:
        choices = one.more.get("choices")
        default = one.more.get("default")
        named = " ".join(f"`{word}`" for word in one.words)
        said = one.help.replace("|", "\\|")
        said += f" ({', '.join(choices)})" if choices else ""
        said += f"; default {default}" if default not in (None, "") else ""
        yield f"| {named} | {said} |"
    yield ""
