"""Makes a root directory with one executable and the libraries it needs.

usage: make-root.py EXECUTABLE DIRECTORY
"""

import pathlib
import re
import shutil
import subprocess
import sys

executable, root = map(pathlib.Path, sys.argv[1:])
shutil.rmtree(root, ignore_errors=True)
root.mkdir(parents=True)
shutil.copy2(executable, root)
listing = subprocess.run(["ldd", executable], check=True, capture_output=True, text=True).stdout
for library in re.findall(r"(/\S+) \(0x", listing):
    target = root / library.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(library, target)
