#!/usr/bin/env bash
# All that takes too long for scripts/test.sh. Writes the log of each step into
# build/nightly/DATE and a row of docs/Nightly.md, and goes on where a step fails.
# Builds the release preset first.
# usage: scripts/nightly.sh [--minutes M] [STEP]...
#   --minutes M: of each fuzzer (default 10)
#   STEP: of those below; without one, all run in this order
set -uo pipefail
cd "$(dirname "$0")/.."
minutes=10
export FLASHCORE_TEST_TURN=all # what CI tests in turns is whole here
chosen=()
steps=(tidy whole docs fresh mutants grid chips far defaults fuzz-configurations fuzz-programs fuzz-opt fuzz-emulator site torch models serving container old-root aarch64 asan)

tidy() { # clang-tidy over all of the C++
  scripts/check-tidy.sh --all
}
whole() { # all tests of scripts/test.sh, those too that it has in turns
  scripts/test.sh
}
docs() { # the commands of the pages that are marked `nightly`, mutants apart
  python3 scripts/check-docs.py -v --when=nightly "${pages[@]}"
}
fresh() { # the first command of README.md, in a copy of the tree without a build
  python3 scripts/check-docs.py -v --when=fresh README.md
}
mutants() { # every mutant of docs/EmulatorValidation.md, by its command
  python3 scripts/check-docs.py -v --when=nightly docs/EmulatorValidation.md
}
grid() { # the emulator's grid of kernels, each in all orders of warps and copies
  local tools=build/release/bin
  python3 scripts/make-bundles.py --only emulate --no-cubin --out "$log/grid" --compiler $tools/flashcore-compile &&
    python3 test/Emulator/schedules.py $tools/flashcore-emu "$log/grid/emulate.json" &&
    rm -rf "$log/grid"
}
chips() { # the defaults for each chip at every head_dim that is a multiple of 8: right on the emulator, no spills, within its shared memory
  local tools=build/release/bin
  python3 scripts/make-bundles.py --only chips --no-cubin --out "$log/chips" --compiler $tools/flashcore-compile &&
    $tools/flashcore-run --device=emulator --grid "$log/chips/chips.json" &&
    python3 test/Tools/flashcore-compile/Inputs/check-resources.py $tools/flashcore-compile "$log/chips" head-dims &&
    rm -rf "$log/chips"
}
far() { # masks, infinities, sinks and large scores for every schedule, each with all types, head dims and masks
  local tools=build/release/bin
  python3 scripts/make-bundles.py --only far-whole --no-cubin --out "$log/far" --compiler $tools/flashcore-compile &&
    $tools/flashcore-run --device=emulator --grid "$log/far/far-whole.json" &&
    rm -rf "$log/far"
}
defaults() { # 500 attentions drawn at random: no default spills more than a few bytes, none takes long to compile
  python3 scripts/draw-defaults.py --jobs="$(nproc)" --json="$log/defaults.json"
}
fuzz-configurations() { # random attentions, schedules and runs against the reference
  python3 scripts/fuzz-configurations.py --minutes="$minutes"
}
fuzz-programs() { # random functions of several ops against the reference
  python3 scripts/fuzz-programs.py --minutes="$minutes"
}
fuzz-opt() { # changed IR and bytecode through random passes
  python3 scripts/fuzz-opt.py --minutes="$minutes"
}
fuzz-emulator() { # random PTX for the emulator's parser and interpreter
  scripts/fuzz-emulator.sh "$minutes"
}
torch() { # the tests of the Python package beside PyTorch and Transformers, the oldest and the newest of both, and mypy over all of it
  PYTHON_TEST_PACKAGES='torch transformers psutil' scripts/python-test.sh release || return 1
  python3 scripts/torch-versions.py --update
}
models() { # tiny models of Transformers in bfloat16, with padding, under the SDPA switch
  local venv=build/models
  scripts/wheel.sh release && python3 -m venv $venv &&
    $venv/bin/python -m pip install --quiet torch transformers numpy build/wheel/*.whl &&
    $venv/bin/python -m pip install --quiet --no-deps --force-reinstall build/wheel/*.whl &&
    $venv/bin/python scripts/transformers-models.py
}
serving() { # the backends of vLLM and SGLang with these engines' own pools and metadata, on the emulator, and the repository of kernels
  local venv=$PWD/build/serving
  scripts/wheel.sh release && python3 -m venv "$venv" &&
    "$venv/bin/python" -m pip install --quiet 'vllm==0.33.*' ipython gguf kernels pytest pytest-xdist build/wheel/*.whl &&
    "$venv/bin/python" -m pip install --quiet --no-deps 'sglang==0.5.23' && # it pins another PyTorch
    "$venv/bin/python" -m pip install --quiet --no-deps --force-reinstall build/wheel/*.whl &&
    (cd build && "$venv/bin/python" -m pytest -q -p no:cacheprovider -n "$(nproc)" ../python/tests/test_{vllm,sglang,kernels_repository}.py)
}
site() { # the site of the documentation: its links, and the docstrings as pages
  scripts/site.sh
}
container() { # what Containerfile says, in a fresh root of Debian: both commands of README.md need nothing else
  scripts/container-root.sh build/container && rm -rf --one-file-system build/container
}
old-root() { # the wheel, the archive and programs in C with either in a root of Debian 11 (as root)
  scripts/wheel.sh release && scripts/package.sh && scripts/old-root.sh
}
aarch64() { # a cross build for aarch64, which compiles and emulates as that for this machine does, under qemu
  scripts/aarch64.sh
}
asan() { # all tests, with ASan and UBSan
  scripts/test.sh asan
}

# What a step's row says of its log; the last line, if nothing matches.
declare -A summary=(
  [whole]='^ *(Passed|Failed) *:|% tests passed|[0-9]+ passed|^test: all ' [tidy]='^check-tidy: |(warning|error): '
  [site]='^build/site' [torch]='^torch-versions|[0-9]+ passed|^Success: no issues|^Found [0-9]+ error' [models]='models agree' [serving]='[0-9]+ passed' [old-root]='^old-root: all' [aarch64]='variants, |^aarch64: ' [docs]='^(README|docs/|benchmarks/)[^ ]*:[0-9]+: ' [fresh]='^README.md.*: ' [mutants]='mutants, [0-9]+ unexpected'
  [container]='^PASS|^container-root: '
  [fuzz-emulator]='stat::number_of_executed_units|SUMMARY' [asan]='^ *(Passed|Failed) *:|% tests passed' [defaults]='"ratio"|spill|^seed'
)

# A function is read whole before it runs: steps may change the tree.
main() {
  while [ $# -gt 0 ]; do
    case $1 in
    --minutes) minutes=${2:?usage: scripts/nightly.sh [--minutes M] [STEP]...} && shift ;;
    -*) echo "nightly: unknown option '$1': expects --minutes" >&2 && exit 2 ;;
    *)
      [[ " ${steps[*]} " == *" $1 "* ]] || { echo "nightly: unknown step '$1': expects one of ${steps[*]}" >&2; exit 2; }
      chosen+=("$1")
      ;;
    esac
    shift
  done
  [ ${#chosen[@]} -gt 0 ] || chosen=("${steps[@]}")
  if ! [[ $minutes =~ ^[1-9][0-9]*$ ]]; then
    echo "nightly: expects --minutes to be a whole number of at least 1, but got '$minutes'" >&2
    exit 2
  fi
  pages=(README.md benchmarks/README.md docs/examples/embed/README.md)
  for page in docs/*.md; do
    [ "$page" = docs/EmulatorValidation.md ] || pages+=("$page")
  done

  log=build/nightly/$(date +%F)
  mkdir -p "$log"
  scripts/setup.sh release || exit 1
  failed=0
  for step in "${chosen[@]}"; do
    echo "nightly: $step ($(date +%T))"
    start=$SECONDS
    commit=$(python3 scripts/nightly-table.py --print-commit)
    result=ok
    "$step" >"$log/$step.log" 2>&1 || { result=FAILED; failed=1; }
    line=$(grep -aE "${summary[$step]:-^\$x}" "$log/$step.log" || grep -av '^$' "$log/$step.log" | tail -n 1)
    python3 scripts/nightly-table.py --step "$step" --what "$(sed -n "s/^$step() { # //p" scripts/nightly.sh)" \
      --commit "$commit" --result "$result" --seconds $((SECONDS - start)) --summary "$line"
    echo "nightly: $step: $result, $((SECONDS - start)) s, $log/$step.log"
  done
  exit $failed
}
main "$@"
