"""The command line `kagent-memory`, with an exit code for each family of errors."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext

import click
from click.shell_completion import shell_complete

from .. import __version__
from ..errors import InvalidInput, KagentMemoryError
from . import maintenance_commands, memory_commands, serve
from .command import AS_IT_STANDS, ENDING, EXIT_CODES, Call, Command, end_at
from .output import (
    Output,
    UnwritableOutput,
    discard_stdout,
    prepare_streams,
    set_up_logging,
    writing,
)

COMMANDS = [
    command
    for module in (serve, memory_commands, maintenance_commands)
    for command in vars(module).values()
    if isinstance(command, Command)
]
PROGRAM = "kagent-memory"
COMPLETE = "_KAGENT_MEMORY_COMPLETE"  # set by the completion scripts of shells
UNWRITABLE = 8


def _parser() -> click.Group:
    codes = "\n".join(f"  {code:>3}  {text}" for code, text in EXIT_CODES.items())
    tokens = click.Group("token", help="Tokens of the server.", no_args_is_help=False)
    root = click.Group(
        PROGRAM,
        help="Long-term memory for agents: serve it, look into it, keep it.",
        epilog=f"{AS_IT_STANDS}Exit codes:\n{codes}",
        no_args_is_help=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            "show_default": True,
        },
    )
    for command in COMMANDS:
        if command.title.startswith("token "):
            root.add_command(tokens)
            tokens.add_command(command)
        else:
            root.add_command(command)
    version = click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
    return version(root)


PARSER = _parser()


def parse(words: Sequence[str]) -> Call | int:
    """Parse the command line into a call, or into an exit code after printing help.

    Raises:
        ClickException: the command line is wrong.
        BrokenPipeError: the reader of the help has gone.
        UnwritableOutput: the help cannot be written.
    """
    # not click's own main, which exits with 1 when the reader of a help has gone
    with writing():
        if asked := os.environ.get(COMPLETE):
            return shell_complete(PARSER, {}, PROGRAM, COMPLETE, asked)
        try:
            with PARSER.make_context(PROGRAM, [*words]) as context:
                return PARSER.invoke(context)
        except click.exceptions.Exit as end:
            return end.exit_code


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; report a user's mistake in one line."""
    words = sys.argv[1:] if argv is None else argv
    prepare_streams()
    # our own errors say why the connection failed
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
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
    except BrokenPipeError:  # the reader has gone (`| head`)
        discard_stdout()
        return 0
    except UnwritableOutput as error:
        discard_stdout()
        say.note(f"kagent-memory: {error}")
        return UNWRITABLE


def _run(words: Sequence[str], say: Output) -> int:
    try:
        call = parse(words)
        if isinstance(call, int):
            return call
        if log_format := getattr(call.args, "log_format", None):
            # first, so that every failure is logged in the right format
            level = logging.WARNING if call.command.title == "mcp" else logging.INFO
            say = set_up_logging(log_format, say, level=level)
        call.say = say
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            return runner.run(perform_call(call))
    except click.ClickException as error:
        return _fail(InvalidInput(error.format_message()), say)
    except KagentMemoryError as error:
        return _fail(error, say)


async def perform_call(call: Call) -> int:
    """Run a command; signals end it like Ctrl-C, so that it closes what it opened."""
    end_at(*(number for number in ENDING if number != signal.SIGINT))
    command = call.command
    async with call.opened(here=command.here) if command.opens else nullcontext():
        answer = await command.run(call)
    if answer is None:
        return 0
    if getattr(call.args, "dry_run", False):
        call.say.note("A dry run: this would be done, and nothing was.")
    call.say.answer(answer)
    return answer.code


def _fail(error: KagentMemoryError, say: Output) -> int:
    family = error.family
    say.error(str(error) or type(error).__name__, family=family.name, exit_code=family.exit_code)
    return family.exit_code
