"""Weigh an install: megabytes on top of google-adk, CPU seconds and memory of the import.

    python bench/sizes.py                     # every extra of pyproject.toml but dev and docs
    python bench/sizes.py server postgres     # these

Each is installed by pip into an environment of its own, beside one with google-adk alone whose
packages it sees, so that only what is added counts: without byte code, which Python writes later.
Needs an index and minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
RUNS = 5
FOR_US = {"dev", "docs"}  # extras that no user installs
PROBE = """
import json, resource, sys, time
start = time.process_time()
{code}
seconds = time.process_time() - start
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit]))
"""
IMPORTS = {
    "google.adk, as an agent needs it": (
        "from google.adk.agents import LlmAgent; from google.adk.runners import Runner"
    ),
    "the same and kagent_memory": "from google.adk.agents import LlmAgent; from "
    "google.adk.runners import Runner\n"
    "from kagent_memory import KagentMemoryService, enable_memory",
    "kagent_memory's verbs without ADK": "from kagent_memory import Memories, Scope",
}


class Environment:
    """A virtual environment, which sees the packages of another one."""

    def __init__(self, folder: Path, parent: Environment | None = None) -> None:
        venv.create(folder, with_pip=True)
        self.python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        self.packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
        if parent:
            (self.packages / "beside.pth").write_text(f"{parent.packages}\n", encoding="utf-8")

    def install(self, *requirements: str) -> float:
        """Install packages, and return the megabytes that they add."""
        before = self._megabytes()
        options = ["-qq", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([self.python, "-m", "pip", "install", *options, *requirements], check=True)
        return self._megabytes() - before

    def measure(self, code: str) -> tuple[float, float]:
        """Return CPU seconds and megabytes of an import: medians, without the first run, which
        writes the byte code.
        """
        command = [self.python, "-c", PROBE.replace("{code}", code)]
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        }
        runs = [json.loads(subprocess.check_output(command, env=environ)) for _ in range(RUNS + 1)][
            1:
        ]
        return statistics.median(run[0] for run in runs), statistics.median(
            run[1] for run in runs
        ) / 1e6

    def _megabytes(self) -> float:
        files = (
            path
            for path in self.packages.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        )
        return sum(path.stat().st_size for path in files) / 1e6


def main() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("extra", nargs="*", choices=[*extras, []], help="default: all")
    parser.add_argument("--adk", default="google-adk", help='such as "google-adk==2.13.0"')
    args = parser.parse_args()
    chosen = args.extra or [name for name in extras if name not in FOR_US]
    with tempfile.TemporaryDirectory(prefix="kagent-memory-sizes-") as temporary:
        folder = Path(temporary)
        adk = Environment(folder / "adk")
        print(
            f"| install | MB |\n|---|---|\n| {args.adk} | {adk.install(args.adk):.0f} |", flush=True
        )
        plain = Environment(folder / "plain", adk)
        print(f"| + kagent-memory | +{plain.install(str(ROOT)):.0f} |", flush=True)
        for name in chosen:
            added = Environment(folder / name, plain)
            (added.packages / "adk.pth").write_text(f"{adk.packages}\n", encoding="utf-8")
            print(f"| + [{name}] | +{added.install(*extras[name]):.0f} |", flush=True)
        print("\n| import | CPU seconds | MB resident |\n|---|---|---|")
        for what, code in IMPORTS.items():
            seconds, megabytes = plain.measure(code)
            print(f"| {what} | {seconds:.2f} | {megabytes:.0f} |", flush=True)


if __name__ == "__main__":
    main()
