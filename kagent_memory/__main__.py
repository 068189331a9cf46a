"""`python -m kagent_memory`."""

import sys

from .cli import main

sys.exit(main())
