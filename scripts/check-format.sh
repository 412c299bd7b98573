#!/usr/bin/env bash
# Fails when a C or C++ file is not as clang-format wants it; --fix rewrites it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/llvm.sh
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files -z '*.c' '*.cpp' '*.h' | xargs -0 -n 50 -P "$(nproc)" "$(llvm_tool clang-format)" "${mode[@]}"
