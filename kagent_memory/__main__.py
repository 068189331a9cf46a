"""`kagent-memory`, and `python -m kagent_memory`."""

import signal
import sys


def main() -> int:
    """Run the command line; Ctrl-C during its import ends the program without a stack trace."""
    former = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run

    signal.signal(signal.SIGINT, former)
    return run()


if __name__ == "__main__":
    sys.exit(main())
