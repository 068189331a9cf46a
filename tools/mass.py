"""Weigh the code in tokens, room by room, beside the budget of each.

    python tools/mass.py            the package and its tests
    python tools/mass.py FILE…      single files or folders; a file of another language weighs 0

A token is a name, a number, an operator or a string. Comments, docstrings and layout weigh
nothing, so no reformatting changes a figure; a long string weighs a quarter of its words.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUDGETS = {
    "adk": 14_000,
    "cli": 10_000,
    "ingestion": 18_000,
    "language": 7_000,
    "memories": 15_000,
    "models": 9_000,
    "redaction": 5_500,
    "remote": 2_000,
    "retention": 3_000,
    "retrieval": 15_000,
    "server": 20_000,
    "settings": 3_000,
    "stores": 44_000,
    "testing": 26_000,
    "single modules": 5_000,
    "tests": 200_000,
}
WITH_CLI = "doctor.py"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def weigh(code: str) -> int:
    """Count the tokens of a module."""
    documentation = _docstring_lines(code)
    total = 0
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.STRING:
            if token.start[0] not in documentation:
                total += max(1, len(token.string.split()) // 4)
        elif token.type not in LAYOUT:
            total += 1
    return total


def weigh_path(path: Path) -> int:
    """Count the tokens of a file, or of all modules in a folder."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return sum(weigh(file.read_text(encoding="utf-8")) for file in files if file.suffix == ".py")


def weigh_rooms() -> Counter[str]:
    """Count the tokens of each room of the package, and of the tests."""
    rooms: Counter[str] = Counter(tests=weigh_path(ROOT / "tests"))
    for path in sorted((ROOT / "kagent_memory").iterdir()):
        if path.is_dir() and path.name != "__pycache__":
            rooms[path.name] += weigh_path(path)
        elif path.suffix == ".py":
            rooms["cli" if path.name == WITH_CLI else "single modules"] += weigh_path(path)
    return rooms


def _docstring_lines(code: str) -> set[int]:
    """Return the lines of strings that stand alone."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def main(names: list[str]) -> int:
    """Print the figures; return 1 if a room is over its budget."""
    if names:
        for name in names:
            print(f"{weigh_path(Path(name)):>9,}  {name}")
        return 0
    rooms = weigh_rooms()
    print(f"{'room':<16}{'tokens':>10}{'budget':>10}")
    for room, budget in BUDGETS.items():
        mark = "  over" if rooms[room] > budget else ""
        print(f"{room:<16}{rooms[room]:>10,}{budget:>10,}{mark}")
    package = sum(rooms.values()) - rooms["tests"]
    print(f"{'package':<16}{package:>10,}")
    return int(any(rooms[room] > budget for room, budget in BUDGETS.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
