"""What commands share: options, the store, the scope and exit codes."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any, TypeAlias

import click
from typing_extensions import override

from ..checks import parsed_time
from ..doctor import missing
from ..errors import ConfigurationError, InvalidInput, NotFound, needs_extra
from ..memories import Memories
from ..memories.reading import each_memory
from ..models.llm import Llm
from ..records import MEMORY_TYPES, Filter, Scope
from ..remote import is_remote, open_memories
from ..settings import MemorySettings, compose, without_secrets
from .output import Answer, Output

ID_LENGTH = 36
TELL_EVERY = 1000  # memories
SHOWN_SCOPES = 5  # in the message that asks to choose one
WHO = "command line"
ENDING = [signal.SIGTERM, signal.SIGINT]
with suppress(AttributeError):  # Windows has no SIGHUP
    ENDING.append(signal.SIGHUP)

AS_IT_STANDS = "\b\n"  # tells click not to rewrap a paragraph
FOUND_PROBLEMS = 1
EXIT_CODES: Mapping[int, str] = {
    0: "done",
    1: "the doctor found a problem, or the audit a defect",
    2: "the command or its input is wrong",
    3: "no such memory, job, token, agent or user",
    4: "somebody else changed it first, or it cannot be undone",
    5: "a setting or URI is wrong, or an extra or extension is missing",
    6: "the database or server is unavailable",
    7: "the model or embedder is unavailable",
    8: "the answer could not be written",
    130: "interrupted",
    143: "ended by SIGTERM or SIGHUP",
}


def option(words: str, help: str, **more: Any) -> click.Parameter:
    """Return an option of a command, or a positional argument if the word has no dashes.

    Args:
        words: the option and, if it differs, the name of its value: "--topic topics".
        help: the help text.
        **more: further arguments of click's option.
    """
    kind = click.Option if words.startswith("-") else click.Argument
    return kind(words.split(), help=help, **more)


def flag(words: str, help: str) -> click.Parameter:
    """Return a boolean option."""
    return option(words, help, is_flag=True)


def text(value: str) -> str:
    """Refuse an empty text, which most likely comes from an unset shell variable."""
    if not value:
        raise click.BadParameter("it must not be empty; leave it out, or name one.")
    return value


def time(value: str) -> datetime:
    """Parse a time."""
    return parsed_time(value, "A time")


ARGUMENT = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
KINDS: Mapping[str, Any] = {
    "int": click.INT,
    "Hits": click.IntRange(1, 1000),
    "float": click.FLOAT,
    "Time": time,
    "Name": text,
    "Text": text,
    "MemoryType": click.Choice(MEMORY_TYPES),
    "Order": click.Choice(("newest", "oldest")),
    "JobState": click.Choice(("queued", "running", "dead")),
}


def arguments(verb: Callable[..., Any], names: str) -> list[click.Parameter]:
    """Return options for some arguments of a verb, made from its signature and docstring.

    The help is the first sentence of an argument's description; the others are for Python users.
    """
    takes, meant = inspect.signature(verb).parameters, ARGUMENT.findall(inspect.getdoc(verb) or "")
    meanings = {name: _first_sentence(text) for name, text in meant}
    return [_argument(takes[name], meanings[name]) for name in names.split()]


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].removesuffix(".").replace("`", "")


def _argument(parameter: inspect.Parameter, meaning: str) -> click.Parameter:
    """Return an option for an argument; a list becomes a repeatable option in the singular."""
    name, kind = parameter.name, parameter.annotation.removesuffix(" | None")
    if parameter.default is parameter.empty:
        return option(name, meaning)
    word = f"--{name.removesuffix('_id').replace('_', '-')}"
    if kind == "bool":
        return flag(f"{word} {name}", meaning)
    if kind.startswith("Sequence"):
        words = f"{word.removesuffix('s')} {name}"
        return option(words, f"{meaning}; may be repeated", multiple=True)
    if kind == "Time":
        meaning += "; for example 2026-01-31 or 2026-01-31T09:30Z"
    return option(
        f"{word} {name}", meaning, type=KINDS.get(kind), default=parameter.default or None
    )


@dataclass(slots=True)
class Call:
    """One call of a command, with its options and its output.

    Attributes:
        args: the values of options by name.
        memories: the memories that the command line chooses, while they are open.
    """

    command: Command
    args: SimpleNamespace
    say: Output = field(init=False)
    memories: Memories = field(init=False)

    @contextmanager
    def until_stopped(self, what: str) -> Generator[None]:
        """Announce what the block does and how to stop it; a signal ends it cleanly."""
        end_at(signal.SIGINT)
        self.say.note(f"{what}; stop with Ctrl-C.")
        with suppress(asyncio.CancelledError):
            yield
        self.say.note("Stopping.")

    def given(self, *names: str) -> dict[str, Any]:
        """Return the options with these names that the command line gives."""
        values = {name: getattr(self.args, name, None) for name in names}
        return {name: value for name, value in values.items() if value not in (None, ())}

    async def perform(self, verb: Callable[..., Any], **more: Any) -> Any:
        """Call a verb with the arguments that the command line gives, and with `more`."""
        takes = inspect.signature(verb).parameters
        own = [str(option.name) for option in self.command.options if option.name in takes]
        values = {**self.given(*own), **more}
        scope = takes.get("scope")
        if scope and scope.default is scope.empty and "scope" not in values:
            values["scope"] = await self.scope()
        if "id" in values:
            values["id"] = await self.whole_id(values["scope"], values["id"])
        if "who" in takes:
            values["who"] = WHO
        return await getattr(self.memories, verb.__name__)(**values)

    def settings(self) -> dict[str, Any]:
        """Return the settings from the command line.

        Raises:
            ConfigurationError: a --set is not NAME=VALUE.
        """
        pairs = [pair.partition("=") for pair in self.args.set]
        if wrong := [name for name, equals, _ in pairs if not equals]:
            raise ConfigurationError(f"--set takes NAME=VALUE, not {wrong[0]!r}.")
        named = self.given("embedding", "llm", "tenant", "rls")
        return {name: value for name, _, value in pairs} | named

    def store(self) -> tuple[str, MemorySettings, str]:
        """Return the store's URI, its settings, and the URI to show to people."""
        bare, settings = compose(self.args.uri, None, self.settings(), os.environ)
        return bare, settings, without_secrets(bare)

    @asynccontextmanager
    async def opened(
        self, *, here: bool = False, works: bool = False, makes: bool | None = None
    ) -> AsyncGenerator[Memories]:
        """Open the memories that the command line chooses.

        Args:
            here: True to open the database itself, not a server.
            works: True to run the background work of a service.
            makes: True to create a missing database; None: as the command does.

        Raises:
            ConfigurationError: the database does not exist and the command does not create it, or
                the URI is a server's.
        """
        settings = self.settings()
        if is_remote(self.args.uri):
            if here:
                raise ConfigurationError(
                    "This command works on the database itself; pass its URI instead of the "
                    "server's."
                )
        else:
            may_make = self.command.makes if makes is None else makes
            if not may_make and (told := await missing(*self.store()[:2])):
                raise ConfigurationError(f"{told.text} {told.advice}")
            settings["worker"] = settings.get("worker", True) if works else False

        memories = await open_memories(self.args.uri, resolve_llm=self.resolve_llm, **settings)
        async with memories as self.memories:
            yield memories

    def resolve_llm(self, name: str) -> Llm | None:
        """Return the model of this name in ADK's registry, or None."""
        # imports ADK, which few commands need
        from ..adk.adk_llm import resolve_llm

        return resolve_llm(name, self.store()[1])

    @property
    def tenant(self) -> str:
        """Return the tenant from the command line or the settings."""
        return self.memories.settings.tenant if self.args.tenant is None else self.args.tenant

    def beside(self) -> list[Scope]:
        """Return the scopes of --beside, in the same tenant."""
        return [Scope(self.tenant, user, app) for app, user in self.args.beside]

    async def scope(self) -> Scope:
        """Return the scope of --app, --user and --tenant; missing ones are filled in if only one
        scope fits.

        Raises:
            NotFound: no scope fits, or several do.
        """
        app, user = self.args.app, self.args.user
        if app is not None and user is not None:
            return Scope(self.tenant, user, app)
        fitting = await self.memories.scopes(
            tenant=self.tenant or None, user=user, app=app, limit=SHOWN_SCOPES
        )
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise NotFound(
                "Name the agent and the user with --app and --user; there is nothing to choose "
                "from."
            )
        examples = "; ".join(f"--app {scope.app} --user {scope.user}" for scope in fitting)
        raise NotFound(
            f"Several agents and users match; name one with --app and --user, such as {examples}."
        )

    async def whole_id(self, scope: Scope, text: str) -> str:
        """Return the id that begins with `text`, or the text itself if no id does.

        Raises:
            InvalidInput: several ids begin with it.
        """
        if len(text) >= ID_LENGTH:
            return text
        ever = each_memory(self.memories, scope, filter=Filter(superseded=True))
        matching = [memory.id async for memory in ever if memory.id.startswith(text)]
        if len(matching) > 1:
            raise InvalidInput(
                f"{len(matching)} ids begin with {text}, such as {matching[0]} and {matching[1]}."
            )
        return matching[0] if matching else text

    def progress(self, what: str) -> Callable[[int], None]:
        """Return a callback that takes the number of items done and reports every thousandth."""
        reported = 0

        def tell(done: int) -> None:
            nonlocal reported
            if done // TELL_EVERY > reported:
                reported = done // TELL_EVERY
                self.say.note(f"{done} memories {what}.")

        return tell


def end_at(*signals: int) -> None:
    """Let a signal cancel the running task, and ignore further ones.

    So the closing, also of a private PostgreSQL at the interpreter's exit, is not interrupted.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()

    def end() -> None:
        for number in ENDING:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        if task is not None:
            task.cancel()

    with suppress(NotImplementedError, RuntimeError, ValueError):
        # not available on Windows and outside the main thread
        for number in signals:
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored on purpose, as under nohup
                loop.add_signal_handler(number, end)


Run: TypeAlias = Callable[[Call], Awaitable[Answer | None]]


class Command(click.Command):
    """A command; the docstring of its function is its help.

    Attributes:
        title: its name, in two words for a command of a group ("token list").
        opens: True if it runs with the memories open; otherwise it opens what it needs.
        makes: True if it creates a missing database; otherwise it refuses one, which is most likely
            a typo.
        here: True if it works on the database itself, not through a server.
        examples: example calls.
    """

    def __init__(
        self,
        title: str,
        run: Run,
        options: Sequence[click.Parameter],
        *,
        opens: bool = True,
        makes: bool = False,
        here: bool = False,
    ) -> None:
        text, _, examples = (inspect.getdoc(run) or "").partition("Examples:\n")
        self.title, self.run, self.options = title, run, options
        self.opens, self.makes, self.here = opens, makes, here
        self.examples = [line.strip() for line in examples.strip().splitlines()]
        super().__init__(
            title.rpartition(" ")[2],
            params=[*options, *STORE_OPTIONS, JSON_OPTION],
            help=" ".join(text.split()),
            epilog=f"{AS_IT_STANDS}Examples:\n{examples}",
        )

    @override
    def invoke(self, ctx: click.Context) -> Call:
        """Return the call for these options."""
        return Call(self, SimpleNamespace(**ctx.params))


def command(title: str, *options: click.Parameter, **more: bool) -> Callable[[Run], Command]:
    """Make a function a command; `more` are attributes of `Command`."""
    return lambda run: Command(title, run, options, **more)


STORE_OPTIONS = (
    option(
        "--uri",
        "which store: libsql:///file.db, libsql://host, postgresql://…, pgserver:///dir, "
        "or http://… of a server "
        "(default: KAGENT_MEMORY_URI, MEMORY_BACKEND with DATABASE_URL, else libsql:///memory.db)",
    ),
    option(
        "--embedding",
        "the embedder, such as ollama/nomic-embed-text, or its configuration in JSON",
    ),
    option("--llm", "the model that extracts facts, such as gemini/gemini-2.5-flash"),
    option("--tenant", "the tenant of the memories"),
    option(
        "--set",
        "any other setting, as NAME=VALUE; may be repeated",
        multiple=True,
        metavar="NAME=VALUE",
    ),
)
JSON_OPTION = flag("--json", "answer with one JSON document")
SCOPE_OPTIONS = (
    option("--app", "the agent's app name; may be left out when only one fits", type=text),
    option("--user", "the user; may be left out when only one fits", type=text),
)
MEMORY_OPTIONS = (option("id", "the memory's id, or how it begins", type=text), *SCOPE_OPTIONS)
LIMIT = option("--limit", "how many at most", type=click.IntRange(1, 1000), default=20)
BESIDE = option(
    "--beside",
    "also in the memories of this agent and user, ranked together; may be repeated",
    nargs=2,
    metavar="APP USER",
    multiple=True,
)
LOG_FORMAT = option(
    "--log-format",
    "what is logged on the error stream",
    type=click.Choice(("text", "json")),
    default="text",
)
PORTS = click.IntRange(0, 65_535)


@contextmanager
def needs(extra: str, what: str) -> Generator[None]:
    """Turn a failing import in the block into an error that names the missing extra.

    Raises:
        ConfigurationError: an import failed.
    """
    try:
        yield
    except ImportError as error:
        raise needs_extra(what, extra, error) from error
