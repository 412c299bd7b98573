"""``python -m flashcore`` is the command ``flashcore``."""

import sys

from flashcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
