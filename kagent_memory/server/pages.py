"""The page: choose an agent and a user, look through the memories, open one, correct it, delete
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from ..checks import parsed_time
from ..errors import Conflict, InvalidInput, KagentMemoryError, NotFound, family_of
from ..ingestion.editing import last_change
from ..memories import Memories
from ..records import MEMORY_TYPES, Filter, Memory, MemoryType, Recall, Scope, Scopes
from ..stores.base import Order
from ..stores.values import with_after
from .api import VERBS
from .auth import COOKIE
from .dependencies import caller_of, known_id, memories_of, scope_of, tenant_of
from .error_responses import message_of
from .page_helpers import (
    MemoryId,
    OwnForm,
    PageScope,
    field,
    listed,
    page,
    page_user,
    set_cookie,
    shown_settings,
    to,
)

router = APIRouter(include_in_schema=False)

SHOWN = 25
FOUND = 20
SHOWN_SCOPES = 200
MOST_LABELS = 100  # topics and tags to choose from
MOST_SKIPPED = 10_000  # memories before a page that is named by its number
SKIPPED_AT_ONCE = 1000
NARROWED = ("type", "category", "topic", "tag")
EDITED = ("content", "type", "category", "importance", "ttl_days", "why", "topics", "tags")
MAY_BE_EMPTY = ("content", "category", "topics", "tags")
LONGEST_LABEL = 256
COMPARED = (
    "content",
    "type",
    "category",
    "topics",
    "tags",
    "importance",
    "ttl_days",
    "pinned",
    "state",
)
ORDERS: Mapping[Order, str] = {
    "newest": "Newest first",
    "oldest": "Oldest first",
}
ACTIONS: Mapping[str, tuple[str, str]] = {
    "pin": ("pinned", "/memories/{}"),
    "unpin": ("unpinned", "/memories/{}"),
    "undo": ("undone", "/memories/{}"),
    "delete": ("deleted", "/memories"),
    "confirm": ("confirmed", "/quarantine"),
    "reject": ("rejected", "/quarantine"),
}
"""What a button does with a memory: what is said of it, and the page that is shown next."""
WIDTHS: Mapping[str, str] = {
    "": "This user's memories with this agent",
    "user": "This user's memories with every agent",
    "app": "Every user's memories with this agent",
}


@router.get("/")
async def start(request: Request) -> Response:
    """Show the scopes whose memories the caller may look at."""
    memories, caller = memories_of(request), caller_of(request)
    scopes = await memories.scopes(
        tenant=caller.tenant, user=caller.user, app=caller.app, limit=SHOWN_SCOPES
    )
    by = "user" if request.query_params.get("by") == "user" else "app"
    rows = [
        (scope, await memories.stats(scope))
        for scope in sorted(scopes, key=lambda scope: (getattr(scope, by), scope.user, scope.app))
    ]
    return page(
        request,
        "start.html",
        {
            "rows": rows,
            "by": by,
            "tenant": tenant_of(request),
            "most": SHOWN_SCOPES,
            **shown_settings(request),
        },
    )


@router.get("/memories")
async def list_memories(request: Request, scope: PageScope) -> Response:
    """The memories of one agent and user: sorted, filtered, searched."""
    return await _memories_page(request, scope)


async def _memories_page(
    request: Request, scope: Scope, *, wrong: str = "", content: str = "", status: int = 200
) -> Response:
    """The list; `wrong`: why the `content` that somebody typed was not stored."""
    memories, params = memories_of(request), request.query_params
    query, filter = params.get("q", "").strip(), _filter(params)
    if query:
        shown = {"hits": await _hits(request, scope, query, filter), "memories": ()}
    else:
        shown = await _listed(request, scope, filter)
    labels = await memories.facets(
        scope, filter=Filter(superseded=filter.superseded), limit=MOST_LABELS
    )
    chosen = {name: params.get(name, "") for name in (*NARROWED, "as_of", "width", "also")}
    chosen["show"] = "replaced" if filter.superseded else ""
    values = {
        "scope": scope,
        "query": query,
        "order": _order(params),
        "orders": ORDERS,
        "types": MEMORY_TYPES,
        "widths": WIDTHS,
        "stats": await memories.stats(scope),
        "topics": labels.topics,
        "tags": labels.tags,
        "chosen": chosen,
        "is_narrowed": any(chosen.values()),
        "wrong": wrong,
        "content": content,
    }
    return page(request, "memories.html", {**values, **shown, **shown_settings(request)}, status)


async def _hits(request: Request, scope: Scope, query: str, filter: Filter) -> Recall:
    """Search the scopes that the address chooses; replaced memories are never searched."""
    params = request.query_params
    widths = {
        "user": Scopes(tenant=scope.tenant, user=scope.user),
        "app": Scopes(tenant=scope.tenant, app=scope.app),
    }
    searched = [caller_of(request).checked(widths.get(params.get("width", ""), scope))]
    if also := params.get("also", "").strip():  # another user of the same agent
        searched.append(scope_of(request, tenant=scope.tenant, user=also, app=scope.app))
    return await memories_of(request).recall(
        searched,
        query,
        limit=FOUND,
        filter=replace(filter, superseded=False),
        explain=True,
        deliver=False,
        as_of=parsed_time(at, "as_of") if (at := params.get("as_of")) else None,
        handover=True,
    )


async def _listed(request: Request, scope: Scope, filter: Filter) -> dict[str, Any]:
    """Return a page of the list, and its place in it."""
    memories, params = memories_of(request), request.query_params
    text, order, cursor = params.get("page", ""), _order(params), params.get("cursor") or None
    number = max(1, int(text)) if text.isdecimal() and len(text) < 10 else 1
    if cursor is None and number > 1:
        cursor, number = await _cursor_of(memories, scope, filter, order, number)
    shown = await memories.list(scope, filter=filter, order=order, limit=SHOWN, cursor=cursor)
    return {
        "hits": None,
        "memories": shown.memories,
        "cursor": shown.cursor,
        "page": number,
        "first": (number - 1) * SHOWN + 1,
        "can_go_back": number * SHOWN <= MOST_SKIPPED,
        "total": (await memories.facets(scope, filter=filter, limit=0)).total,
    }


def _order(params: Mapping[str, str]) -> Order:
    orders: dict[str, Order] = {name: name for name in ORDERS}
    return orders.get(params.get("order", ""), "newest")


async def _cursor_of(
    memories: Memories, scope: Scope, filter: Filter, order: Order, number: int
) -> tuple[str | None, int]:
    """Return the cursor of a page and its number: an earlier one when there are not so many."""
    left, cursor = min((number - 1) * SHOWN, MOST_SKIPPED), None
    while left:
        skipped = await memories.list(
            scope, filter=filter, order=order, limit=min(left, SKIPPED_AT_ONCE), cursor=cursor
        )
        if skipped.cursor is None:
            return None, 1
        left, cursor = left - len(skipped.memories), skipped.cursor
    return cursor, min(number, MOST_SKIPPED // SHOWN + 1)


def _filter(params: Mapping[str, str]) -> Filter:
    kind, category, topic, tag = (params.get(name, "") for name in NARROWED)
    if (
        "\0" in kind + category + topic + tag
        or max(map(len, (kind, category, topic, tag))) > LONGEST_LABEL
    ):
        raise InvalidInput(
            f"A filter holds a NUL character, or more than {LONGEST_LABEL} characters."
        )
    return Filter(
        types=_types(kind),
        category=category or None,
        topics=(topic,) if topic else (),
        tags=(tag,) if tag else (),
        superseded="only" if params.get("show") == "replaced" else False,
    )


def _types(text: str) -> tuple[MemoryType, ...]:
    return tuple(kind for kind in MEMORY_TYPES if kind == text)


@router.post("/memories/add")
async def add(request: Request, scope: PageScope, form: OwnForm) -> Response:
    """Store what somebody typed."""
    content = field(form, "content")
    try:
        await memories_of(request).add(scope, [content], who=page_user(request))
    except KagentMemoryError as error:
        return await _memories_page(
            request,
            scope,
            wrong=message_of(error),
            content=content,
            status=family_of(error).http_status,
        )
    return to("/memories", scope, done="added")


@router.post("/memories/chosen")
async def change_chosen(request: Request, scope: PageScope, form: OwnForm) -> Response:
    """Pin, unpin or delete the memories that are ticked."""
    ids = [known_id(id, "memory") for id in form.getlist("id") if isinstance(id, str)]
    action = field(form, "do")
    if not ids or action not in ("pin", "unpin", "delete"):
        return to("/memories", scope, done="none")
    for id in ids:
        with suppress(NotFound):  # it went with another, or has expired
            await _act(request, scope, id, action)
    return to("/memories", scope, done=ACTIONS[action][0])


@router.get("/memories/delete-all")
async def confirm_delete_all(request: Request, scope: PageScope) -> Response:
    """Ask before everything is deleted."""
    stats = await memories_of(request).stats(scope)
    return page(request, "delete_all.html", {"scope": scope, "stats": stats})


@router.post("/memories/delete-all")
async def delete_all(request: Request, scope: PageScope, form: OwnForm) -> Response:
    """Delete everything of the scope."""
    await memories_of(request).forget(scope, everything=True, who=page_user(request))
    return to("/memories", scope, done="all-deleted")


@router.get("/memories/{id}")
async def show(request: Request, scope: PageScope, id: MemoryId) -> Response:
    """One memory with its history."""
    return await _memory_page(request, scope, await _memory(request, scope, id))


async def _memory_page(
    request: Request,
    scope: Scope,
    memory: Memory,
    *,
    typed: Mapping[str, str] = {},
    wrong: str = "",
    status: int = 200,
) -> Response:
    """The page of a memory; `typed`: what its form holds instead of what is stored, `wrong`: why it
    was not stored.
    """
    revisions = await memories_of(request).history(scope, memory.id)
    told = [
        (revision, former(revision.before, after))
        for revision, after in with_after(memory, revisions)
    ]
    linked: list[Memory] = []
    for id in (*memory.links, *memory.source_ids):
        with suppress(NotFound):  # it has expired
            linked.append(await memories_of(request).get(scope, id))
    values = {
        "scope": scope,
        "memory": memory,
        "revisions": told[::-1],
        "types": MEMORY_TYPES,
        "wrong": wrong,
    }
    values |= {
        "linked": [one for one in linked if "source" not in (one.state, memory.state)],
        "words": [one for one in linked if one.state == "source"],
        "facts": [one for one in linked if memory.state == "source"],
    }
    values |= {"form": {**_stored(memory), **typed}, "can_undo": last_change(revisions) is not None}
    return page(request, "memory.html", {**values, **shown_settings(request)}, status)


def _stored(memory: Memory) -> dict[str, str]:
    """Return what the form of a memory holds."""
    return {
        "content": memory.content,
        "type": memory.type,
        "category": memory.category or "",
        "importance": str(memory.importance),
        "ttl_days": "" if memory.ttl_days is None else str(memory.ttl_days),
        "topics": ", ".join(memory.topics),
        "tags": ", ".join(memory.tags),
        "why": "",
    }


def former(before: Memory | None, after: Memory | None) -> list[tuple[str, str]]:
    """Return the parts that a change replaced, each with its former value in words."""
    if before is None or after is None:
        return []
    replaced: list[tuple[str, str]] = []
    for name in COMPARED:
        value = getattr(before, name)
        if value == getattr(after, name):
            continue
        if isinstance(value, bool):
            value = "yes" if value else "no"
        elif isinstance(value, tuple):
            value = ", ".join(cast("tuple[str, ...]", value))
        replaced.append((name.replace("_", " "), "–" if value in (None, "") else str(value)))
    return replaced


async def _memory(request: Request, scope: Scope, id: str) -> Memory:
    """A memory as it is, also when another one took its place."""
    try:
        return await memories_of(request).get(scope, id, superseded=True)
    except NotFound as error:
        raise NotFound("No such memory; it may have expired or been deleted.") from error


@router.post("/memories/{id}/edit")
async def edit(request: Request, scope: PageScope, form: OwnForm, id: MemoryId) -> Response:
    """Set what the form says; when that fails, the form keeps what was typed."""
    typed = {name: field(form, name) for name in EDITED}
    try:
        memory = await _memory(request, scope, id)
    except NotFound as error:
        # meanwhile it expired or was deleted: what was typed can be stored as a new one
        return await _memories_page(
            request, scope, wrong=message_of(error), content=typed["content"], status=404
        )
    try:
        changes = _changes(typed, _stored(memory), field(form, "revision"))
        await memories_of(request).edit(scope, id, who=page_user(request), **changes)
    except Conflict as error:
        wrong = f"{message_of(error)} Above is what is stored now; the form holds what you typed."
        memory = await _memory(request, scope, id)
        return await _memory_page(request, scope, memory, typed=typed, wrong=wrong, status=409)
    except KagentMemoryError as error:
        wrong, status = message_of(error), family_of(error).http_status
        return await _memory_page(request, scope, memory, typed=typed, wrong=wrong, status=status)
    return to(f"/memories/{id}", scope, done="edited")


def _changes(typed: Mapping[str, str], stored: Mapping[str, str], revision: str) -> dict[str, Any]:
    """Return the arguments of an edit that sets what differs from what is stored.

    Raises:
        InvalidInput: a field does not fit.
    """
    changed = {
        name: json.dumps(listed(text)) if name in ("topics", "tags") else text
        for name, text in typed.items()
        if text != stored[name] and (text or name in MAY_BE_EMPTY)
    }
    return VERBS["edit"].read_texts({**changed, **({"revision": revision} if revision else {})})


@router.post("/memories/{id}/{action}")
@router.post("/quarantine/{id}/{action}")
async def act(
    request: Request, scope: PageScope, form: OwnForm, id: MemoryId, action: str
) -> Response:
    """Do with a memory what its button says."""
    if action not in ACTIONS:
        raise HTTPException(404)
    await _act(request, scope, id, action)
    done, next_page = ACTIONS[action]
    return to(next_page.format(id), scope, done=done)


async def _act(request: Request, scope: Scope, id: str, action: str) -> None:
    memories, user = memories_of(request), page_user(request)
    match action:
        case "undo":
            await memories.undo(scope, id, who=user)
        case "confirm":
            await memories.confirm(scope, id, who=user)
        case "reject":
            await memories.reject(scope, id, who=user)
        case "delete":
            await memories.forget(scope, [id], who=user)
        case _:
            await memories.pin(scope, id, action == "pin", who=user)


@router.get("/login")
async def login_form(request: Request) -> Response:
    """Ask for a token."""
    return page(request, "login.html", {"wrong": False})


@router.post("/login")
async def login(request: Request, form: OwnForm) -> Response:
    """Keep the token in a cookie when it is valid."""
    secret = field(form, "token")
    if await memories_of(request).tokens.authenticate(secret) is None:
        return page(request, "login.html", {"wrong": True}, 401)
    answer = to("/")
    set_cookie(request, answer, COOKIE, secret)
    return answer


@router.post("/logout")
async def logout(request: Request, form: OwnForm) -> Response:
    """Drop the cookie."""
    answer = to("/login")
    answer.delete_cookie(COOKIE, path="/")
    return answer
