#!/usr/bin/env bash
# Installs what FlashCore needs on Debian 12 and builds it into build/PRESET.
# usage: scripts/setup.sh [PRESET]     PRESET: release (default), static, debug, asan, ci
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}

packages=(
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools clang-22 lld-22
  clang-format-22 cmake ninja-build libgtest-dev nlohmann-json3-dev libcli11-dev
  python3 python3-pip zlib1g-dev libzstd-dev
)
[ "$preset" = asan ] && packages+=(libclang-rt-22-dev)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "setup: installing ${missing[*]}"
  sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

cmake --preset "$preset" >"build-$preset.log" 2>&1 || { cat "build-$preset.log"; rm -f "build-$preset.log"; exit 1; }
mv "build-$preset.log" "build/$preset/configure.log"
scripts/get-ptxas.sh "build/$preset"
echo "setup: building into build/$preset"
cmake --build "build/$preset" >"build/$preset/build.log" 2>&1 || { tail -n 60 "build/$preset/build.log"; exit 1; }
