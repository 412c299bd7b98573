#!/usr/bin/env bash
# Unpacks the libc and libgcc_s of Debian 11 (glibc 2.31) into build/libc-VERSION-ARCH,
# unless they are there, and prints that folder. What is released is linked against
# them (cmake/modules/OldLibc.cmake), so that it runs on systems older than this one.
# usage: scripts/get-libc.sh [ARCH]     ARCH: amd64 or arm64 (default: this machine's)
#   DEBIAN_MIRROR: where Debian's packages come from (default http://deb.debian.org/debian)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/relink.sh
mirrors=("${DEBIAN_MIRROR:-http://deb.debian.org/debian}" http://archive.debian.org/debian)
version=2.31-13+deb11u11
case ${1:-$(uname -m)} in
  amd64 | x86_64)
    arch=amd64
    packages=(
      "glibc/libc6_${version}_amd64 05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282"
      "glibc/libc6-dev_${version}_amd64 e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3"
      "gcc-10/libgcc-s1_10.2.1-6_amd64 e478f2709d8474165bb664de42e16950c391f30eaa55bc9b3573281d83a29daf"
    )
    ;;
  arm64 | aarch64)
    arch=arm64
    packages=(
      "glibc/libc6_${version}_arm64 baaa9aa184e2f21738c5819055e6740cc5b22f198e3f416e33f82b40ff6933d8"
      "glibc/libc6-dev_${version}_arm64 28d478134722dcd4b0bd2045a199301d18713bf95947b9fce66634e7aeacab2e"
      "gcc-10/libgcc-s1_10.2.1-6_arm64 e2fcdb378d3c1ad1bcb64d4fb6b37aab44011152beca12a4944f435a2582df1f"
    )
    ;;
  *)
    echo "get-libc: expects amd64 or arm64, but got '${1:-$(uname -m)}'" >&2
    exit 1
    ;;
esac
root=$PWD/build/libc-$version-$arch
if ! [ -d "$root" ]; then
  mkdir -p build
  work=$(mktemp -d build/get-libc.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  # apt has the user's proxies, and checks the sums.
  for package in "${packages[@]}"; do
    read -r path sum <<<"$package"
    file=$work/${path##*/}.deb
    for mirror in "${mirrors[@]}"; do
      /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "$mirror/pool/main/g/$path.deb" "$file" "SHA256:$sum" \
        >"$work/log" 2>&1 && break
      rm -f "$file"
    done
    [ -f "$file" ] || {
      cat "$work/log" >&2
      echo "get-libc: expects ${path##*/}.deb from ${mirrors[*]}, but got none" >&2
      exit 1
    }
    dpkg-deb --extract "$file" "$work/root"
  done
  relink "$work/root"
  rm -rf "$work"/root/usr/share
  mv -T "$work/root" "$root" 2>/dev/null || [ -d "$root" ] # another process was first
fi
echo "$root"
