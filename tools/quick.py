"""Run the tests that a change touches, for at most half a minute: `python tools/quick.py [BASE]`.

A changed test runs itself, before all others. A changed module runs the test of its name, then the
tests of its room that import it, then the rest of its room. Whatever does not start in time is
named: `make test` runs all. The exit code is that of the tests that ran.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SECONDS = 25
SMOKE = [
    Path("tests/memories/test_recall.py"),
    Path("tests/adk/test_service.py"),
    Path("tests/test_package.py"),
]
"""The tests of modules that every room uses, such as errors.py."""


def changed_files(base: str) -> list[Path]:
    """Return the files that differ from `base`, committed or not."""
    merge_base = _git("merge-base", base, "HEAD") or ["HEAD"]
    names = _git("diff", "--name-only", merge_base[0])
    names += _git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in dict.fromkeys(names)]


def tests_of(changed: Path) -> list[Path]:
    """Return the tests that a changed file touches, the closest first."""
    if not (ROOT / changed).exists():
        return []
    if changed.parts[0] == "tests":
        return [changed] if changed.name.startswith("test_") and changed.suffix == ".py" else []
    if changed.parts[0] == "kagent_memory":
        return _tests_of_module(changed)
    if changed.suffix == ".md" or changed.parts[0] == "docs":
        return [Path("tests/test_docs.py")]
    if changed.parts[0] == ".github" or changed.name == "Makefile":
        return [Path("tests/test_workflows.py")]
    named = Path(f"tests/test_{changed.parts[0]}.py")
    return [named] if (ROOT / named).exists() else []


def _tests_of_module(changed: Path) -> list[Path]:
    room = changed.parts[1].removesuffix(".py")
    folder = Path("tests") / room
    if not (ROOT / folder).is_dir():
        return [path for path in [Path(f"tests/test_{room}.py")] if (ROOT / path).exists()] or SMOKE
    tests = sorted(path.relative_to(ROOT) for path in (ROOT / folder).glob("test_*.py"))
    dotted = ".".join(changed.with_suffix("").parts)
    named = [path for path in tests if path.stem == f"test_{changed.stem}"]
    importing = [path for path in tests if dotted in (ROOT / path).read_text(encoding="utf-8")]
    return list(dict.fromkeys([*named, *importing, *tests]))


def _git(*arguments: str) -> list[str]:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return ran.stdout.split()


class TimeLimit:
    """A pytest plugin: start no further test after some seconds, and name those that were left.

    They count neither as passed nor as failed. The first test always runs.
    """

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.started = 0
        self.left: Counter[str] = Counter()

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Return True, which tells pytest that the test is dealt with, if the time is over."""
        if self.started and time.monotonic() > self.end:
            self.left[item.path.relative_to(ROOT).as_posix()] += 1
            return True
        self.started += 1
        return None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many tests of which files did not run."""
        if self.left:
            files = ", ".join(f"{name} ({count})" for name, count in self.left.items())
            terminalreporter.write_line(
                f"{SECONDS} s are over; {self.left.total()} tests did not run: {files}. "
                "make test runs all."
            )


def main(arguments: list[str]) -> int:
    """Run the tests; return pytest's exit code."""
    files = changed_files(arguments[0] if arguments else "main")
    files.sort(key=lambda file: file.parts[0] != "tests")  # what a changed test says comes first
    tests = list(dict.fromkeys(test for file in files for test in tests_of(file)))
    if not tests:
        print("No test belongs to what has changed.")
        return 0
    print("Testing:", *tests)
    return pytest.main([str(ROOT / test) for test in tests], plugins=[TimeLimit(SECONDS)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
