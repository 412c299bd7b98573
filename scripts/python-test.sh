#!/usr/bin/env bash
# Builds the wheel, installs it into fresh virtual environments of the oldest and
# the newest Python at hand, and runs the package's tests there.
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

for python in $(printf '%s\n' "${pythons[0]}" "${pythons[-1]}" | uniq); do
  version=$("$python" -c 'import platform; print(platform.python_version())')
  venv=build/python-test-$version
  echo "python-test: $version"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  # shellcheck disable=SC2086 # several packages
  "$venv/bin/python" -m pip install --quiet "$(echo build/wheel/*.whl)[test]" ${PYTHON_TEST_PACKAGES:-}
  # Not from here, where `import flashcore` would find the sources.
  (cd build && env -u PYTHONPATH "../$venv/bin/python" -m pytest -q -p no:cacheprovider \
    "$OLDPWD/python/tests" "$@")
done
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
"$venv/bin/python" -m mypy --strict --follow-imports=silent $files
