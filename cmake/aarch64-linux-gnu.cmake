# Cross-compiles for aarch64 with this machine's clang and LLVM's tools, from a folder
# of Debian's arm64 packages. scripts/aarch64.sh configures with it.
include(${CMAKE_CURRENT_LIST_DIR}/modules/LLVMVersion.cmake)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER clang-${FLASHCORE_LLVM_MAJOR})
set(CMAKE_CXX_COMPILER clang++-${FLASHCORE_LLVM_MAJOR})
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)

# Small projects that CMake tries see this file, too, and what it is told.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FLASHCORE_SYSROOT)
set(CMAKE_SYSROOT "${FLASHCORE_SYSROOT}")
if(NOT IS_ABSOLUTE "${CMAKE_SYSROOT}" OR NOT EXISTS "${CMAKE_SYSROOT}")
  message(FATAL_ERROR "expects FLASHCORE_SYSROOT to be the folder that "
    "scripts/get-sysroot.sh prints, but got '${FLASHCORE_SYSROOT}'")
endif()
set(CMAKE_STRIP /usr/lib/llvm-${FLASHCORE_LLVM_MAJOR}/bin/llvm-strip
  CACHE FILEPATH "")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -fuse-ld=lld-${FLASHCORE_LLVM_MAJOR})
endforeach()

# Programs run here, all else is from there.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
