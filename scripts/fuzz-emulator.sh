#!/usr/bin/env bash
# Fuzzes the emulator's loader, its interpreter and the arguments of its tool at
# the same time under ASan and UBSan, for MINUTES (20 if not given). Fails at the first crash, leak,
# undefined behaviour, or input that takes more than 10 s or 2 GiB, and leaves
# that input in build/fuzz/found. Installs the runtime of libFuzzer where it is
# missing. CXX names another Clang to use.
# usage: scripts/fuzz-emulator.sh [MINUTES]
#        scripts/fuzz-emulator.sh --add corpus|corpus-arguments FILE...
#   --add: takes inputs into a corpus of runtime/emulator/fuzz, by their names
set -euo pipefail
if [ "${1:-}" = --add ]; then
  archive=$(dirname "$0")/../runtime/emulator/fuzz/${2:-}.tar.gz
  if [ $# -lt 3 ] || ! [ -e "$archive" ]; then
    sed -n '/^# usage: /,/^#  *scripts/s/^# //p' "$0" >&2
    exit 2
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/corpus"
  tar xzf "$archive" -C "$work/corpus"
  cp -- "${@:3}" "$work/corpus"
  # Of the same inputs always the same bytes.
  (cd "$work/corpus" && find . -type f -printf '%P\0' | LC_ALL=C sort -z |
    tar -c --null --verbatim-files-from --files-from=- --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r) |
    gzip -9n >"$work/archive"
  mv "$work/archive" "$archive"
  exit
fi
cd "$(dirname "$0")/.."
. scripts/llvm.sh
minutes=${1:-20}
build=build/fuzz
if ! [[ $minutes =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: $0 [MINUTES], got '$minutes'" >&2
  exit 2
fi

# libFuzzer and the sanitizers come apart from the compiler.
cxx=${CXX:-$llvm/bin/clang++}
package=libclang-rt-$llvm_version-dev
has_fuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }' |
    "$cxx" -x c++ -fsanitize=fuzzer,address,undefined -o /dev/null - 2>"$1"
}
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
if ! has_fuzzer "$errors" && [ -z "${CXX:-}${LLVM_DIR:-}" ] && command -v apt-get >/dev/null; then
  echo "fuzz: installing $package"
  sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends clang-$llvm_version $package cmake ninja-build nlohmann-json3-dev >/dev/null
fi
if ! has_fuzzer "$errors"; then
  cat "$errors" >&2
  echo "fuzz: $cxx cannot link a fuzzer: expects clang with its compiler-rt ($package on Debian)" >&2
  exit 2
fi

cmake -S runtime/emulator -B $build -G Ninja -DFLASHCORE_EMU_FUZZ=ON \
  -DFLASHCORE_EMU_TESTS=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
targets=(Load Launch Arguments)
ninja -C $build "${targets[@]/#/FlashCoreEmulatorFuzz}"

mkdir -p $build/found
pids=()
for target in "${targets[@]}"; do
  corpus=corpus dictionary=ptx.dict
  [ $target != Arguments ] || corpus=corpus-arguments dictionary=arguments.dict
  # New inputs go to the work directory; the corpus, which CMake has unpacked, is
  # only read.
  mkdir -p "$build/work-$target"
  $build/fuzz/FlashCoreEmulatorFuzz$target "$build/work-$target" \
    "$build/fuzz/$corpus" -dict=runtime/emulator/fuzz/$dictionary \
    -max_total_time=$((minutes * 60)) -max_len=16384 -timeout=10 \
    -rss_limit_mb=2048 -malloc_limit_mb=16384 -print_final_stats=1 \
    -artifact_prefix=$build/found/$target- >$build/$target.log 2>&1 &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
  wait "$pid" || status=1
done
for target in "${targets[@]}"; do
  echo "== $target"
  grep -aE 'DONE|stat::|ERROR|SUMMARY|runtime error' $build/$target.log ||
    tail -n 5 $build/$target.log
done
exit $status
