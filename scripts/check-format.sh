#!/usr/bin/env bash
# Fails when a C++ file is not as clang-format wants it; --fix rewrites it.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files '*.cpp' '*.h' | xargs clang-format-22 "${mode[@]}"
