"""Skip tests whose program or package a contributor's setup lacks; fail them where CI is set."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

PACKAGES = {
    "axe_playwright_python",
    "fastembed",
    "grpc_tools",
    "kubernetes_validate",
    "onnx",
    "playwright",
}
"""The packages of the extra `dev` that the extra `test` leaves out."""
_FOLDERS = os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"]
)


def program(*names: str) -> str:
    """Return the path of the first program that is installed; skip the test if none is."""
    return next(
        (path for name in names if (path := shutil.which(name, path=_FOLDERS))), None
    ) or missing(names[0])


def package(name: str) -> None:
    """Skip the test if a package is not installed."""
    if importlib.util.find_spec(name) is None:
        missing(name)


def missing(name: str) -> NoReturn:
    """Skip the test that needs a program or package; fail it where CI is set."""
    if os.environ.get("CI"):
        pytest.fail(f"{name} is not installed, and CI runs every test")
    pytest.skip(f"{name} is not installed")


class Unavailable(pytest.Module):
    """A module of tests that cannot be imported, because a package is missing."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        pytest.skip(f"{_lacking(self.path)} is not installed", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip a module of tests whose imports are not installed, except where CI is set."""
    if os.environ.get("CI") or _lacking(module_path) is None:
        return None
    return Unavailable.from_parent(parent, path=module_path)


def _lacking(path: Path) -> str | None:
    """Return the first optional package that a module imports and that is not installed."""
    imported = re.findall(r"^(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return next(
        (name for name in sorted(PACKAGES & {*imported}) if importlib.util.find_spec(name) is None),
        None,
    )
