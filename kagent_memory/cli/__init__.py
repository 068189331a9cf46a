"""`kagent-memory`: memories on the command line. Exit codes tell families of errors apart."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from ..concurrency import new_loop
from ..errors import KagentMemoryError
from . import maintenance_commands as upkeep
from . import memory_commands as remembering
from . import serve as running
from .command import EXIT_CODES, JSON_OPTION, STORE_OPTIONS, Command, exit_code
from .output import Output, any_text, printable

COMMANDS: tuple[Command, ...] = (*running.COMMANDS, *remembering.COMMANDS, *upkeep.COMMANDS)
GROUPS = {"token": "Tokens of the server.", "jobs": "The queue and its dead letters."}


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    codes = "\n".join(f"  {code:>3}  {text}" for code, text in EXIT_CODES.items())
    root = argparse.ArgumentParser(
        prog="kagent-memory",
        description="Long-term memory for agents: serve it, look into it, keep it.",
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    groups = {name: _group(commands, name) for name in GROUPS}
    for command in COMMANDS:
        group, _, name = command.name.rpartition(" ")
        _added(groups.get(group, commands), name, command)
    return root


def _group(commands: Any, name: str) -> Any:
    made = commands.add_parser(name, help=GROUPS[name], description=f"{GROUPS[name]} Alone: list them.")
    _filled(made, next(command for command in COMMANDS if command.name == f"{name} list"))
    return made.add_subparsers(metavar="WHAT")


def _added(place: Any, name: str, command: Command) -> None:
    examples = "\n".join(f"  {example}" for example in command.examples)
    made = place.add_parser(
        name,
        help=command.help,
        description=command.help,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _filled(made, command)


def _filled(made: argparse.ArgumentParser, command: Command) -> None:
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
    any_text()
    args = parser().parse_args(argv)
    command: Command = args.command
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_ended_by_signals(command.run(args, Output(args.json))))
    except KagentMemoryError as error:
        sys.stderr.write(f"kagent-memory: {printable(str(error) or type(error).__name__)}\n")
        return exit_code(error)
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:
        return 143
    except BrokenPipeError:
        # the reader went away (`| head`); what is left unwritten is nobody's loss
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
