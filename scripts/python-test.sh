#!/usr/bin/env bash
# Builds the wheel, installs it into fresh virtual environments of the oldest and
# the newest Python at hand, and runs the package's tests there: all of them with
# the newest. With the oldest scripts/test.sh runs those of the surface, where
# versions of Python differ, and scripts/nightly.sh all.
# usage: scripts/python-test.sh [PRESET] [PYTEST ARGUMENT...]
#   PYTHON_TEST_PACKAGES: what to install beside it, such as "torch transformers";
#   without them their tests skip.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# = 0 ] || shift
scripts/wheel.sh "$preset"

# The Pythons at hand from 3.10 on, oldest first.
pythons=()
for minor in {10..20}; do
  for found in "python3.$minor" "$HOME"/.pyenv/versions/3."$minor".*/bin/python; do
    if "$found" -c 'import ensurepip' 2>/dev/null; then
      pythons+=("$found")
      break
    fi
  done
done
if ((${#pythons[@]} == 0)); then
  echo "python-test: expects Python 3.10 or newer with its venv module, but found none" >&2
  exit 1
fi

# One of them in an environment of its own.
test_with() {
  local python=$1 venv=$2
  shift 2
  rm -rf "$venv"
  "$python" -m venv "$venv"
  # shellcheck disable=SC2086 # several packages
  "$venv/bin/python" -m pip install --quiet "$(echo build/wheel/*.whl)[test]" ${PYTHON_TEST_PACKAGES:-}
  # Not from here, where `import flashcore` would find the sources.
  (cd build && env -u PYTHONPATH "../$venv/bin/python" -m pytest -q -p no:cacheprovider -n "$(nproc)" --durations=10 "$@")
}

# What imports every module, reads the arguments, the arrays and the command line,
# and one kernel of each kind. (By their name without test_ and .py)
surface=(package arguments arrays cli cli_doctor compiler bundle kinds)

# Side by side: those of the surface end soon.
venvs=() running=()
for python in $(printf '%s\n' "${pythons[0]}" "${pythons[-1]}" | uniq); do
  venv=build/python-test-$("$python" -c 'import platform; print(platform.python_version())')
  tests=("$PWD/python/tests")
  if [ "${FLASHCORE_TEST_TURN:-all}" != all ] && [ "$python" != "${pythons[-1]}" ]; then
    tests=("${surface[@]/#/$PWD/python/tests/test_}") && tests=("${tests[@]/%/.py}")
  fi
  test_with "$python" "$venv" "${tests[@]}" "$@" >"$venv.log" 2>&1 &
  venvs+=("$venv") running+=($!)
done
failed=0
for i in "${!venvs[@]}"; do
  wait "${running[i]}" || failed=1
  echo "python-test: ${venvs[i]#build/python-test-}"
  cat "${venvs[i]}.log"
done
venv=${venvs[-1]}
((failed == 0))

# The parts for other packages are checked where those are installed: the last of
# the environments has what PYTHON_TEST_PACKAGES names.
venv=$PWD/$venv
"$venv/bin/python" -m pip install --quiet mypy
cd python
files=$(ls flashcore/*.py flashcore/cli/*.py | grep -vE 'flash_attn|transformers')
if "$venv/bin/python" -c 'import torch, transformers' 2>/dev/null; then
  files=$(find flashcore -name '*.py')
fi
# shellcheck disable=SC2086 # several files
"$venv/bin/python" -m mypy --strict --follow-imports=silent $files tests/typed_calls.py
