#!/usr/bin/env bash
# Installs what FlashCore needs on Debian 12 or 13 and builds it into build/PRESET.
# Elsewhere it says what is needed, and how to build with it.
# usage: scripts/setup.sh [PRESET]     PRESET: release (default), static, debug, asan, ci
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}

# Debian 12 has these from its security archive, Debian 13 has them itself.
packages=(
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools clang-22 lld-22
  clang-format-22 clang-tidy-22 cmake ninja-build libgtest-dev nlohmann-json3-dev libcli11-dev
  python3 python3-dev python3-pip python3-venv zlib1g-dev libzstd-dev
)
[ "$preset" = asan ] && packages+=(libclang-rt-22-dev)

explain_other_systems() {
  cat >&2 <<MESSAGE
setup: expects Debian 12 or 13, but got $1; nothing was installed or built
What FlashCore needs:
  LLVM and MLIR 22.1 with their CMake packages, shared libraries, archives and tools
  clang or gcc with C++20, CMake 3.24 or newer, ninja, Python 3
  nlohmann-json 3.11, CLI11 2; zlib and zstd as archives (FLASHCORE_STATIC_LLVM only)
  GoogleTest, lit and FileCheck of LLVM (tests); ptxas of CUDA 13 (cubins)
With them, where PREFIX has LLVM and MLIR:
  cmake -G Ninja -S . -B build/$preset -DCMAKE_BUILD_TYPE=Release \\
    -DMLIR_DIR=PREFIX/lib/cmake/mlir -DLLVM_DIR=PREFIX/lib/cmake/llvm \\
    -DFLASHCORE_STATIC_LLVM=ON
  cmake --build build/$preset
The runtime alone needs nlohmann-json, CLI11 and a C++20 compiler: cmake -S runtime
MESSAGE
  exit 1
}

# FLASHCORE_OS_RELEASE is for the test of this script.
system=$(. "${FLASHCORE_OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-}" "${VERSION_ID:-}") || system=
case $system in
  "debian 12" | "debian 13") ;;
  *) explain_other_systems "${system:-a system without /etc/os-release}" ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "setup: expects root or sudo to install packages, but got neither; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
      exit 1
    }
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

cmake --preset "$preset" >"build-$preset.log" 2>&1 || { cat "build-$preset.log"; rm -f "build-$preset.log"; exit 1; }
mv "build-$preset.log" "build/$preset/configure.log"
scripts/get-ptxas.sh "build/$preset" ||
  echo "setup: going on without ptxas: PTX and the emulator need none, cubins do; set CUDA_HOME to a CUDA 13 toolkit for them" >&2
echo "setup: building into build/$preset"
cmake --build --preset "$preset" >"build/$preset/build.log" 2>&1 || { tail -n 60 "build/$preset/build.log"; exit 1; }
