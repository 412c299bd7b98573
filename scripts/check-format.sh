#!/usr/bin/env bash
# Fails when a C or C++ file is not as clang-format wants it; --fix rewrites it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/llvm.sh
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files '*.c' '*.cpp' '*.h' | xargs "$(llvm_tool clang-format)" "${mode[@]}"
