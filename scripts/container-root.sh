#!/usr/bin/env bash
# Does what Containerfile says in a fresh root of Debian, made by debootstrap, and
# then runs its command there: what podman does with it, where there is none.
# Needs root. Installs debootstrap if it is missing.
# usage: scripts/container-root.sh [ROOT]     default: build/container, made anew
#   DEBIAN_MIRROR: where packages come from (default http://deb.debian.org/debian)
#   SSL_CERT_FILE: certificates that pip in the root trusts, too, as behind a proxy
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
root=${1:-build/container}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

[ "$(id -u)" = 0 ] || { echo "container-root: expects root, but got $(id -un)" >&2; exit 2; }
if ! command -v debootstrap >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
fi

export certificates=/etc/host-certificates.crt
make_root() { # FROM debian:12
  local suite
  case $1 in
    debian:12) suite=bookworm ;;
    debian:13) suite=trixie ;;
    *) echo "container-root: expects debian:12 or debian:13, but got $1" >&2 && exit 2 ;;
  esac
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  root=$(cd "$root" && pwd)
  debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" || { tail -n 20 "$root.log" >&2; exit 1; }
  cat >"$root/etc/apt/sources.list" <<SOURCES
deb $mirror $suite main
deb $mirror $suite-updates main
deb ${mirror%/}-security $suite-security main
SOURCES
  cp /etc/resolv.conf "$root/etc/"
  if [ -n "${SSL_CERT_FILE:-}" ]; then cp "$SSL_CERT_FILE" "$root/$certificates"; fi
}

# In the root, with /proc and /dev, which go with the namespace.
inside() {
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$1 folder=$2
    shift 2
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      DEBIAN_FRONTEND=noninteractive ${SSL_CERT_FILE:+PIP_CERT=$certificates} bash -c "cd \"\$1\" && shift && exec \"\$@\"" bash "$folder" "$@"' bash "$root" "$folder" "$@"
}

folder=/
while read -r instruction rest; do
  case $instruction in
    '' | '#'*) continue ;;
    FROM) make_root "$rest" ;;
    RUN) inside bash -c "$rest" ;;
    WORKDIR) folder=$rest && mkdir -p "$root$folder" ;;
    COPY)
      [ "$rest" = ". ." ] || { echo "container-root: expects COPY . ., but got COPY $rest" >&2; exit 2; }
      git clone --quiet "$source" "$root$folder"
      ;;
    CMD) mapfile -t words < <(python3 -c 'import json, sys; print(*json.loads(sys.argv[1]), sep="\n")' "$rest") && inside "${words[@]}" ;;
    *) echo "container-root: expects instructions that it knows, but got $instruction" >&2 && exit 2 ;;
  esac
done <Containerfile
echo "container-root: Containerfile does as it says"
