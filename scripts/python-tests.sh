#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into fresh virtual
# environments of the oldest and the newest CPython at hand, and runs its tests
# there, away from the tree. Without PyTorch, whose own tests skip: with --torch
# it is installed too (gigabytes), in the newest only.
# usage: scripts/python-tests.sh [--torch] [PRESET]     PRESET: release (default)
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(numpy ml_dtypes pytest)
torch=
if [ "${1:-}" = --torch ]; then
  torch=1
  shift
fi
preset=${1:-release}
scripts/wheel.sh "$preset"
wheel=$(ls "$PWD"/build/wheel/*.whl)

# "VERSION PATH" of each CPython that the wheel is for, oldest first.
pythons=$(for python in $(compgen -c python3 | grep -xE 'python3(\.[0-9]+)?' | sort -u | xargs -n 1 which 2>/dev/null) \
  "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
  "$python" -c 'import sys, venv, ensurepip
if sys.implementation.name == "cpython" and sys.version_info >= (3, 10):
    print("3.%d" % sys.version_info[1], sys.executable)' 2>/dev/null || true
done | sort -t. -k2 -n -u)
[ -n "$pythons" ] || {
  echo "python-tests: expects a CPython from 3.10 on with venv (Debian: python3-venv), but found none" >&2
  exit 1
}
oldest=$(head -n 1 <<<"$pythons")
newest=$(tail -n 1 <<<"$pythons")

run() { # VERSION PATH [PACKAGE]...
  local version=$1 python=$2
  shift 2
  local venv=build/python-tests/$version
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet "$wheel" "${packages[@]}" "$@"
  echo "python-tests: CPython $version"
  tests=$PWD/python/tests
  (cd "$venv" && bin/python -m pytest -q -p no:cacheprovider "$tests")
}
# shellcheck disable=SC2086 # version and path are two words
if [ "$oldest" != "$newest" ]; then
  run $oldest
fi
# shellcheck disable=SC2086
run $newest ${torch:+torch transformers}
