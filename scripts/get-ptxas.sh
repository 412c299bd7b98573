#!/usr/bin/env bash
# Makes sure there is a ptxas: in $CUDA_HOME/bin, on PATH, or else from NVIDIA's
# wheel, unpacked into BUILD/ptxas/bin, where flashcore-compile looks for it.
# usage: scripts/get-ptxas.sh BUILD
set -euo pipefail
build=${1:?usage: scripts/get-ptxas.sh BUILD}
wheel=nvidia-cuda-nvcc==13.0.88

[ -x "${CUDA_HOME:-/nonexistent}/bin/ptxas" ] && exit 0
command -v ptxas >/dev/null && exit 0
[ -x "$build/ptxas/bin/ptxas" ] && exit 0

echo "setup: no ptxas found, taking it from the wheel $wheel"
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
python3 -m pip download --quiet --no-deps --dest "$download" "$wheel"
python3 - "$download" "$build/ptxas/bin" <<'PYTHON'
import pathlib
import sys
import zipfile

download, target = map(pathlib.Path, sys.argv[1:])
wheel = next(download.glob("*.whl"))
with zipfile.ZipFile(wheel) as archive:
    member = next(n for n in archive.namelist() if n.endswith("/bin/ptxas"))
    data = archive.read(member)
target.mkdir(parents=True, exist_ok=True)
temporary = target / "ptxas.tmp"
temporary.write_bytes(data)
temporary.chmod(0o755)
temporary.rename(target / "ptxas")
PYTHON
