#!/usr/bin/env bash
# Unpacks what a build for aarch64 needs of Debian 12's arm64 packages into
# build/sysroot-arm64, unless it is there, and prints that folder. Nothing is
# installed: LLVM's tools are this machine's, of the same version.
# usage: scripts/get-sysroot.sh
#   DEBIAN_MIRROR: where Debian's packages come from (default http://deb.debian.org/debian)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/llvm.sh
. scripts/relink.sh
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
arch=arm64
root=$PWD/build/sysroot-$arch
packages=(
  libmlir-$llvm_version-dev libmlir-$llvm_version llvm-$llvm_version-dev llvm-$llvm_version-linker-tools libllvm$llvm_version
  libc6 libc6-dev linux-libc-dev libcrypt-dev
  libstdc++-12-dev libstdc++6 libgcc-12-dev libgcc-s1 zlib1g-dev libzstd-dev nlohmann-json3-dev libcli11-dev
  libpython3.11-dev
)
if ! [ -d "$root" ]; then
  mkdir -p build
  work=$PWD/$(mktemp -d build/get-sysroot.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work"/{state/lists/partial,cache/archives/partial,packages}
  touch "$work/status"
  keys=/usr/share/keyrings/debian-archive-keyring.gpg
  cat >"$work/sources.list" <<SOURCES
deb [signed-by=$keys] $mirror bookworm main
deb [signed-by=$keys] ${mirror%/debian}/debian-security bookworm-security main
SOURCES
  # An apt of its own, which knows nothing of what is installed here.
  apt=(apt-get -qq -o APT::Architecture=$arch -o APT::Architectures::=$arch -o APT::Sandbox::User=root
    -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache"
    -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null)
  { "${apt[@]}" update && (cd "$work/packages" && "${apt[@]}" download "${packages[@]}"); } >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
  for package in "$work"/packages/*.deb; do
    dpkg-deb --extract "$package" "$work/root"
  done
  relink "$work/root"
  rm -rf "$work/root/usr/share/doc" "$work/root/usr/lib/llvm-$llvm_version/bin"
  ln -s "$llvm/bin" "$work/root/usr/lib/llvm-$llvm_version/bin"
  mv -T "$work/root" "$root" 2>/dev/null || [ -d "$root" ] # another process was first
fi
echo "$root"
