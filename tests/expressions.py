"""Every regular expression of the package, and the texts that each takes longest over.

An expression that takes quadratic time freezes the process: it holds the interpreter's lock until
it is done. So none may escape: they are gathered where they are compiled, and the texts are made
from their own parts."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

PACKAGE = Path(__file__).parent.parent / "kagent_memory"
LONG = 12  # turns; what is repeated less often costs no more than so many times as much
PREFIXES = ("", "a", ".", "\n")
SUFFIXES = ("", "\0", "\n", "a")
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
OF_CATEGORY = {
    "CATEGORY_WORD": "a0_é",
    "CATEGORY_DIGIT": "0",
    "CATEGORY_SPACE": " \n",
    "CATEGORY_NOT_WORD": " -",
    "CATEGORY_NOT_DIGIT": "a ",
    "CATEGORY_NOT_SPACE": "a-",
}
ANY = "a 0-:.\"'<\\\n\u4e2d"


@dataclass(frozen=True, slots=True)
class Site:
    """A call of the module `re`: in which file and line, and the name or function that has what it
    gives.
    """

    file: str
    line: int
    name: str
    function: str


def sites() -> list[Site]:
    """Every call of the module `re` in the package."""
    found: list[Site] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = dict(_names(tree, ""))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "re":
                found.append(Site(file.relative_to(PACKAGE).as_posix(), node.lineno, "", "import"))
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
                place = file.relative_to(PACKAGE).as_posix()
                found.append(Site(place, node.lineno, names[node], ast.unparse(node.func)[3:]))
    return found


def _names(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Each node with the name that the innermost assignment of a module, or function, around it
    gives.
    """
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        name = node.name
    elif not name and isinstance(node, ast.Assign | ast.AnnAssign):
        name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    yield node, name
    for inner in ast.iter_child_nodes(node):
        yield from _names(inner, name)


def compiled() -> dict[tuple[str, int], list[re.Pattern[str]]]:
    """The expressions that the package compiles when all of it is imported and used, by file and
    line.
    """
    ran = subprocess.run(
        [sys.executable, __file__],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=PACKAGE.parent,
    )
    found: dict[tuple[str, int], list[re.Pattern[str]]] = {}
    for file, line, pattern, flags in json.loads(ran.stdout):
        found.setdefault((file, line), []).append(re.compile(pattern, flags))
    return found


def _compile_all() -> None:
    """Imports everything, and prints what it compiled."""
    found: list[tuple[str, int, str, int]] = []
    inner = re.compile

    def recording(pattern: Any, flags: Any = 0) -> re.Pattern[str]:
        caller = sys._getframe(1)
        file = Path(caller.f_code.co_filename)
        if file.is_relative_to(PACKAGE):
            found.append(
                (file.relative_to(PACKAGE).as_posix(), caller.f_lineno, pattern, int(flags))
            )
        return inner(pattern, flags)

    re.compile = recording  # type: ignore[assignment]
    import kagent_memory

    for module in pkgutil.walk_packages(kagent_memory.__path__, "kagent_memory."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from kagent_memory.language.preferences import states_preference
    from kagent_memory.redaction import redact
    from kagent_memory.retrieval.query import WordGate

    states_preference("")

    redact("Nothing secret.")
    WordGate().searches("What is the capital of France?")
    print(json.dumps(list(dict.fromkeys(found))))


@dataclass(frozen=True, slots=True)
class Attack:
    """A text that keeps an expression busy, if any does: a beginning, what follows it again and
    again, an end.
    """

    head: str
    body: str
    end: str

    def text(self, size: int) -> str:
        """About so many characters of it."""
        return self.head + self.body * max(1, (size - len(self.head)) // len(self.body)) + self.end


def attacks(pattern: re.Pattern[str], at_most: int) -> list[Attack]:
    """What may keep this expression busy, so many of it spread over all that was thought of."""
    made = [
        Attack(head, body, end)
        for head, body in dict.fromkeys(_shapes(pattern))
        for end in SUFFIXES
    ]
    return made[:: -(-len(made) // at_most)] if made else []


def _shapes(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """(beginning, what follows it again and again)."""
    tree = list(parser.parse(pattern.pattern, pattern.flags))
    for before, pump in _pumps(tree, ""):
        yield from ((before, pump), ("", before + pump), *((prefix, pump) for prefix in PREFIXES))
    for sample in islice(_samples(tree, 4), 4):
        yield from (("", piece) for piece in (sample, sample[:-1], sample[1:]) if piece)


def _pumps(nodes: Sequence[Any], before: str) -> Iterator[tuple[str, str]]:
    """(what matches up to it, what is repeated) of every long repeat in a parsed expression."""
    heads = [before]
    for code, argument in nodes:
        for head, inner in product(heads[:2], _inner(code, argument)):
            yield from _pumps(inner, head)
        if code in REPEATS and argument[1] > LONG:
            bodies = [
                body for body in dict.fromkeys(islice(_samples(list(argument[2]), 6), 8)) if body
            ]
            yield from product(heads[:2], bodies)
            heads += [head + bodies[0] * 3 for head in heads[:1] if bodies]
        step = next(_samples([(code, argument)], 1), "")
        heads = [head + step for head in heads]


def _inner(code: Any, argument: Any) -> list[list[Any]]:
    if code in REPEATS:
        return [list(argument[2])]
    if code is codes.SUBPATTERN:
        return [list(argument[3])]
    if code is codes.BRANCH:
        return [list(branch) for branch in argument[1]]
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [list(argument[1])]
    return [list(argument)] if code is codes.ATOMIC_GROUP else []


def _samples(nodes: Sequence[Any], width: int) -> Iterator[str]:
    """Texts that these nodes match, or nearly: assertions are passed over."""
    options = [list(islice(_sample(*node, width), width)) or [""] for node in nodes]
    for turn in range(max(map(len, options), default=1)):
        yield "".join(option[min(turn, len(option) - 1)] for option in options)


def _sample(code: Any, argument: Any, width: int) -> Iterator[str]:
    if code is codes.LITERAL:
        yield chr(argument)
    elif code is codes.NOT_LITERAL:
        yield from (char for char in ANY if ord(char) != argument)
    elif code is codes.ANY:
        yield from "a0 -"
    elif code is codes.IN:
        yield from _of_class(argument)
    elif code is codes.BRANCH:
        yield from (next(_samples(list(branch), 1), "") for branch in argument[1])
    elif code in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
        yield from _samples(list(argument[3] if code is codes.SUBPATTERN else argument), width)
    elif code in REPEATS:
        least, most, body = argument
        yield from (sample * max(least, 1 if most else 0) for sample in _samples(list(body), width))


def _of_class(items: Any) -> Iterator[str]:
    if items[0][0] is codes.NEGATE:
        refused = set(_of_class(items[1:]))
        yield from (char for char in ANY if char not in refused)
        return
    for code, argument in items:
        if code is codes.LITERAL:
            yield chr(argument)
        elif code is codes.RANGE:
            yield chr(argument[0])
        else:
            yield from OF_CATEGORY[str(argument).replace("UNI_", "")]


class TooLongError(Exception):
    """The processor time that was allowed is used up."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Stops what runs inside, a search of an expression too, after so many seconds of this
    process's processor time.
    """

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


if __name__ == "__main__":
    _compile_all()
