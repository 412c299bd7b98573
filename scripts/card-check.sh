#!/usr/bin/env bash
# Compares flashcore-emu with the NVIDIA GPU of this machine: arithmetic and
# whole kernels (compare-with-card.py), then traffic counters through ncu
# (compare-counters.py). Needs the driver, ncu, Python 3.10 or later, and a folder
# made elsewhere by `scripts/make-bundles.py --only card --out DIR`. The folder
# has a copy of all that runs here, this script and the Python package included,
# so it may travel alone.
# usage: scripts/card-check.sh [DIR] [LOGS] [SEED]
#   DIR defaults to build/card, LOGS to DIR/logs, SEED to that of the corpus.
set -uo pipefail
scripts=$(dirname "$0")
dir=${1:-build/card}
logs=${2:-$dir/logs}
seed=${3:+--seed=$3}
emulator="$dir/flashcore-emu"
mkdir -p "$logs"
# A package that is installed comes second: it may be of another version.
[ -d "$dir/python/flashcore/lib" ] && export PYTHONPATH="$dir/python${PYTHONPATH:+:$PYTHONPATH}"
failed=0

# summary NAME FILE: the last line of what was found.
summary() {
  if [ -s "$2" ]; then
    echo "$1: $(tail -n 1 "$2")"
  else
    echo "$1: not compared; see the error above"
  fi
}

if ! [ -x "$emulator" ]; then
  echo "card-check: no flashcore-emu in $dir; run scripts/make-bundles.py --only card --out $dir first" >&2
  exit 2
fi
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || {
  echo "card-check: no NVIDIA GPU or driver here" >&2
  exit 2
}

results="$logs/results.npz"
python3 "$scripts/compare-with-card.py" --device cuda ${seed:+"$seed"} --kernels "$dir" --out "$results" &&
  python3 "$scripts/compare-with-card.py" --compare "$results" --kernels "$dir" --emulator "$emulator" \
    --json "$logs/differences.json" >"$logs/arithmetic.txt" 2>&1 || failed=1
summary arithmetic "$logs/arithmetic.txt"

python3 "$scripts/compare-counters.py" --ncu ncu --kernels "$dir" --out "$logs/counters.json" &&
  python3 "$scripts/compare-counters.py" --compare "$logs/counters.json" --kernels "$dir" --emulator "$emulator" \
    --markdown "$logs/counters.md" >/dev/null || failed=1
summary counters "$logs/counters.md"
exit $failed
