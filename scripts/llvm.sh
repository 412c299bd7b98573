# shellcheck shell=bash
# Where LLVM and MLIR are: sourced by scripts, and read by llvm.py. LLVM_DIR names
# their folder, which has bin and lib, where a system has them elsewhere; what CMake
# calls by that name will do.
# shellcheck disable=SC2034 # for those that source it
llvm_version=22
llvm=${LLVM_DIR:-/usr/lib/llvm-$llvm_version}
[[ $llvm =~ ^(.*)/lib[^/]*/cmake/llvm/?$ ]] && llvm=${BASH_REMATCH[1]}
llvm=${llvm%/}

# llvm_tool NAME: the path of a tool of this LLVM, or its name, for PATH, where it has none.
llvm_tool() {
  if [ -x "$llvm/bin/$1" ]; then echo "$llvm/bin/$1"; else echo "$1"; fi
}
