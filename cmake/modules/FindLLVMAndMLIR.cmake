# Finds the installed LLVM and MLIR that FlashCore builds against, and loads
# their CMake functions.
include(${CMAKE_CURRENT_LIST_DIR}/LLVMVersion.cmake)

find_package(MLIR ${FLASHCORE_LLVM_VERSION} REQUIRED CONFIG
  HINTS /usr/lib/llvm-${FLASHCORE_LLVM_MAJOR}/lib/cmake/mlir)
message(STATUS "Using MLIRConfig.cmake in: ${MLIR_DIR}")
message(STATUS "Using LLVMConfig.cmake in: ${LLVM_DIR}")

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")

# An installed LLVM names an llvm-lit that its packages do not ship.
if(NOT LLVM_EXTERNAL_LIT)
  find_program(LLVM_EXTERNAL_LIT lit HINTS "${LLVM_TOOLS_BINARY_DIR}" DOC "lit")
endif()

include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)

# The distribution's config leaves this unset although it ships libMLIR.so.
set(MLIR_LINK_MLIR_DYLIB ON)
