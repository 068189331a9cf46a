"""Commands that run or guard something: demo, serve, token, doctor."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigurationError, InvalidInput, KagentMemoryError
from ..records import Scope
from .command import (
    BESIDE,
    FOUND_PROBLEMS,
    Command,
    Option,
    beside,
    between,
    opened,
    opened_here,
    option,
    scope_of,
    settings_of,
    stopping,
)
from .logs import LOG_FORMAT, logged
from .output import Output, day

if TYPE_CHECKING:
    from ..memories import Memories, OpenedMemories
    from ..server.admission import Admission
    from ..server.auth import Access
    from ..stores.base import Token

PORT = 8080
MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


async def demo(args: argparse.Namespace, say: Output) -> int:
    """Run an agent that remembers across two processes."""
    from ..adk.demo import main

    done = await asyncio.to_thread(
        main,
        directory=args.directory,
        store=args.store,
        model=args.model,
        embedding=args.embedding,
        prints=not say.as_json,
    )
    say.value(done)
    say.line(f"\nThe memories are in {done.directory}; look at them with:")
    # after `make demo` our command is in an environment that is not active
    command = "kagent-memory" if shutil.which("kagent-memory") else Path(sys.executable).with_name("kagent-memory")
    say.line(f"   {command} list --uri {done.uri} --app {done.app} --user {done.user}")
    return 0


async def serve(args: argparse.Namespace, say: Output) -> int:
    """Serve over HTTP, or to a client of MCP on standard input and output."""
    unfit = HTTP_OPTIONS if args.mcp else MCP_OPTIONS
    if given := [option.words[0] for option in unfit if _is_given(option, args)]:
        raise InvalidInput(f"{', '.join(given)}: {'not with' if args.mcp else 'only with'} --mcp.")
    return await (_serve_mcp(args, say) if args.mcp else _serve_http(args, say))


def _is_given(one: Option, args: argparse.Namespace) -> bool:
    value = getattr(args, one.words[0].removeprefix("--").replace("-", "_"))
    return value is not None and value is not False and value != one.more.get("default")


async def _serve_http(args: argparse.Namespace, say: Output) -> int:
    try:
        from ..server.app import create_app
        from ..server.auth import LOOPBACK_NAMES, Access, check_binding
        from ..server.serving import bound_socket
        from ..server.serving import serve as serve_on
    except ImportError as error:
        raise ConfigurationError(f'Serving needs an extra: pip install "kagent-memory[server]" ({error}).') from error
    access = Access(
        required=args.auth,
        trusted_proxy=args.trusted_proxy,
        hosts=LOOPBACK_NAMES | {name.lower() for name in args.allow_host or ()},
        max_body_bytes=args.max_body_bytes,
        max_import_bytes=args.max_import_bytes,
        requests_per_minute=args.requests_per_minute,
    )
    check_binding(args.host, access)
    say = logged(args.log_format, say)
    stop = stopping()  # before anything is opened that a signal must close
    try:
        bound = bound_socket(args.host, args.port)
    except OSError as error:
        raise ConfigurationError(
            f"{args.host}:{args.port} cannot be bound ({error.strerror}); choose another --host or --port."
        ) from error
    with bound:
        async with opened_here(args, works=True) as memories:
            host = f"[{args.host}]" if ":" in args.host else args.host
            app = create_app(memories, access)
            async with _grpc(args, memories, access, app.state.admission) as grpc_port:
                beside = f", gRPC on {host}:{grpc_port}" if grpc_port else ""
                at = f"http://{host}:{bound.getsockname()[1]}"
                say.note(f"Memories of {memories.location} on {at}{beside}; stop with Ctrl-C.")
                await serve_on(app, bound, stop)
                say.note("Stopping.")
    return 0


def _grpc(
    args: argparse.Namespace, memories: Memories, access: Access, admission: Admission
) -> AbstractAsyncContextManager[int | None]:
    if args.grpc_port is None:
        return nullcontext()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core would write lines of its own to the error stream
    try:
        from ..server.grpc_service import serving
    except ImportError as error:
        raise ConfigurationError(f'gRPC needs an extra: pip install "kagent-memory[grpc]" ({error}).') from error
    return serving(memories, access, admission, host=args.host, port=args.grpc_port)


async def _serve_mcp(args: argparse.Namespace, say: Output) -> int:
    if args.app is None or args.user is None:
        raise InvalidInput("--mcp serves one agent's and user's memories: name them with --app and --user.")
    try:
        from ..server.mcp_tools import serve_stdio
    except ImportError as error:
        raise ConfigurationError(f'MCP needs an extra: pip install "kagent-memory[mcp]" ({error}).') from error
    logged(args.log_format, say, level=logging.WARNING)

    async def scopes_of(memories: OpenedMemories) -> list[Scope]:
        return list(dict.fromkeys([await scope_of(args, memories), *beside(args, memories)]))

    await serve_stdio(opened(args, works=True), scopes_of)
    return 0


async def token_create(args: argparse.Namespace, say: Output) -> int:
    """Makes a token and shows it once."""
    if args.user == "":  # most likely a variable of the shell that holds nothing; it must not open a whole tenant
        raise InvalidInput("--user must not be empty; leave it out for a token of the whole tenant.")
    if args.operator and (args.user is not None or args.tenant is not None):
        raise InvalidInput("An operator's token opens every tenant; leave --user and --tenant out.")
    async with opened_here(args) as memories:
        secret, token = await memories.tokens.create(
            user=args.user, label=args.label, days=args.days, is_operator=args.operator
        )
    say.value({"token": secret, **_public(token)})
    say.line(secret)
    say.note("Keep it now: it is not shown again, and only its digest is stored.")
    return 0


def _public(token: Token) -> dict[str, str | bool | None]:
    return {
        "id": token.id,
        "tenant": token.tenant,
        "user": token.user,
        "operator": token.is_operator,
        "label": token.label,
        "created_at": token.created_at.isoformat(),
        "expires_at": token.expires_at and token.expires_at.isoformat(),
    }


async def token_list(args: argparse.Namespace, say: Output) -> int:
    """Lists tokens; never their secrets."""
    async with opened_here(args) as memories:
        tokens = await memories.tokens.list()
    say.value([_public(token) for token in tokens])
    rows: list[list[str]] = []
    for token in tokens:
        opens = ("every", "all") if token.is_operator else (token.tenant or "-", token.user or "all")
        rows.append([token.id, *opens, day(token.created_at), day(token.expires_at), token.label])
    say.table(("ID", "TENANT", "USER", "CREATED", "EXPIRES", "LABEL"), rows)
    return 0


async def token_revoke(args: argparse.Namespace, say: Output) -> int:
    """Revokes a token at once."""
    async with opened_here(args) as memories:
        await memories.tokens.revoke(args.id)
    say.value({"revoked": args.id})
    say.line("Revoked.")
    return 0


async def examine(args: argparse.Namespace, say: Output) -> int:
    """Looks at everything and says what to do."""
    from .. import doctor
    from ..memories import utc_now
    from ..remote import is_remote

    settings = settings_of(args)
    try:
        if is_remote(args.uri):
            async with opened(args) as memories:
                findings = doctor.of_server(memories.location, await memories.check())
                findings = [*findings, await doctor.of_queue(memories.jobs, utc_now())]
        else:
            findings = await doctor.examine(args.uri, **settings)
    except KagentMemoryError as error:
        findings = [doctor.Finding("server", "bad", str(error), "Start the server, or correct the URI and the token.")]
    say.value(findings, list[doctor.Finding])
    for finding in findings:
        say.line(f"{MARKS[finding.state]}  {finding.part:<12}{finding.text}")
        if finding.advice:
            say.line(f"      {'':<12}→ {finding.advice}")
    return FOUND_PROBLEMS if any(finding.state == "bad" for finding in findings) else 0


HTTP_OPTIONS = (
    option("--host", help="the address to bind; others than loopback need auth", default="127.0.0.1"),
    option("--port", help="the port; 0: any free one", type=between(0, 65_535), default=PORT),
    option(
        "--grpc-port",
        help="the port for kagent's contract over gRPC, for kagent after 0.10; 0: any free one (default: no gRPC)",
        type=between(0, 65_535),
    ),
    option("--auth", help="every call needs a token", action="store_true"),
    option(
        "--trusted-proxy",
        help="believe X-User-Id, X-Agent-Name and X-Tenant-Id: a proxy in front sets them, and nobody else can",
        action="store_true",
    ),
    option("--allow-host", help="a further host name to answer to without auth", action="append"),
    option(
        "--max-body-bytes",
        help="the longest request body",
        type=between(1024, 2**30),
        default=8 * 1024 * 1024,
    ),
    option(
        "--max-import-bytes",
        help="the longest file that an import takes",
        type=between(1024, 2**50),
        default=16 * 2**30,
    ),
    option(
        "--requests-per-minute",
        help="of one caller; 0: no limit",
        type=between(0, 10**9),
        default=3000,
    ),
)
MCP_OPTIONS = (
    option("--app", help="with --mcp: the agent's app name"),
    option("--user", help="with --mcp: the user"),
    BESIDE,
)

COMMANDS = (
    Command(
        name="demo",
        help="Watch an agent remember across two processes; works offline, without a key.",
        examples=["kagent-memory demo", "kagent-memory demo --store postgres --model gemini-2.5-flash"],
        options=(
            option("--directory", help="an empty or new one for its memories (default: a new temporary one)"),
            option("--store", help="where", choices=("libsql", "postgres"), default="libsql"),
            option("--model", help="the agent's model (default: a rehearsed one)", default=""),
            option("--embedding", help="the embedder (default: keyword search)", default=""),
        ),
        run=demo,
        uses_store=False,
    ),
    Command(
        name="serve",
        help="Serve kagent's memory contract, /api/v1 and the page at /; processes the queue too.",
        examples=[
            "kagent-memory serve --uri libsql:///memory.db",
            "kagent-memory serve --host 0.0.0.0 --auth --grpc-port 8083 --uri postgresql://memory@db/agents",
            "kagent-memory serve --mcp --uri libsql:////home/ada/memory.db --app assistant --user ada",
            "kagent-memory serve --mcp --uri https://memory.example.org --app assistant --user ada",
            "kagent-memory serve --mcp --app assistant --user ada --beside assistant team",
        ],
        options=(
            *HTTP_OPTIONS,
            option(
                "--mcp",
                help="instead serve one agent's and user's memories to a client of MCP, on standard input and output",
                action="store_true",
            ),
            *MCP_OPTIONS,
            LOG_FORMAT,
        ),
        run=serve,
        makes=True,
    ),
    Command(
        name="token create",
        help="Make a bearer token for the server, bound to the tenant or to one user; shown once.",
        examples=[
            "kagent-memory token create --label ci --days 90",
            "kagent-memory token create --user ada",
            "kagent-memory token create --operator --label maintenance",
        ],
        options=(
            option("--user", help="only this user's memories (default: the whole tenant's)"),
            option(
                "--operator",
                help="opens every tenant, and what crosses them: prune and doctor over HTTP",
                action="store_true",
            ),
            option("--label", help="a name to recognise it by", default=""),
            option("--days", help="days it is valid (default: until revoked)", type=between(1, 36_500)),
        ),
        run=token_create,
        makes=True,
    ),
    Command(
        name="token list",
        help="List tokens; never their secrets.",
        examples=["kagent-memory token list"],
        run=token_list,
    ),
    Command(
        name="token revoke",
        help="Revoke a token at once.",
        examples=["kagent-memory token revoke 0199a1b2-…"],
        options=(option("id", help="the token's id"),),
        run=token_revoke,
    ),
    Command(
        name="doctor",
        help="Check settings, database, schema, rights, embedder and model, and say what to do.",
        examples=["kagent-memory doctor --uri postgresql://memory@db/agents --embedding ollama/nomic-embed-text"],
        run=examine,
    ),
)
