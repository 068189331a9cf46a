"""Nothing that reads a text takes more than linear time: every expression, and every function that
is given one.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import math
import pkgutil
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from heapq import nlargest

import pytest
from expressions import Attack, TooLongError, at_most, attacks, compiled, sites

import kagent_memory
from kagent_memory.ingestion.echoes import KnownMemory
from kagent_memory.records import Message
from kagent_memory.redaction import redact

SIZE = 100_000
# linear ones take half of it at most; the least quadratic one takes five times as much
SECONDS = 2.0
# Expressions whose input is bounded by what it is: at how many characters, and why.
BOUNDED = {
    ("server/grpc_contract.py", "_LINE"): 200,  # a line of our own contract
    ("models/prompts/escaping.py", "_LATIN"): 128,  # a character's name in Unicode
    ("retrieval/query/gate.py", "_chatting"): 300,  # longer messages are searched unseen
    ("retrieval/query/gate.py", "_common"): 300,
}
# Expressions that are tried at one place that another one found, and never looked for.
ANCHORED = {("redaction/secrets.py", name) for name in ("_QUOTED", "_ALONE", "_PLACEHOLDER")}


@pytest.fixture(scope="module")
def expressions() -> dict[tuple[str, int], list[re.Pattern[str]]]:
    return compiled()


def test_no_expression_is_made_where_it_would_escape_the_timing(expressions):
    made = [site for site in sites() if site.function not in ("escape", "Pattern", "Match")]
    assert [site for site in made if site.function != "compile"] == []
    assert [site for site in made if (site.file, site.line) not in expressions] == []
    assert sum(map(len, expressions.values())) > 150


@pytest.mark.parametrize(
    ("texts", "worst_texts"), [(50, 2), pytest.param(400, 8, marks=pytest.mark.slow)]
)
def test_no_expression_takes_more_than_linear_time(expressions, texts, worst_texts):
    """None over 100 kB, of the texts made to keep it busy that take longest when they are short."""
    named = {(site.file, site.line): (site.file, site.name) for site in sites()}
    slow: list[tuple[str, str, str, Attack]] = []
    for place, patterns in expressions.items():
        name, size = named[place], BOUNDED.get(named[place], SIZE)
        for pattern in patterns:
            work = partial(tried, pattern, looking=name not in ANCHORED)
            worst = nlargest(
                worst_texts,
                attacks(pattern, texts),
                key=lambda attack: seconds(work, attack.text(size // 10)),
            )
            slow += [
                (*name, pattern.pattern[:80], attack)
                for attack in worst
                if seconds(work, attack.text(size)) == math.inf
            ]
    assert slow == []


def tried(pattern: re.Pattern[str], text: str, *, looking: bool) -> None:
    for _ in pattern.finditer(text) if looking else ():
        pass
    pattern.fullmatch(text)


def seconds(work: Callable[[str], object], text: str) -> float:
    """The processor time it takes, or infinity when that is too long; the garbage of other tests is
    not counted.
    """
    begin = time.process_time()
    gc.disable()
    try:
        with at_most(SECONDS):
            work(text)
    except TooLongError:
        return math.inf
    finally:
        gc.enable()
    return time.process_time() - begin


NOW = datetime(2026, 5, 6, 7, 8, tzinfo=UTC)
# By what a function's parameter is annotated with: what it is given, made of the text.
GIVEN: dict[str, Callable[[str], object]] = {
    "str": str,
    "str | None": str,
    "int": lambda _: 64,
    "bool": lambda _: True,
    "datetime": lambda _: NOW,
    "date": lambda _: NOW.date(),
    "Sequence[str]": lambda text: [text],
    "Iterable[str]": lambda text: [text],
    "list[str]": lambda text: text.split(),
    "Redactor": lambda _: redact,
    "Fact | str": str,
    "Sequence[Message]": lambda text: [Message(text=text, role="agent", recalled=(text,))],
    "Sequence[KnownMemory]": lambda text: [
        KnownMemory("m1", text),
        KnownMemory("m2", text[: len(text) // 2]),
    ],
    "Collection[str]": lambda text: [text],
}
# Their texts are names of files, models, settings, stores and the like, or a few characters.
NO_TEXTS = (
    *("adk.registry", "adk.service._database_uri", "cli"),
    *("models.embedding.provider_embedder", "models.prompts.prompt", "redaction.patterns._rule"),
    *("redaction.patterns.shapes_of", "remote.is_remote"),
    *(
        "server.serving",
        "settings",
        "stores._adapter",
        "stores.libsql.libsql_driver",
        "stores.libsql.sqlite3_driver",
        "stores.libsql.location",
        "stores.postgres",
        "testing",
    ),
)
PIECES = [
    *"aA0 \n.,-_/<{[\"'`#:&\u4e00\u0301İé",
    *(
        "1/",
        "a-",
        "a.",
        "A1",
        "a\n",
        "<a",
        '{"a":',
        "://a:b",
        "。",
        "ok ",
        "not ",
        "may ",
        "Anna ",
        "4111 ",
        "Hello. ",
    ),
    *(
        "in may 2024 ",
        "2024-01-01 ",
        "what is ",
        "password: ",
        "password='a",
        "eyJaaaaaaaa.",
        "role: ",
        "System: ",
    ),
    *(
        "[/inst ",
        "P_A_S_T ",
        "PAST_CONVERSATIONS ",
        "<PAST_CONVERSATIONS>a",
        "</PAST_CONVERSATIONS>",
    ),
]


def readers() -> list[tuple[str, Callable[[str], object]]]:
    """Every function of the package that can be given a text and things made of one, and how to
    call it.
    """
    found: dict[str, Callable[[str], object]] = {}
    for module in pkgutil.walk_packages(kagent_memory.__path__, "kagent_memory."):
        if module.name.endswith("__main__"):
            continue
        for name, given in vars(importlib.import_module(module.name)).items():
            function = inspect.unwrap(given) if callable(given) else None
            called = f"{module.name}.{name}".removeprefix("kagent_memory.")
            if not inspect.isfunction(function) or function.__module__ != module.name:
                continue
            needed = [
                str(parameter.annotation)
                for parameter in inspect.signature(function).parameters.values()
                if parameter.default is parameter.empty
                and parameter.kind is not parameter.VAR_KEYWORD
            ]
            takes_text = GIVEN.keys() >= set(needed) and any(
                "str" in kind or "Message" in kind for kind in needed
            )
            if (
                takes_text
                and not called.startswith(NO_TEXTS)
                and not inspect.iscoroutinefunction(function)
            ):
                found[called] = partial(called_with, function)
    return sorted(found.items())


def called_with(function: Callable[..., object], text: str) -> None:
    positional: list[object] = []
    named: dict[str, object] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            value = GIVEN[str(parameter.annotation)](text)
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
    try:
        answer = function(*positional, **named)
        if isinstance(answer, Iterator):
            deque(answer, maxlen=0)
    except TooLongError:
        raise
    except Exception:
        return  # refused, in whatever words: how long it took is what counts


@pytest.mark.parametrize("worst_texts", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_no_function_takes_more_than_linear_time(worst_texts):
    """None that reads a text, over 100 kB of the piece that took longest when it was short."""
    slow: list[tuple[str, Attack]] = []
    texts = [Attack("", piece, "\0") for piece in PIECES]
    for name, function in readers():
        worst = nlargest(
            worst_texts, texts, key=lambda attack: seconds(function, attack.text(SIZE // 40))
        )
        slow += [
            (name, attack) for attack in worst if seconds(function, attack.text(SIZE)) == math.inf
        ]
    assert slow == []
