#!/usr/bin/env bash
# The main job, from nothing: installs, builds, compiles the reference shape
# (batch 1, 8 heads, 512 x 512, head_dim 64, f16), says what the kernel uses, runs
# it (on the GPU, or without one on the emulator) and checks the result.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/llvm.sh
scripts/setup.sh release
bin=build/release/bin
"$bin/flashcore-compile" docs/examples/attention.mlir --emit=bundle -o build/release/attention.fcb -v
"$bin/flashcore-run" build/release/attention.fcb --time
echo "the tools are in $bin: export PATH=\"$PWD/$bin:$llvm/bin:\$PATH\", then go on with README.md or docs/Tutorial.md"
