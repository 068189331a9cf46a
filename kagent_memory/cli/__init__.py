"""`kagent-memory`: memories on the command line. Exit codes tell families of errors apart."""

from __future__ import annotations

import sys

from .interrupts import interrupts_held

with interrupts_held():
    import argparse
    import asyncio
    import logging
    import signal
    from collections.abc import Coroutine, Sequence
    from contextlib import suppress
    from typing import Any, NoReturn

    from typing_extensions import override

    from .. import __version__
    from ..concurrency import new_loop
    from ..errors import InvalidInput, KagentMemoryError, family_of
    from . import maintenance_commands, memory_commands, serve, transfer_commands
    from .command import EXIT_CODES, JSON_OPTION, STORE_OPTIONS, Command
    from .logs import logged
    from .output import Output, UnwritableOutput, discard_stdout, prepare_streams

COMMANDS: tuple[Command, ...] = (
    *serve.COMMANDS,
    *memory_commands.COMMANDS,
    *maintenance_commands.COMMANDS,
    *transfer_commands.COMMANDS,
)
GROUPS = {
    "token": ("Tokens of the server.", "list"),
}
"""Commands of several words: what they are about, and the second word that may be left out."""
UNWRITABLE = 8


class JsonParser(argparse.ArgumentParser):
    """A parser that answers a usage error with a JSON document."""

    @override
    def error(self, message: str) -> NoReturn:
        family = family_of(InvalidInput())
        Output(as_json=True).error(f"{self.prog}: {message}", family=family.name, exit_code=family.exit_code)
        self.exit(family.exit_code)


def parser(kind: type[argparse.ArgumentParser] = argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The whole command line."""
    codes = "\n".join(f"  {code:>3}  {text}" for code, text in EXIT_CODES.items())
    root = kind(
        prog="kagent-memory",
        description="Long-term memory for agents: serve it, look into it, keep it.",
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"kagent-memory {__version__}")
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    groups: dict[str, Any] = {}
    for name, (text, alone) in GROUPS.items():
        group = commands.add_parser(name, help=text, description=f"{text} Alone: {alone}.")
        _add_options(group, next(command for command in COMMANDS if command.name == f"{name} {alone}"))
        groups[name] = group.add_subparsers(metavar="WHAT")
    for command in COMMANDS:
        examples = "\n".join(f"  {example}" for example in command.examples)
        group, _, name = command.name.rpartition(" ")
        made = groups.get(group, commands).add_parser(
            name,
            help=command.help,
            description=command.help,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add_options(made, command)
    return root


def _add_options(made: argparse.ArgumentParser, command: Command) -> None:
    for one in (*command.options, *(STORE_OPTIONS if command.uses_store else ()), JSON_OPTION):
        made.add_argument(*one.words, help=one.help.replace("%", "%%"), **one.more)
    made.set_defaults(command=command)


async def _ended_by_signals(run: Coroutine[Any, Any, int]) -> int:
    """Lets SIGTERM end a command as Ctrl-C does: what it opened is closed, such as a private PostgreSQL."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows; not the main thread
        if task is not None:
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
    return await run


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code; a user's mistake is one line, never a stack trace."""
    words = sys.argv[1:] if argv is None else argv
    prepare_streams()
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # our own errors say why it cannot connect
    say = Output(as_json="--json" in words)
    try:
        try:
            return _run(words, say)
        finally:
            say.flush()
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:
        return 143
    except BrokenPipeError:  # the reader went away (`| head`); what is left unwritten is nobody's loss
        discard_stdout()
        return 0
    except UnwritableOutput as error:
        discard_stdout()
        say.note(f"kagent-memory: {error}")
        return UNWRITABLE


def _run(words: Sequence[str], say: Output) -> int:
    args = parser(JsonParser if say.as_json else argparse.ArgumentParser).parse_args(words)
    command: Command = args.command
    if getattr(args, "log_format", "text") == "json":  # before anything can fail: a failure is a line of JSON too
        say = logged("json", say, level=logging.WARNING if getattr(args, "mcp", False) else logging.INFO)
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_ended_by_signals(command.run(args, say)))
    except KagentMemoryError as error:
        family = family_of(error)
        say.error(str(error) or type(error).__name__, family=family.name, exit_code=family.exit_code)
        return family.exit_code
