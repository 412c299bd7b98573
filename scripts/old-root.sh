#!/usr/bin/env bash
# Tries a wheel and an archive (scripts/wheel.sh, scripts/package.sh) in a root of
# Debian 11, which has glibc 2.31 and gcc 10: the wheel computes an attention, a
# program in C builds against either, and the executable compiles and runs a bundle.
# The root is made once, with a CPython built in it, and kept in build/old-root-PYTHON.
# Needs root (for chroot), and 2 CPU minutes the first time.
# usage: scripts/old-root.sh [WHEEL [ARCHIVE]]
#   default: build/wheel/*.whl, build/release/package/*.tar.gz
#   DEBIAN_MIRROR: where Debian's packages come from (default http://deb.debian.org/debian)
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=${1:-$(ls build/wheel/*.whl)}
archive=${2:-$(ls build/release/package/*.tar.gz)}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
# That of Debian 12, whose sources are kept as long as it is; Debian 11 has 3.9.
python=3.11.2
source=pool/main/p/python3.11/python3.11_$python.orig.tar.gz
sum=2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849
root=$PWD/build/old-root-$python
inside=(env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot)

[ "$(id -u)" = 0 ] || {
  echo "old-root: expects to be root, for chroot, but got user $(id -un)" >&2
  exit 1
}

# Leaves the command in `debootstrap`, from Debian's package where it is not installed.
find_debootstrap() {
  debootstrap=(debootstrap)
  command -v debootstrap >/dev/null && return
  mkdir "$work/tool"
  (cd "$work/tool" && apt-get -o APT::Sandbox::User=root download --quiet debootstrap >/dev/null && dpkg-deb --extract ./*.deb .)
  debootstrap=(env DEBOOTSTRAP_DIR="$work/tool/usr/share/debootstrap" "$work/tool/usr/sbin/debootstrap")
}

# Leaves the folder of what is in the making in `work`, for the trap.
make_root() {
  work=$(mktemp -d build/old-root.XXXXXX)
  work=$PWD/$work
  trap 'rm -rf --one-file-system "$work"' EXIT
  find_debootstrap
  echo "old-root: making $root"
  # It mounts /proc there, which goes with the process.
  unshare --mount --propagation private "${debootstrap[@]}" --variant=minbase \
    --include=gcc,libc6-dev,make,zlib1g-dev,libffi-dev bullseye "$work/root" "$mirror" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
  build_python "$work"
  mv -T "$work/root" "$root"
}

build_python() {
  local work=$1
  /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "$mirror/$source" "$work/python.tar.gz" "SHA256:$sum" \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  mkdir "$work/root/usr/src/python"
  tar -C "$work/root/usr/src/python" --strip-components=1 -xf "$work/python.tar.gz"
  "${inside[@]}" "$work/root" sh -ec "cd /usr/src/python && ./configure --quiet --disable-test-modules && make -s -j$(nproc) && make -s install" \
    >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
  rm -rf "$work/root/usr/src/python"
}

[ -d "$root" ] || make_root

# What is tried, and the one package that it needs from elsewhere.
rm -rf --one-file-system "$root/try"
mkdir -p "$root/try/packages"
cp "$wheel" "$archive" docs/examples/c/attention.c docs/examples/attention.mlir "$root/try"
platforms=()
for version in 2014 _2_17 _2_27 _2_28; do
  platforms+=(--platform "manylinux${version}_$(uname -m)")
done
python3 -m pip download --quiet --no-deps --only-binary=:all: "${platforms[@]}" --python-version "${python%.*}" \
  --dest "$root/try/packages" numpy
cat >"$root/try/attention.py" <<'PYTHON'
import numpy
import flashcore

rng = numpy.random.default_rng(1)
q, k, v = (rng.standard_normal((1, 2, 100, 64)).astype("float16") for _ in range(3))
o = flashcore.attention(q, k, v, causal=True)
scores = numpy.tril(numpy.ones((100, 100), bool))
scores = numpy.where(scores, numpy.einsum("bhqd,bhkd->bhqk", *(x.astype(float) for x in (q, k))) / 8, -numpy.inf)
weights = numpy.exp(scores - scores.max(-1, keepdims=True))
expected = numpy.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v.astype(float))
error = abs(o - expected).max()
assert error < 5e-3, error
PYTHON
cat >"$root/try/try.sh" <<'SHELL'
cd /try
say() { echo "old-root: $*"; }
python3 -m venv venv
venv/bin/python -m pip install --quiet --no-index --find-links packages numpy ./*.whl
venv/bin/python attention.py
say "the wheel computes an attention"

# runs_bundle PROGRAM FLASHCORE: the program writes a bundle that runs.
runs_bundle() {
  "$1" "b1 h2 s100 d64 causal" "$1.fcb" >explanation
  grep -q "^attention on sm_90: batch 1, heads 2" explanation
  "$2" run "$1.fcb" --device=emulator | grep "^PASS"
}
flags=$(venv/bin/flashcore config --cflags --libs)
gcc attention.c $flags -o from-wheel
runs_bundle ./from-wheel venv/bin/flashcore
say "a program in C builds against the wheel"

mkdir unpacked
tar -C unpacked --strip-components=1 -xf ./*.tar.gz
unpacked/bin/flashcore compile attention.mlir --emit=bundle --no-cubin -o attention.fcb
unpacked/bin/flashcore run attention.fcb --device=emulator | grep "^PASS"
say "the executable compiles and runs"
gcc attention.c -Iunpacked/include -Lunpacked/lib -lflashcore -Wl,-rpath,/try/unpacked/lib -o from-archive
runs_bundle ./from-archive unpacked/bin/flashcore
say "a program in C builds against the archive"
SHELL
# With /proc, by which the loader knows where an executable lies; it goes with the process.
unshare --mount --propagation private bash -c 'mount -t proc proc "$1/proc" && exec "${@:2}"' _ "$root" \
  "${inside[@]}" "$root" sh -e /try/try.sh
rm -rf --one-file-system "$root/try"
echo "old-root: all of it runs with $("${inside[@]}" "$root" ldd --version | sed -n 1p)"
