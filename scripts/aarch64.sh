#!/usr/bin/env bash
# Builds flashcore, libflashcore.so and the runtime for aarch64 (GH200, DGX Spark) into
# build/aarch64, on this machine: clang compiles against Debian's arm64 packages, and
# LLVM's tools are those that are installed. Then the executable compiles an attention
# and runs it on the emulator, under qemu and with glibc 2.31's files, and both give
# what build/release gives.
# scripts/package.sh build/aarch64 and scripts/wheel.sh aarch64 make what is released.
# usage: scripts/aarch64.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/llvm.sh
build=build/aarch64
sysroot=$(scripts/get-sysroot.sh)
libc=$(scripts/get-libc.sh arm64)

mkdir -p "$build"
cmake -G Ninja -S . -B "$build" --toolchain cmake/aarch64-linux-gnu.cmake -DFLASHCORE_SYSROOT="$sysroot" \
  -DFLASHCORE_LIBC_DIR="$libc" -DCMAKE_BUILD_TYPE=Release -DFLASHCORE_STATIC_LLVM=ON -DLLVM_USE_LINKER="lld-$llvm_version" \
  -DBUILD_TESTING=OFF -DFLASHCORE_EMU_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Python=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON >"$build/configure.log" 2>&1 || { tail -n 40 "$build/configure.log" >&2; exit 1; }
cmake --build "$build" --target flashcore flashcore-shared FlashCoreRuntime FlashCoreEmulator >"$build/build.log" ||
  { tail -n 60 "$build/build.log" >&2; exit 1; }

qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
if [ -z "$qemu" ]; then
  qemu=$PWD/$build/qemu/usr/bin/qemu-aarch64-static
  if ! [ -x "$qemu" ]; then
    mkdir -p "$build/qemu"
    (cd "$build/qemu" && apt-get -o APT::Sandbox::User=root download --quiet qemu-user-static >/dev/null &&
      dpkg-deb --fsys-tarfile ./*.deb | tar -x ./usr/bin/qemu-aarch64-static && rm ./*.deb)
  fi
fi
inside=("$qemu" -L "$libc" "$build/bin/flashcore")
"${inside[@]}" compile docs/examples/attention.mlir --emit=bundle --no-cubin -o "$build/attention.fcb"
"${inside[@]}" run "$build/attention.fcb" --device=emulator --seed 1
# The code is that of the compiler of this machine.
"${inside[@]}" compile docs/examples/attention.mlir -o "$build/attention.ptx"
build/release/bin/flashcore compile docs/examples/attention.mlir -o "$build/attention-here.ptx"
cmp "$build/attention.ptx" "$build/attention-here.ptx"
# So is what instructions of floating point compute, bit by bit.
cat >"$build/emu-under-qemu" <<SHELL
#!/bin/sh
exec "$qemu" -L "$libc" "$PWD/$build/bin/flashcore" emu "\$@"
SHELL
chmod +x "$build/emu-under-qemu"
python3 scripts/compare-with-card.py --device=emulator --only=float --seed=1 --out="$build/corpus.npz" >/dev/null
python3 scripts/compare-with-card.py --compare="$build/corpus.npz" --only=float --emulator="$build/emu-under-qemu" \
  >"$build/corpus.log" || { tail -n 20 "$build/corpus.log" >&2; exit 1; }
tail -n 1 "$build/corpus.log"
grep -q ' 0 within their bound, 0 broken$' "$build/corpus.log"
echo "aarch64: $build/bin/flashcore compiles the same code, and runs it under $("$qemu" --version | sed -n '1s/ (.*//p')"
