"""`kagent-memory`: memories on the command line. Exit codes tell families of errors apart."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import current_thread, main_thread


@contextmanager
def dying_of_ctrl_c() -> Generator[None]:
    """Let Ctrl-C end the program at once, without a stack trace, while the block runs."""
    former = signal.getsignal(signal.SIGINT)
    if former is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


with dying_of_ctrl_c():
    import argparse
    import asyncio
    import logging
    from collections.abc import Sequence
    from contextlib import nullcontext, suppress
    from difflib import get_close_matches
    from typing import Any, NoReturn

    from typing_extensions import override

    from .. import __version__
    from ..concurrency import new_loop
    from ..errors import InvalidInput, KagentMemoryError, family_of
    from . import maintenance_commands, memory_commands, serve
    from .command import EXIT_CODES, Call, Command
    from .completion import SHELLS
    from .output import (
        Output,
        UnwritableOutput,
        discard_stdout,
        prepare_streams,
        set_up_logging,
    )

COMMANDS: tuple[Command, ...] = (
    *serve.COMMANDS,
    *memory_commands.COMMANDS,
    *maintenance_commands.COMMANDS,
)
GROUPS = {
    "token": ("Tokens of the server.", serve.token_list),
}
"""Commands of several words: what they are about, and what the first word alone does."""
UNWRITABLE = 8


class JsonParser(argparse.ArgumentParser):
    """A parser that answers a usage error with a JSON document."""

    @override
    def error(self, message: str) -> NoReturn:
        self.exit(_fail(InvalidInput(f"{self.prog}: {message}"), Output(as_json=True)))


def parser(
    kind: type[argparse.ArgumentParser] = argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    codes = "\n".join(f"  {code:>3}  {text}" for code, text in EXIT_CODES.items())
    root = kind(
        prog="kagent-memory",
        description="Long-term memory for agents: serve it, look into it, keep it.",
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"kagent-memory {__version__}")
    root.add_argument(
        "--completion",
        choices=tuple(SHELLS),
        help="print a script that completes commands, and end",
    )
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    groups: dict[str, Any] = {}
    for name, (text, alone) in GROUPS.items():
        group = commands.add_parser(
            name, help=text, description=f"{text} Alone: {alone.name.split()[1]}."
        )
        _add_options(group, alone)
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
    for one in command.all_options:
        made.add_argument(one.word, help=one.help.replace("%", "%%"), **one.more)
    made.set_defaults(command=command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; a user's mistake is one line, never a stack trace."""
    words = sys.argv[1:] if argv is None else argv
    prepare_streams()
    # our own errors say why it cannot connect
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
    except BrokenPipeError:  # the reader went away (`| head`)
        discard_stdout()
        return 0
    except UnwritableOutput as error:
        discard_stdout()
        say.note(f"kagent-memory: {error}")
        return UNWRITABLE


def _run(words: Sequence[str], say: Output) -> int:
    if len(words) == 2 and words[0] == "--completion" and words[1] in SHELLS:
        say.line(SHELLS[words[1]](COMMANDS))
        return 0
    names = {command.name.partition(" ")[0] for command in COMMANDS}
    if words and not words[0].startswith("-") and words[0] not in names:
        # argparse would list all of them
        close = get_close_matches(words[0], names, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        wrong = f"There is no command {words[0]!r}.{hint} See kagent-memory --help."
        return _fail(InvalidInput(wrong), say)
    args = parser(JsonParser if say.as_json else argparse.ArgumentParser).parse_args(words)
    if "log_format" in args:  # before anything can fail: a failure is a line of the log too
        level = logging.WARNING if getattr(args, "mcp", False) else logging.INFO
        say = set_up_logging(args.log_format, say, level=level)
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_perform(args, say))
    except KagentMemoryError as error:
        return _fail(error, say)


async def _perform(args: argparse.Namespace, say: Output) -> int:
    """Run a command; SIGTERM ends it as Ctrl-C does, so that what it opened is closed, such as a
    private PostgreSQL.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows; not the main thread
        if task is not None:
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
    command: Command = args.command
    call = Call(args, say)
    async with call.opened(here=command.here) if command.opens else nullcontext():
        answer = await command.run(call)
    if answer is None:
        return 0
    say.answer(answer)
    return answer.code


def _fail(error: KagentMemoryError, say: Output) -> int:
    family = family_of(error)
    say.error(str(error) or type(error).__name__, family=family.name, exit_code=family.exit_code)
    return family.exit_code
