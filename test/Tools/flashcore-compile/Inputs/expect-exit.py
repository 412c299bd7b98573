"""Runs a command and fails unless it exits with the expected code.

usage: expect-exit.py CODE COMMAND...
"""

import subprocess
import sys

expected = int(sys.argv[1])
actual = subprocess.run(sys.argv[2:]).returncode
if actual != expected:
    sys.exit(f"expects exit code {expected}, but got {actual}")
