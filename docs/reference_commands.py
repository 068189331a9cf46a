"""Write the site's page of the command line from the commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from kagent_memory.cli import COMMANDS
from kagent_memory.cli.command import EXIT_CODES, JSON_OPTION, STORE_OPTIONS

HEAD = """# Command line

Run `kagent-memory COMMAND …` or `python -m kagent_memory COMMAND …`. `kagent-memory --version`
prints the version. `eval "$(_KAGENT_MEMORY_COMPLETE=bash_source kagent-memory)"` in `~/.bashrc`
completes its words; for other shells it is `zsh_source` and `fish_source`.
"""


def cli_page() -> str:
    """Return the page: the options that commands share, the exit codes, and every command."""
    lines = [
        HEAD,
        "## Common options\n",
        "Every command takes these:\n",
        *_table((*STORE_OPTIONS, JSON_OPTION)),
        (
            "[Settings](settings.md) on the command line override those in the URI's query, and "
            "these override `KAGENT_MEMORY_*` in the environment.\n"
        ),
        "## Exit codes\n",
        "| code | meaning |\n|---|---|",
        *(f"| {code} | {text} |" for code, text in EXIT_CODES.items()),
        "\nAn error is one line on standard error. With `--json` it is a document on standard "
        'output: `{"error": {"family": "not-found", "message": "…", "exit_code": 3}}`. The '
        "families are [those of `/api/v1`](../how-to/server.md#errors).",
    ]
    for command in COMMANDS:
        examples = [f"$ {example}" for example in command.examples]
        lines += [f"\n## {command.title}\n", f"{command.help}\n", "```console", *examples, "```\n"]
        if command.options:
            lines += _table(command.options)
    return "\n".join(lines).rstrip() + "\n"


def _table(options: Sequence[click.Parameter]) -> Iterator[str]:
    yield "| option | meaning |\n|---|---|"
    for option in options:
        choices = option.type.choices if isinstance(option.type, click.Choice) else ()
        meaning = str(option.help).replace("|", "\\|")
        meaning += f" ({', '.join(choices)})" if choices else ""
        default = option.to_info_dict()["default"]
        meaning += f"; default {default}" if default not in (None, "", False) else ""
        yield f"| `{option.opts[0]}` | {meaning} |"
    yield ""
