# The LLVM and MLIR that FlashCore is written for: their packages are asked for
# by FLASHCORE_LLVM_VERSION (one of 22.1 refuses a request for "22"), tools and
# folders of Debian have the first number in their names. For scripts it is in
# scripts/llvm.sh.
set(FLASHCORE_LLVM_VERSION 22.1)
string(REGEX MATCH "^[0-9]+" FLASHCORE_LLVM_MAJOR ${FLASHCORE_LLVM_VERSION})
