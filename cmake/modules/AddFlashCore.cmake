# How every part of FlashCore is built: one function a kind of target.

set(FLASHCORE_CXX_FLAGS -Wall -Wextra -Wno-unused-parameter)
if(FLASHCORE_WERROR)
  list(APPEND FLASHCORE_CXX_FLAGS -Werror)
endif()
set(FLASHCORE_HAS_DEBUG_OUTPUT OFF)
if(FLASHCORE_ASSERTIONS OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(FLASHCORE_HAS_DEBUG_OUTPUT ON)
  list(APPEND FLASHCORE_CXX_FLAGS -UNDEBUG)
  if(NOT LLVM_ENABLE_ASSERTIONS)
    list(APPEND FLASHCORE_CXX_FLAGS
      "SHELL:-include ${PROJECT_SOURCE_DIR}/cmake/LLVMStatistic.h")
  endif()
endif()
if(FLASHCORE_SANITIZE)
  string(REPLACE ";" "," _sanitizers "${FLASHCORE_SANITIZE}")
  list(APPEND FLASHCORE_CXX_FLAGS -fsanitize=${_sanitizers} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${_sanitizers})
endif()
# Unit tests wait for what they test, and the build for the optimizer, which was
# half of what they cost. (The runtime and the emulator, which are projects of
# their own, say the same.)
set(FLASHCORE_TEST_FLAGS -O0)

# Links FlashCore targets as they are, MLIR ones through libMLIR.so, and all of
# LLVM through libLLVM.so (a static LLVM beside it would register things twice).
# An executable with the property FLASHCORE_STATIC_LLVM gets the archives of
# both instead; the libraries of FlashCore are the same objects for either.
function(flashcore_link target)
  set(is_static $<BOOL:$<TARGET_PROPERTY:FLASHCORE_STATIC_LLVM>>)
  target_link_libraries(${target} PUBLIC
    $<BUILD_INTERFACE:$<IF:${is_static},FlashCoreStaticLLVM,LLVM>>
    $<INSTALL_INTERFACE:LLVM> $<INSTALL_INTERFACE:MLIR>)
  foreach(lib ${ARGN})
    if(lib MATCHES "^MLIR")
      target_link_libraries(${target} PUBLIC
        $<BUILD_INTERFACE:$<IF:${is_static},${lib},MLIR>>)
    else()
      target_link_libraries(${target} PUBLIC ${lib})
    endif()
  endforeach()
endfunction()

# Headers that most of the compiler includes are parsed once: a source takes 1 to
# 3 seconds, not 7 to 20. A compiler cache does not see through them, so with
# one they are off.
set(_precompile ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(_precompile OFF)
endif()
option(FLASHCORE_PRECOMPILED_HEADERS
  "Parse the headers of MLIR's dialects once" ${_precompile})
# precompile_headers(Name [FLAGS flag...] [HEADERS header...]): these headers
# and the common ones, with these flags.
function(precompile_headers name)
  cmake_parse_arguments(ARG "" "" "FLAGS;HEADERS" ${ARGN})
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/empty.cpp)
  llvm_update_compile_flags(${name})
  target_compile_options(${name} PRIVATE ${FLASHCORE_CXX_FLAGS} ${ARG_FLAGS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS}
    <mlir/Dialect/Affine/IR/AffineOps.h>
    <mlir/Dialect/Arith/IR/Arith.h>
    <mlir/Dialect/GPU/IR/GPUDialect.h>
    <mlir/Dialect/LLVMIR/NVVMDialect.h>
    <mlir/Dialect/MemRef/IR/MemRef.h>
    <mlir/Dialect/SCF/IR/SCF.h>
    <mlir/Dialect/Vector/IR/VectorOps.h>
    <mlir/Pass/Pass.h>
    <mlir/Transforms/GreedyPatternRewriteDriver.h>)
endfunction()
if(FLASHCORE_PRECOMPILED_HEADERS)
  file(WRITE ${PROJECT_BINARY_DIR}/empty.cpp "")
  precompile_headers(FlashCoreCommonHeaders)
endif()
function(flashcore_reuse_headers target headers)
  if(FLASHCORE_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()

# A static library of the build, not installed.
function(add_flashcore_internal_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  target_compile_options(${name} PRIVATE ${FLASHCORE_CXX_FLAGS})
  add_dependencies(${name} FlashCoreIncGen ${ARG_DEPENDS})
  flashcore_link(${name} ${ARG_LINK_LIBS})
  flashcore_reuse_headers(${name} FlashCoreCommonHeaders)
endfunction()

# Gives a library the name that its users know, here and in the package:
# FlashCoreTarget is FlashCore::Target, FCGPUDialect FlashCore::FCGPUDialect.
function(flashcore_public_name target)
  string(REGEX REPLACE "^FlashCore" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "MODULE_LIBRARY") # which nothing can link
    add_library(FlashCore::${name} ALIAS ${target})
  endif()
endfunction()

# add_flashcore_library(Name a.cpp b.cpp DEPENDS GenTarget LINK_LIBS X MLIRIR)
function(add_flashcore_library name)
  add_flashcore_internal_library(${name} ${ARGN})
  flashcore_public_name(${name})
  target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:include>)
  install(TARGETS ${name} EXPORT FlashCoreCompilerTargets COMPONENT Compiler)
endfunction()

# add_flashcore_tool(name LIBRARY Lib ENTRY function a.cpp LINK_LIBS X)
# The sources define the function, with the arguments of main, in a library of
# their own; see tools/ToolMain.cpp.
function(add_flashcore_tool name)
  cmake_parse_arguments(ARG "" "LIBRARY;ENTRY" "LINK_LIBS" ${ARGN})
  add_flashcore_internal_library(${ARG_LIBRARY} ${ARG_UNPARSED_ARGUMENTS}
    LINK_LIBS ${ARG_LINK_LIBS})
  add_executable(${name} ${PROJECT_SOURCE_DIR}/tools/ToolMain.cpp)
  target_compile_definitions(${name} PRIVATE FLASHCORE_TOOL_ENTRY=${ARG_ENTRY})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARY})
  install(TARGETS ${name} COMPONENT Tools)
endfunction()

# add_flashcore_unittest(Name a.cpp LINK_LIBS X): a GoogleTest binary in ctest.
function(add_flashcore_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  target_compile_options(${name} PRIVATE
    ${FLASHCORE_CXX_FLAGS} ${FLASHCORE_TEST_FLAGS})
  add_dependencies(${name} FlashCoreIncGen)
  flashcore_link(${name} ${ARG_LINK_LIBS} GTest::gtest GTest::gtest_main)
  flashcore_reuse_headers(${name} FlashCoreTestHeaders)
  add_test(NAME ${name} COMMAND ${name})
  add_dependencies(FlashCoreUnitTests ${name})
endfunction()
