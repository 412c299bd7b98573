#!/usr/bin/env bash
# All tests, from nothing: installs, builds, then unit tests, lit tests and those
# of the Python package. GPU tests skip with a line that says so.
# usage: scripts/test.sh [PRESET]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
scripts/setup.sh "$preset"
. scripts/llvm.sh
# The installed LLVM is not instrumented: what its headers annotate in our code
# its libraries do not, so those annotations mean nothing here.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:detect_container_overflow=0:detect_odr_violation=0:allow_user_poisoning=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}
scripts/check-text.sh
scripts/check-format.sh
scripts/function-size.py
scripts/check-tidy.sh --build="build/$preset" --sample
ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)"
"$(llvm_tool lit)" -sv "build/$preset/test"
case $preset in
  release | ci) scripts/python-test.sh "$preset" ;;
  *) echo "test: the Python package is tested with the presets release and ci, not $preset" ;;
esac
if ! [ -e /dev/nvidia0 ]; then
  echo "test: no GPU here, so scripts/gpu-check.sh (results, sanitizer and timings on a GPU) was skipped"
fi
