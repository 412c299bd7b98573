"""Makes a root directory with one executable and the libraries it needs.

usage: make-root.py EXECUTABLE DIRECTORY [LIBC]
  LIBC: where the libraries are, in lib and lib64; by default those of this system
"""

import pathlib
import re
import shutil
import subprocess
import sys

executable, root, *libc = map(pathlib.Path, sys.argv[1:])
shutil.rmtree(root, ignore_errors=True)
root.mkdir(parents=True)
shutil.copy2(executable, root)
for name in ("lib", "lib64"):
    if libc and (libc[0] / name).exists():
        shutil.copytree(libc[0] / name, root / name, symlinks=True)
if libc:
    sys.exit()
listing = subprocess.run(["ldd", executable], check=True, capture_output=True, text=True).stdout
for library in re.findall(r"(/\S+) \(0x", listing):
    target = root / library.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(library, target)
