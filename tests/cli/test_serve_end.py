"""`serve` closes what it opened when it is told to end: a private PostgreSQL stops with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from .conftest import serving


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_private_postgres_stops_when_serve_is_told_to_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    """`serve` that is told to end by a signal stops its private PostgreSQL and succeeds."""
    data = tmp_path / "pg"
    postmaster = 0
    try:
        with serving("--uri", f"pgserver:///{data}") as (process, said):
            assert said, "it did not start"
            postmaster = int((data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
            assert is_running(postmaster)
            process.send_signal(number)
            for _ in range(3):  # whoever is impatient breaks off nothing
                time.sleep(0.1)
                process.send_signal(number)
            _, said = process.communicate(timeout=180)
            assert (process.returncode, "Traceback" in said) == (0, False), said
            assert not is_running(postmaster), "the private PostgreSQL is left running"
    finally:
        if postmaster and is_running(postmaster):
            os.kill(postmaster, signal.SIGINT)
