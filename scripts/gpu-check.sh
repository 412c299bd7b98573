#!/usr/bin/env bash
# Checks and times FlashCore's kernels on an NVIDIA GPU. Needs the driver, a
# folder made elsewhere by `scripts/make-bundles.py` with flashcore-run in it, and
# nothing of LLVM. compute-sanitizer is used if it is found.
# usage: scripts/gpu-check.sh [DIR] [check] [sanitize] [time] [compile] [docs] [python] [regress]
#   DIR defaults to build/gpu-check; without a step, all of them run. `compile`
#   compiles the examples here, with the flashcore that needs no LLVM; so does
#   `docs`, which runs the commands of the pages that need a GPU. `python` runs the
#   GPU tests of the package with PyTorch and pytest, in several processes where
#   pytest-xdist is installed. `regress` says which calls are slower than those of
#   another build, whose wheel lies in DIR/base.
#   FLASH_ATTN_CHECKOUT: an unpacked flash-attn 2.8.3, whose own tests `python` runs
#   then; FLASH_ATTN_EACH: so many of each function, drawn at random (default 120:
#   each draws a window of its own, so that most compile a kernel).
set -uo pipefail
dir=${1:-build/gpu-check}
[ $# -gt 0 ] && shift
steps=${*:-check sanitize time compile docs python regress}
run="$dir/flashcore-run"
logs=${GPU_CHECK_LOGS:-$dir/logs}
mkdir -p "$logs"
failed=0

if ! [ -x "$run" ]; then
  echo "gpu-check: no flashcore-run in $dir; run scripts/make-bundles.py first" >&2
  exit 2
fi
nvidia-smi --query-gpu=name,driver_version,power.limit --format=csv,noheader || {
  echo "gpu-check: no NVIDIA GPU or driver here" >&2
  exit 2
}

# Installs the wheel of the tree, or the one that travelled with the bundles, and
# lets Python find it; not zero without PyTorch or a wheel.
use_package() {
  python3 -c 'import torch' 2>/dev/null || return
  local site wheel
  site=$(cd "$dir" && pwd)/site
  if [[ ":${PYTHONPATH:-}:" != *":$site:"* ]]; then
    wheel=$(ls build/wheel/*.whl "$dir"/*.whl 2>/dev/null | head -n 1)
    [ -n "$wheel" ] || return
    python3 -m pip install --quiet --no-deps --no-compile --upgrade --target "$site" "$wheel" || return
    export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
  fi
}

for step in $steps; do
  case $step in
  check)
    lists=(check)
    # Kernels of warpgroups alone, on the chips that have them.
    [ "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)" = 9.0 ] && lists+=(warpgroups)
    for list in "${lists[@]}"; do
      "$run" --grid "$dir/$list.json" --json "$logs/$list.results.json" >"$logs/$list.txt" 2>&1 || failed=1
      grep -E '^(FAIL|ERROR)' "$logs/$list.txt" | head -n 20
      echo "$list: $(tail -n 1 "$logs/$list.txt")"
    done
    ;;
  sanitize)
    sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    if ! [ -x "$sanitizer" ]; then
      echo "sanitize: skipped, compute-sanitizer was not found"
      continue
    fi
    for tool in memcheck racecheck initcheck synccheck; do
      # The runtime asks the driver for one parameter more than a kernel has: only
      # its refusal tells that there are no more. memcheck would count it.
      options=()
      [ "$tool" = memcheck ] && options=(--report-api-errors no)
      "$sanitizer" --tool "$tool" "${options[@]}" --error-exitcode 3 "$run" --grid "$dir/sanitize.json" >"$logs/$tool.txt" 2>&1 || failed=1
      echo "sanitize: $tool: $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$logs/$tool.txt" | tail -n 1 | sed 's/=* *//')"
    done
    ;;
  time)
    "$run" --grid "$dir/time.json" --json "$logs/time.results.json" >"$logs/time.txt" 2>&1 || failed=1
    sed -n '/^result/,$p' "$logs/time.txt"
    ;;
  compile)
    if ! [ -e "$dir/flashcore.gz" ]; then
      echo "compile: skipped, no flashcore.gz in $dir"
      continue
    fi
    # flashcore-run takes the flashcore beside it as its compiler.
    gunzip -c "$dir/flashcore.gz" >"$dir/flashcore" && chmod +x "$dir/flashcore" || exit 2
    "$run" "$dir/attention.mlir" --device cuda -- --no-cubin >"$logs/compile.txt" 2>&1 || failed=1
    "$run" "$dir/attention-causal-dynamic.mlir" --device cuda --batch 2 --heads-q 4 --heads-kv 4 \
      --seqlen-q 203 --seqlen-k 512 -- --no-cubin >>"$logs/compile.txt" 2>&1 || failed=1
    sed 's/^/compile: /' "$logs/compile.txt"
    ;;
  docs)
    if ! [ -e "$dir/flashcore.gz" ] || ! [ -e scripts/check-docs.py ]; then
      echo "docs: skipped, no flashcore.gz in $dir, or not run in the root of the tree"
      continue
    fi
    if ! use_package; then
      echo "docs: skipped, needs PyTorch and a wheel in $dir (scripts/wheel.sh makes it)"
      continue
    fi
    # The pages find the tools under build/release/bin.
    mkdir -p "$dir/tree/bin"
    gunzip -c "$dir/flashcore.gz" >"$dir/tree/bin/flashcore" && chmod +x "$dir/tree/bin/flashcore" || exit 2
    for tool in compile opt emu; do
      ln -sf flashcore "$dir/tree/bin/flashcore-$tool"
    done
    cp "$run" "$dir/tree/bin/flashcore-run"
    # What docs/EmulatorValidation.md shows is scripts/card-check.sh, with bundles of its own.
    pages=(README.md benchmarks/README.md)
    for page in docs/*.md; do
      [ "$page" = docs/EmulatorValidation.md ] || pages+=("$page")
    done
    python3 scripts/check-docs.py -v --when=gpu --bin "$dir/tree/bin" "${pages[@]}" >"$logs/docs.txt" 2>&1 || failed=1
    grep -E '^(README|docs/|benchmarks/)' "$logs/docs.txt" | sed 's/^/docs: /'
    ;;
  regress)
    base=$(ls "$dir"/base/*.whl 2>/dev/null | head -n 1)
    if [ -z "$base" ] || ! use_package; then
      echo "regress: skipped, needs PyTorch, a wheel in $dir and that of another build in $dir/base"
      continue
    fi
    python3 -m pip install --quiet --no-deps --no-compile --upgrade --target "$dir/base/site" "$base" || exit 2
    python3 benchmarks/flashcore-bench regress --base "$dir/base/site" --new "$dir/site" >"$logs/regress.txt" 2>&1 || failed=1
    grep -E ' slower |: .* \|$' "$logs/regress.txt" | head -n 20
    echo "regress: $(tail -n 1 "$logs/regress.txt")"
    ;;
  python)
    if ! use_package || ! python3 -c 'import pytest' 2>/dev/null; then
      echo "python: skipped, needs PyTorch, pytest and a wheel in $dir (scripts/wheel.sh makes it)"
      continue
    fi
    tests=$PWD/python/tests
    processes=()
    python3 -c 'import xdist' 2>/dev/null && processes=(-n 8)
    # Not from here, where `import flashcore` would find the sources.
    (cd "$dir" && python3 -m pytest -q -p no:cacheprovider "${processes[@]}" \
      "$tests/gpu" "$tests/test_torch_flex.py" "$tests/test_torch_pages.py") >"$logs/python.txt" 2>&1 || failed=1
    grep -E '^(FAILED|ERROR)' "$logs/python.txt" | head -n 20
    echo "python: $(tail -n 1 "$logs/python.txt")"
    python3 scripts/training-check.py --steps 50 >"$logs/training.txt" 2>&1 || failed=1
    echo "python: $(grep gradients: "$logs/training.txt" || tail -n 1 "$logs/training.txt")"
    if [ -z "${FLASH_ATTN_CHECKOUT:-}" ]; then
      echo "python: flash-attn's tests skipped, FLASH_ATTN_CHECKOUT names no checkout of it"
      continue
    fi
    checkout=$(cd "$FLASH_ATTN_CHECKOUT" && pwd) || exit 2
    (cd "$dir" && python3 "$tests/upstream/run_flash_attn.py" "$checkout" \
      --each "${FLASH_ATTN_EACH:-120}" --processes 8 --json flash-attn.json) >"$logs/flash-attn.txt" 2>&1 || failed=1
    grep -E '^(FAILED|ERROR)' "$logs/flash-attn.txt" | head -n 20
    cp "$dir/flash-attn.json" "$logs/" && python3 - "$logs/flash-attn.json" <<'SUMMARY'
import collections, json, sys
summary = json.load(open(sys.argv[1]))
counts = sum((collections.Counter(c) for c in summary["outcomes"].values()), collections.Counter())
print(f"python: flash-attn's tests: {dict(counts)}, {sum(summary['asserts_of_outputs'].values())} asserts about outputs, not run: {summary['deselected']}")
SUMMARY
    ;;
  *)
    echo "gpu-check: unknown step '$step': expects check, sanitize, time, compile, docs or python" >&2
    exit 2
    ;;
  esac
done
exit $failed
