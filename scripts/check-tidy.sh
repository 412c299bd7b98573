#!/usr/bin/env bash
# Fails where clang-tidy finds something (.clang-tidy says what it looks for).
# Needs a build, whose compile_commands.json says how each file is compiled.
# usage: scripts/check-tidy.sh [--build=DIR] [--recent | --sample | --changed | --all | FILE...]
#   --recent:  12 files, in a minute: what is changed, or was by the last commit
#              where nothing is, and others drawn by the commit; what CI runs
#   --sample:  the smallest source of each folder, in two minutes
#   --changed: C++ that differs from the branch this one follows (the default)
#   --all:     all sources, in ten minutes; what scripts/nightly.sh runs
#   --build=DIR: the build folder (default build/release)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/llvm.sh
usage() {
  sed -n 's/^# usage: /usage: /p' scripts/check-tidy.sh >&2
  exit 2
}
build=build/release mode=changed files=()
for argument in "$@"; do
  case $argument in
    --build=*) build=${argument#--build=} ;;
    --recent | --sample | --changed | --all) mode=${argument#--} ;;
    -*) echo "check-tidy: unknown option '$argument'" >&2 && usage ;;
    *) files+=("$argument") && mode=files ;;
  esac
done
commands=$build/compile_commands.json
if ! [ -e "$commands" ]; then
  echo "check-tidy: expects a build in $build, but found no $commands; scripts/setup.sh makes build/release" >&2
  exit 2
fi

# Tests may be as long as what they list.
sources() {
  git ls-files 'lib/*.cpp' 'runtime/*.cpp' 'tools/*.cpp' 'python/src/*.cpp' | grep -v /unittests/ |
    while read -r file; do
      grep -qF "/$file\"" "$commands" && echo "$file"
    done
}
base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD)
changed() {
  git diff --name-only --diff-filter=d "$base" -- 'lib/*' 'include/*' 'runtime/*' 'tools/*' 'python/src/*' |
    grep -E '\.(cpp|h)$' | grep -v /unittests/ || true
}
# Shuffled, the same way for a commit.
drawn() {
  shuf --random-source=<(yes "$(git rev-parse HEAD)")
}
recent() {
  if [ "$(git rev-parse HEAD)" = "$base" ]; then
    base=$(git rev-parse --quiet --verify HEAD~1 || echo "$base")
  fi
  changed | drawn
  sources | drawn
}
case $mode in
  recent) mapfile -t files < <(recent | awk '!seen[$0]++ && ++count <= 12') ;;
  sample) # of two that are as small, the first by name
    mapfile -t files < <(sources | xargs wc -c | grep -v ' total$' | sort -k1,1n -k2 |
      awk '{folder = $2; sub("/[^/]*$", "", folder)} !seen[folder]++ {print $2}')
    ;;
  changed) mapfile -t files < <(changed) ;;
  all) mapfile -t files < <(sources) ;;
esac
if ((${#files[@]} == 0)); then
  echo "check-tidy: no C++ is changed"
  exit 0
fi

# One file: its findings in one piece, without the count of those in headers of
# others.
tidy() {
  local found
  found=$("$clang_tidy" --quiet --experimental-custom-checks --checks="custom-*" -p "$1" "$2" 2>&1) && return
  grep -vE '^[0-9]+ warnings? (generated|treated)' <<<"$found"
  return 1
}
export -f tidy
clang_tidy=$(llvm_tool clang-tidy) && export clang_tidy
failed=0
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'tidy "$@"' tidy "$build" {} || failed=1
((failed)) || echo "check-tidy: ${#files[@]} files are clean"
exit $failed
