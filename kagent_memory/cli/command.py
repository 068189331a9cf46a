"""What a command is, and what commands share: options, the store, the scope, exit codes."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ConfigurationError, InvalidInput, NotFound, needs_extra
from ..records import Filter, Scope
from ..settings import MemorySettings, compose
from .output import Answer, Output

if TYPE_CHECKING:
    from ..memories import Memories
    from ..models.llm import Llm

LOOK_UP_SECONDS = 0.5
ID_LENGTH = 36
TELL_EVERY = 1000  # memories
MAX_LOOKED_THROUGH = 20_000  # memories, for an id that is given by its beginning
MAX_SCOPES = 100  # to choose from
PAGE = 1000
WHO = "command line"

FOUND_PROBLEMS = 1
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One argument, as argparse takes it; `words` are its names."""

    words: tuple[str, ...]
    help: str
    more: Mapping[str, Any]


def option(*words: str, help: str, **more: Any) -> Option:
    """Return an argument of a command."""
    return Option(words=words, help=help, more=more)


def flag(word: str, help: str) -> Option:
    """Return an option without a value."""
    return option(word, help=help, action="store_true")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a type of argparse: whole numbers within these limits."""

    def number(text: str) -> int:
        if text.removeprefix("-").isdecimal() and least <= (value := int(text[:20])) <= most:
            return value
        raise argparse.ArgumentTypeError(f"must be a whole number from {least:,} to {most:,}")

    return number


Run: TypeAlias = Callable[[argparse.Namespace, Output], Awaitable["Answer | None"]]
Work: TypeAlias = "Callable[[Memories, argparse.Namespace, Output], Awaitable[Answer | None]]"
WorkOnMemory: TypeAlias = "Callable[[Memories, Scope, str, argparse.Namespace], Awaitable[Answer]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command.

    Attributes:
        name: one word, or two for a command of a group ("token list").
        uses_store: takes the options that choose a store.
        makes: the database, where there is none; others refuse, since its name is most likely a
            typo.
    """

    name: str
    help: str
    examples: Sequence[str]
    options: Sequence[Option]
    run: Run
    uses_store: bool = True
    makes: bool = False

    @property
    def all_options(self) -> Sequence[Option]:
        """Its own options and those that it shares with others."""
        return (*self.options, *(STORE_OPTIONS if self.uses_store else ()), JSON_OPTION)


def command(
    name: str, help: str, *options: Option, examples: Sequence[str], **more: bool
) -> Callable[[Run], Command]:
    """Make a function a command; it opens what it needs by itself."""

    def declare(run: Run) -> Command:
        return Command(name=name, help=help, examples=examples, options=options, run=run, **more)

    return declare


def on_store(
    name: str,
    help: str,
    *options: Option,
    examples: Sequence[str],
    makes: bool = False,
    here: bool = False,
) -> Callable[[Work], Command]:
    """Make a function of open memories a command; `here`: not of a server's."""

    def declare(work: Work) -> Command:
        async def run(args: argparse.Namespace, say: Output) -> Answer | None:
            async with opened(args, here=here) as memories:
                return await work(memories, args, say)

        return command(name, help, *options, examples=examples, makes=makes)(run)

    return declare


def on_memory(
    name: str, help: str, *options: Option, examples: Sequence[str]
) -> Callable[[WorkOnMemory], Command]:
    """Make a function of one memory, which the command line names, a command."""

    def declare(work: WorkOnMemory) -> Command:
        async def run(memories: Memories, args: argparse.Namespace, say: Output) -> Answer | None:
            scope = await scope_of(args, memories)
            return await work(memories, scope, await memory_id(memories, scope, args.id), args)

        return on_store(name, help, ID, *SCOPE_OPTIONS, *options, examples=examples)(run)

    return declare


STORE_OPTIONS = (
    option(
        "--uri",
        help="which store: libsql:///file.db, libsql://host, postgresql://…, pgserver:///dir, "
        "or http://… of a server "
        "(default: KAGENT_MEMORY_URI, MEMORY_BACKEND with DATABASE_URL, else libsql:///memory.db)",
    ),
    option(
        "--embedding",
        help="the embedder, such as ollama/nomic-embed-text, or its configuration in JSON",
    ),
    option("--llm", help="the model that extracts facts, such as gemini/gemini-2.5-flash"),
    option("--tenant", help="the tenant of the memories"),
    option(
        "--set",
        help="any other setting, as NAME=VALUE; may be repeated",
        action="append",
        metavar="NAME=VALUE",
    ),
)
JSON_OPTION = flag("--json", "answer with one JSON document")
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
ID = option("id", help="the memory's id, or how it begins")
LIMIT = option(
    "--limit", help="how many at most, up to 1,000", type=whole_number(1, 1000), default=20
)
PORTS = whole_number(0, 65_535)
DRY_RUN = flag("--dry-run", "only say what would be done")


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return those of these options that the command line gives, by name."""
    return {name: value for name in names if (value := getattr(args, name, None)) is not None}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence that names what is close to a mistyped word, or nothing."""
    close = get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


@contextmanager
def needs(extra: str, what: str) -> Generator[None]:
    """Name the extra that is missing where an import in the block fails.

    Raises:
        ConfigurationError: it failed.
    """
    try:
        yield
    except ImportError as error:
        raise needs_extra(what, extra, error) from error


def bind(args: argparse.Namespace) -> socket.socket:
    """Return a socket bound to --host and --port.

    Raises:
        ConfigurationError: it cannot be bound.
    """
    from ..server.serving import bound_socket

    try:
        return bound_socket(args.host, args.port)
    except OSError as error:
        raise ConfigurationError(
            f"{args.host}:{args.port} cannot be bound ({error.strerror}); choose another --host "
            "or --port."
        ) from error


def stop_event() -> asyncio.Event:
    """Return an event that the signals set by which a process is told to end."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def look_up() -> None:  # on Windows a signal wakes no loop
        if not stop.is_set():
            loop.call_later(LOOK_UP_SECONDS, look_up)

    def stopped(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(stop.set)

    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if (number := getattr(signal, name, None)) is None:
            continue
        if sys.platform.startswith("win"):
            signal.signal(number, stopped)
            look_up()
        else:
            loop.add_signal_handler(number, stop.set)
    return stop


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the command line gives.

    Raises:
        ConfigurationError: --set has no NAME=VALUE, or the name is unknown.
    """
    settings: dict[str, Any] = {}
    known = [field.name for field in fields(MemorySettings)]
    for pair in args.set or ():
        name, equals, value = pair.partition("=")
        if not equals or name not in known:
            close = "" if name in known else did_you_mean(name, known)
            raise ConfigurationError(
                f"--set takes NAME=VALUE with a known setting, not {pair!r}.{close}"
            )
        settings[name] = value
    return settings | given(args, "embedding", "llm", "tenant", "rls")


@asynccontextmanager
async def opened(
    args: argparse.Namespace, *, here: bool = False, works: bool = False, makes: bool | None = None
) -> AsyncGenerator[Memories]:
    """Open the memories that the command line chooses.

    Args:
        args: the command line.
        here: the database itself, not a server.
        works: with the background work that a service has.
        makes: the database, where there is none; None: as the command does.

    Raises:
        ConfigurationError: there are none and the command does not create any, or they are a
            server's.
    """
    from ..remote import is_remote, open_memories

    settings = settings_of(args)
    if is_remote(args.uri):
        if here:
            raise ConfigurationError(
                "This command works on the database itself; pass its URI instead of the server's."
            )
    else:
        if not (args.command.makes if makes is None else makes):
            await _check_there(args.uri, settings)
        settings["worker"] = settings.get("worker", True) if works else False

    def resolve(name: str) -> Llm | None:
        from ..adk.adk_llm import resolve_llm  # imports ADK, which only the jobs of its agents need

        return resolve_llm(
            name, MemorySettings().updated({n: v for n, v in settings.items() if n != "worker"})
        )

    async with await open_memories(args.uri, resolve_llm=resolve, **settings) as memories:
        yield memories


def store_of(uri: str | None, options: Mapping[str, Any]) -> tuple[str, MemorySettings, str]:
    """Return a store's URI, its settings, and its URI for people."""
    from ..memories import without_secrets

    bare, settings = compose(uri, None, options, os.environ)
    return bare, settings, without_secrets(bare)


async def _check_there(uri: str | None, options: Mapping[str, Any]) -> None:
    from ..stores import store_exists

    bare, settings, location = store_of(uri, options)
    if await store_exists(bare, schema=settings.postgres_schema):
        return
    is_postgres = bare.removeprefix("kagent+").startswith("postgres")
    schema = f" (schema {settings.postgres_schema})" if is_postgres else ""
    raise ConfigurationError(
        f"There are no memories at {location}{schema}, and this command does not create any. "
        "Correct --uri or KAGENT_MEMORY_URI; for a new database run `kagent-memory migrate`."
    )


def tenant_of(args: argparse.Namespace, memories: Memories) -> str:
    """Return the tenant that the command line or the settings name."""
    return memories.settings.tenant if args.tenant is None else args.tenant


def beside(args: argparse.Namespace, memories: Memories) -> list[Scope]:
    """Return the scopes that --beside names, of the same tenant."""
    return [Scope(tenant_of(args, memories), user, app) for app, user in args.beside or ()]


async def scope_of(args: argparse.Namespace, memories: Memories, *, new: bool = False) -> Scope:
    """Return the scope that --app, --user and --tenant choose; what is left out is found when only
    one scope fits.

    Raises:
        NotFound: none fits, or several do.
        InvalidInput: one is given and empty.
    """
    if "" in (args.app, args.user):  # most likely a variable of the shell that holds nothing
        raise InvalidInput("--app and --user must not be empty; leave them out, or name one.")
    tenant = tenant_of(args, memories)
    if args.app is not None and args.user is not None:
        return Scope(tenant, args.user, args.app)
    fitting = await memories.scopes(
        tenant=tenant or None, user=args.user, app=args.app, limit=MAX_SCOPES
    )
    if len(fitting) == 1:
        return fitting[0]
    if not fitting or new:
        raise NotFound(
            "Name the agent and the user with --app and --user; there is nothing to choose from."
        )
    some = "; ".join(f"--app {scope.app} --user {scope.user}" for scope in fitting[:5])
    many = "Many" if len(fitting) == MAX_SCOPES else str(len(fitting))
    raise NotFound(
        f"{many} agents and users match; name one with --app and --user, such as {some}."
    )


def progress(say: Output, what: str) -> Callable[[int], None]:
    """Return a function that takes how many are done and says so at every thousandth."""
    told = 0

    def tell(done: int) -> None:
        nonlocal told
        if done // TELL_EVERY > told:
            told = done // TELL_EVERY
            say.note(f"{done} memories {what}.")

    return tell


async def memory_id(memories: Memories, scope: Scope, text: str) -> str:
    """Return the id that begins with `text`; the text itself where no id does.

    Raises:
        InvalidInput: several ids begin with it.
    """
    if len(text) >= ID_LENGTH:
        return text
    matching: list[str] = []
    cursor: str | None = None
    for _ in range(MAX_LOOKED_THROUGH // PAGE):
        page = await memories.list(scope, filter=Filter(superseded=True), limit=PAGE, cursor=cursor)
        matching += [memory.id for memory in page.memories if memory.id.startswith(text)]
        cursor = page.cursor
        if cursor is None:
            break
    if len(matching) > 1:
        raise InvalidInput(
            f"{len(matching)} ids begin with {text}, such as {matching[0]} and {matching[1]}."
        )
    return matching[0] if matching else text
