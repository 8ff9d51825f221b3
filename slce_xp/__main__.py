"""``python -m slce_xp``: the command ``slce-xp``."""

import sys

from slce_xp.cli import main

if __name__ == "__main__":
    sys.exit(main())
