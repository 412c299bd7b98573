#!/usr/bin/env bash
# Installs what FlashCore needs on Debian 12 or 13 and builds it into build/PRESET.
# Elsewhere it says what is needed, and builds with the LLVM that LLVM_DIR names.
# usage: [LLVM_DIR=PREFIX] scripts/setup.sh [PRESET]
#   PRESET: release (default), static, debug, asan, ci
#   PREFIX: has bin and lib of LLVM and MLIR; nothing is installed then
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
. scripts/llvm.sh

# Debian 12 has these from its security archive, Debian 13 has them itself.
packages=(
  libmlir-$llvm_version-dev mlir-$llvm_version-tools llvm-$llvm_version-dev llvm-$llvm_version-tools
  clang-$llvm_version lld-$llvm_version clang-format-$llvm_version clang-tidy-$llvm_version cmake ninja-build libgtest-dev nlohmann-json3-dev libcli11-dev
  python3 python3-dev python3-pip python3-venv zlib1g-dev libzstd-dev
)
[ "$preset" = asan ] && packages+=(libclang-rt-$llvm_version-dev)

explain_other_systems() {
  cat >&2 <<MESSAGE
setup: expects Debian 12 or 13, but got $1; nothing was installed or built
What FlashCore needs:
  LLVM and MLIR $llvm_version.1 with their CMake packages, shared libraries, archives and tools
  clang or gcc with C++20, CMake 3.24 or newer, ninja, Python 3
  nlohmann-json 3.11, CLI11 2; zlib and zstd as archives (FLASHCORE_STATIC_LLVM only)
  GoogleTest, lit and FileCheck of LLVM (tests); ptxas of CUDA 13 (cubins)
With them, where PREFIX has LLVM and MLIR (bin/llvm-config, lib/cmake):
  LLVM_DIR=PREFIX scripts/setup.sh $preset
In a container that has Debian: podman build -t flashcore .
The runtime alone needs nlohmann-json, CLI11 and a C++20 compiler: cmake -S runtime
MESSAGE
  exit 1
}

# With the LLVM of LLVM_DIR: sets `options`, what CMake is told beside the preset.
options=()
use_given_llvm() {
  local version cmake
  version=$("$llvm/bin/llvm-config" --version 2>/dev/null) || version="no $llvm/bin/llvm-config"
  [[ $version == "$llvm_version".* ]] || {
    echo "setup: expects LLVM_DIR to name the folder of LLVM $llvm_version, but got $version" >&2
    exit 1
  }
  cmake=$("$llvm/bin/llvm-config" --cmakedir)
  [ -f "${cmake%/llvm}/mlir/MLIRConfig.cmake" ] || {
    echo "setup: expects MLIR beside LLVM, but got no ${cmake%/llvm}/mlir/MLIRConfig.cmake" >&2
    exit 1
  }
  options=(-DLLVM_DIR="$cmake" -DMLIR_DIR="${cmake%/llvm}/mlir")
  # The preset's names are Debian's.
  if [ -x "$llvm/bin/clang++" ]; then
    options+=(-DCMAKE_C_COMPILER="$llvm/bin/clang" -DCMAKE_CXX_COMPILER="$llvm/bin/clang++")
    options+=(-DLLVM_USE_LINKER="$([ ! -x "$llvm/bin/ld.lld" ] || echo lld)")
  else
    options+=(-DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_CXX_COMPILER="${CXX:-c++}" -DLLVM_USE_LINKER=)
  fi
}

# FLASHCORE_OS_RELEASE is for the test of this script.
system=$(. "${FLASHCORE_OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-}" "${VERSION_ID:-}") || system=
missing=()
if [ -n "${LLVM_DIR:-}" ]; then
  use_given_llvm
  packages=()
else
  case $system in
    # By path: CMake would find another name of the same compiler where LLVM's folder
    # leads PATH, delete its cache and take the system's.
    "debian 12" | "debian 13") options=(-DCMAKE_C_COMPILER=/usr/bin/clang-$llvm_version -DCMAKE_CXX_COMPILER=/usr/bin/clang++-$llvm_version) ;;
    *) explain_other_systems "${system:-a system without /etc/os-release}" ;;
  esac
fi
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

# What is released is linked against an older libc, so that it runs on older systems;
# what is built with another LLVM runs here.
case ${LLVM_DIR:+given-}$preset in release | static | ci)
  if folder=$(scripts/get-libc.sh); then
    options+=(-DFLASHCORE_LIBC_DIR="$folder")
  else
    echo "setup: going on with the libc of this system: flashcore, libflashcore.so and flashcore-run want one as new" >&2
  fi ;;
esac

# So it would in a folder of another compiler.
cache=build/$preset/CMakeCache.txt
had=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$cache" 2>/dev/null) || had=
for option in "${options[@]}"; do
  if [[ $option == -DCMAKE_CXX_COMPILER=/* && -n $had && $had != "${option#*=}" ]]; then
    echo "setup: configuring build/$preset anew, which was built with $had"
    rm -rf "$cache" "build/$preset/CMakeFiles"
  fi
done
cmake --preset "$preset" "${options[@]}" >"build-$preset.log" 2>&1 || { cat "build-$preset.log"; rm -f "build-$preset.log"; exit 1; }
mv "build-$preset.log" "build/$preset/configure.log"
scripts/get-ptxas.sh "build/$preset" ||
  echo "setup: going on without ptxas: PTX and the emulator need none, cubins do; set CUDA_HOME to a CUDA 13 toolkit for them" >&2
echo "setup: building into build/$preset"
cmake --build --preset "$preset" >"build/$preset/build.log" 2>&1 || { tail -n 60 "build/$preset/build.log"; exit 1; }
