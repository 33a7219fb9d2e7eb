"""`python -m headwater`: the same as the command `headwater`."""

from __future__ import annotations

import sys

from headwater.command.cli import main

if __name__ == "__main__":
    sys.exit(main())
