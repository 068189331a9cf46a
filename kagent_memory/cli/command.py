"""What a command is, and what commands share: the store's options, the scope, exit codes."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, InvalidInput, KagentMemoryError, NotFound, family_of
from ..records import Scope
from ..settings import MemorySettings, compose
from .output import Output

if TYPE_CHECKING:
    from ..memories import Memories, OpenedMemories
    from ..models.llm import Llm

ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
LOOK_UP_SECONDS = 0.5

FOUND_PROBLEMS = 1
SOME = 100
EXIT_CODES: Mapping[int, str] = {
    0: "done",
    1: "the doctor found something that does not work, or an audit found a defect",
    2: "the command or its input does not fit",
    3: "no such memory, job, token, agent or user",
    4: "somebody else changed it first, or it cannot be undone",
    5: "a setting, URI, extra or extension does not fit",
    6: "the database or server is unavailable",
    7: "the model or embedder is unavailable",
    8: "the answer could not be written",
    130: "interrupted",
    143: "ended by SIGTERM",
}


def exit_code(error: KagentMemoryError) -> int:
    """The exit code of an error."""
    return family_of(error).exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One argument, as argparse takes it; `words` are its names."""

    words: tuple[str, ...]
    help: str
    more: Mapping[str, Any]


def option(*words: str, help: str, **more: Any) -> Option:
    """An argument of a command."""
    return Option(words=words, help=help, more=more)


def between(least: int, most: int) -> Callable[[str], int]:
    """What argparse makes a whole number with; another one is a usage error."""

    def whole(text: str) -> int:
        if not text.removeprefix("-").isdecimal() or not least <= (number := int(text[:20])) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least:,} to {most:,}")
        return number

    return whole


def stopping() -> asyncio.Event:
    """An event that the signals set by which a process is told to end."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    if not sys.platform.startswith("win"):
        for number in ENDING_SIGNALS:
            loop.add_signal_handler(number, stop.set)
        return stop

    def stopped(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(stop.set)

    for number in ENDING_SIGNALS:  # loops there know no signals
        signal.signal(number, stopped)
    _look_up(loop, stop)
    return stop


def _look_up(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Wakes the loop now and then: a signal does not on Windows, and is handled when it wakes."""
    if not stop.is_set():
        loop.call_later(LOOK_UP_SECONDS, _look_up, loop, stop)


Run = Callable[[argparse.Namespace, Output], Coroutine[Any, Any, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command.

    Attributes:
        name: one word, or two for a command of a group ("token list").
        uses_store: takes the options that choose a store.
        makes: the database, where there is none; others refuse, since its name is most likely a typo.
    """

    name: str
    help: str
    examples: Sequence[str]
    options: Sequence[Option] = ()
    run: Run
    uses_store: bool = True
    makes: bool = False


STORE_OPTIONS = (
    option(
        "--uri",
        help="which store: libsql:///file.db, libsql://host, postgresql://…, pgserver:///dir, or http://… of a server "
        "(default: KAGENT_MEMORY_URI, MEMORY_BACKEND with DATABASE_URL, else libsql:///kagent_memory.db)",
    ),
    option("--embedding", help="the embedder, such as ollama/nomic-embed-text, or its configuration in JSON"),
    option("--llm", help="the model that extracts facts, such as gemini/gemini-2.5-flash"),
    option("--tenant", help="the tenant of the memories"),
    option("--set", help="any other setting, as NAME=VALUE; may be repeated", action="append", metavar="NAME=VALUE"),
)
JSON_OPTION = option("--json", help="answer with one JSON document", action="store_true")
SCOPE_OPTIONS = (
    option("--app", help="the agent's app name; may be left out when only one fits"),
    option("--user", help="the user; may be left out when only one fits"),
)
BESIDE = option(
    "--beside",
    help="also in the memories of this agent and user, ranked together; may be repeated",
    nargs=2,
    metavar=("APP", "USER"),
    action="append",
)
ID = option("id", help="the memory's id")
LIMIT = option("--limit", help="how many at most, up to 1,000", type=between(1, 1000), default=20)
DRY_RUN = option("--dry-run", help="only say what would be done", action="store_true")


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line gives.

    Raises:
        ConfigurationError: --set has no NAME=VALUE, or the name is unknown.
    """
    given: dict[str, Any] = {}
    for pair in args.set or ():
        name, equals, value = pair.partition("=")
        if not equals or name not in {field.name for field in fields(MemorySettings)}:
            raise ConfigurationError(f"--set takes NAME=VALUE with a known setting, not {pair!r}.")
        given[name] = value
    for name in ("embedding", "llm", "tenant", "rls"):
        if (value := getattr(args, name, None)) is not None:
            given[name] = value
    return given


@asynccontextmanager
async def opened(
    args: argparse.Namespace, *, works: bool = False, makes: bool | None = None
) -> AsyncGenerator[OpenedMemories]:
    """Open the memories that the command line chooses.

    Args:
        args: the command line.
        works: with the background work that a service has.
        makes: the database, where there is none; None: as the command does.

    Raises:
        ConfigurationError: there are none, and the command does not create any.
    """
    from ..remote import is_remote, open_memories

    settings = settings_of(args)
    if not is_remote(args.uri):
        if not (args.command.makes if makes is None else makes):
            await _check_there(args.uri, settings)
        settings["worker"] = settings.get("worker", True) if works else False

    def resolve(name: str) -> Llm | None:
        from ..adk.adk_llm import resolve_llm  # imports ADK, which only the jobs of its agents need

        return resolve_llm(name, MemorySettings().updated({n: v for n, v in settings.items() if n != "worker"}))

    async with await open_memories(args.uri, resolve_llm=resolve, **settings) as memories:
        yield memories


async def _check_there(uri: str | None, settings: Mapping[str, Any]) -> None:
    from ..memories import without_secrets
    from ..stores import store_exists

    bare, chosen = compose(uri, None, settings, os.environ)
    if await store_exists(bare, schema=chosen.postgres_schema):
        return
    schema = f" (schema {chosen.postgres_schema})" if bare.removeprefix("kagent+").startswith("postgres") else ""
    raise ConfigurationError(
        f"There are no memories at {without_secrets(bare)}{schema}, and this command does not create any. Correct "
        "--uri or KAGENT_MEMORY_URI; for a new database run `kagent-memory migrate`."
    )


@asynccontextmanager
async def opened_here(
    args: argparse.Namespace, *, works: bool = False, makes: bool | None = None
) -> AsyncGenerator[Memories]:
    """`opened`, for what only the database's own side can do.

    Raises:
        ConfigurationError: the URI names a server.
    """
    from ..memories import Memories

    async with opened(args, works=works, makes=makes) as memories:
        if not isinstance(memories, Memories):
            raise ConfigurationError("This command works on the database itself; pass its URI instead of the server's.")
        yield memories


def beside(args: argparse.Namespace, memories: OpenedMemories) -> list[Scope]:
    """The scopes that --beside names, of the same tenant."""
    tenant: str = memories.settings.tenant if args.tenant is None else args.tenant
    return [Scope(tenant, user, app) for app, user in args.beside or ()]


async def scope_of(args: argparse.Namespace, memories: OpenedMemories, *, new: bool = False) -> Scope:
    """The scope that --app, --user and --tenant choose; what is left out is found when only one scope fits.

    Raises:
        NotFound: none fits, or several do.
        InvalidInput: one is given and empty.
    """
    if "" in (args.app, args.user):  # most likely a variable of the shell that holds nothing
        raise InvalidInput("--app and --user must not be empty; leave them out, or name one.")
    tenant: str = memories.settings.tenant if args.tenant is None else args.tenant
    if args.app is not None and args.user is not None:
        return Scope(tenant, args.user, args.app)
    fitting = await memories.scopes(tenant=tenant or None, user=args.user, app=args.app, limit=SOME)
    if len(fitting) == 1:
        return fitting[0]
    if not fitting or new:
        raise NotFound("Name the agent and the user with --app and --user; there is nothing to choose from.")
    some = "; ".join(f"--app {scope.app} --user {scope.user}" for scope in fitting[:5])
    many = "Many" if len(fitting) == SOME else str(len(fitting))
    raise NotFound(f"{many} agents and users match; name one with --app and --user, such as {some}.")
