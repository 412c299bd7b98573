#!/usr/bin/env bash
# All tests, from nothing: installs, builds, then unit tests, lit tests and those
# of the Python package. GPU tests skip with a line that says so. What takes long
# and seldom finds anything is tested in turns, by the commit's hash
# (docs/Testing.md lists it). The last lines say what each step took.
# usage: scripts/test.sh [PRESET]
#   FLASHCORE_TEST_TURN: 0 to 7 instead of the commit's turn, or all for everything
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
. scripts/llvm.sh
if [ -z "${FLASHCORE_TEST_TURN:-}" ]; then
  commit=$(git rev-parse HEAD 2>/dev/null) && FLASHCORE_TEST_TURN=$((16#${commit:0:7} % 8)) || FLASHCORE_TEST_TURN=all
fi
if ! [[ $FLASHCORE_TEST_TURN =~ ^([0-7]|all)$ ]]; then
  echo "test: expects FLASHCORE_TEST_TURN to be 0 to 7 or all, but got '$FLASHCORE_TEST_TURN'" >&2
  exit 2
fi
export FLASHCORE_TEST_TURN
# The installed LLVM is not instrumented: what its headers annotate in our code
# its libraries do not, so those annotations mean nothing here.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:detect_container_overflow=0:detect_odr_violation=0:allow_user_poisoning=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}

# The step that runs, and what it and those before it took; seconds of the CPU
# are those of children that have ended.
step_name='' step_cpu=0 step_wall=0 rows=() spent=$(mktemp)
step() {
  local cpu
  times >"$spent"
  cpu=$(awk 'NR == 2 { gsub(/[ms]/, " "); print int(60 * ($1 + $3) + $2 + $4 + 0.5) }' "$spent")
  [ -z "$step_name" ] || rows+=("$step_name" $((cpu - step_cpu)) $((SECONDS - step_wall)))
  step_name=$1 step_cpu=$cpu step_wall=$SECONDS
  shift
  "$@"
}
finish() {
  step '' true
  printf 'test: %-8s %7s %7s\n' step 'CPU s' 'wall s' "${rows[@]}" all "$step_cpu" "$SECONDS"
  rm -f "$spent"
}
trap finish EXIT

style() {
  scripts/check-text.sh
  scripts/check-format.sh
  scripts/function-size.py
}
# Projects that use the installed package: on every fourth commit.
unit() {
  local others=()
  [[ $FLASHCORE_TEST_TURN =~ ^([01]|all)$ ]] || others=(-E '^package-')
  ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" "${others[@]}"
}

echo "test: turn $FLASHCORE_TEST_TURN of this commit"
step setup scripts/setup.sh "$preset"
step style style
step tidy scripts/check-tidy.sh --build="build/$preset" --recent
step unit unit
step lit "$(llvm_tool lit)" -sv "build/$preset/test"
case $preset in
  release | ci) step python scripts/python-test.sh "$preset" ;;
  *) echo "test: the Python package is tested with the presets release and ci, not $preset" ;;
esac
if ! [ -e /dev/nvidia0 ]; then
  echo "test: no GPU here, so scripts/gpu-check.sh (results, sanitizer and timings on a GPU) was skipped"
fi
python3 scripts/nightly-table.py --print-ages
