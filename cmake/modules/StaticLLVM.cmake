# For targets of flashcore_link_statically (with the property
# FLASHCORE_STATIC_LLVM): the target
# FlashCoreStaticLLVM has the archives of LLVM, with NVPTX as the only backend,
# and the archives of MLIR are made to use it.
#
# Distributions export those of MLIR with the shared libLLVM as their
# dependency, and LLVMSupport with shared zstd and z3 libraries. Nothing else in
# FlashCore links these targets, so they are repaired in place.

llvm_map_components_to_libnames(_components
  Analysis AsmParser BitReader BitWriter Core FrontendOpenMP InstCombine
  IPO IRReader Linker MC NVPTX Passes Remarks ScalarOpts Support Target
  TargetParser TransformUtils)
add_library(FlashCoreStaticLLVM INTERFACE)
target_link_libraries(FlashCoreStaticLLVM INTERFACE ${_components})

find_library(FLASHCORE_ZLIB_ARCHIVE libz.a)
find_library(FLASHCORE_ZSTD_ARCHIVE libzstd.a)
mark_as_advanced(FLASHCORE_ZLIB_ARCHIVE FLASHCORE_ZSTD_ARCHIVE)
foreach(_archive ZLIB ZSTD)
  if(NOT FLASHCORE_${_archive}_ARCHIVE)
    string(TOLOWER ${_archive} _name)
    message(FATAL_ERROR "FLASHCORE_STATIC_LLVM needs the archive of ${_name}, "
      "which was not found. Install its development package (zlib1g-dev, "
      "libzstd-dev), or set FLASHCORE_${_archive}_ARCHIVE to its path.")
  endif()
endforeach()
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES
  "rt;dl;m;${FLASHCORE_ZLIB_ARCHIVE};${FLASHCORE_ZSTD_ARCHIVE};LLVMDemangle")

foreach(_target IN LISTS MLIR_EXPORTED_TARGETS)
  get_target_property(_libraries ${_target} INTERFACE_LINK_LIBRARIES)
  if(_libraries AND NOT _target STREQUAL "MLIR")
    list(TRANSFORM _libraries REPLACE "^LLVM$" FlashCoreStaticLLVM)
    set_target_properties(${_target} PROPERTIES
      INTERFACE_LINK_LIBRARIES "${_libraries}")
  endif()
endforeach()

# Links an executable or shared library with LLVM inside, for any system.
function(flashcore_link_statically target)
  set_target_properties(${target} PROPERTIES
    FLASHCORE_STATIC_LLVM ON
    # Nothing of LLVM is looked for where it runs.
    SKIP_BUILD_RPATH ON
    INSTALL_RPATH_USE_LINK_PATH OFF)
  flashcore_link_for_old_libc(${target})
  target_link_options(${target} PRIVATE -s LINKER:--gc-sections)
  # Only lld has it; without it the file is a quarter larger.
  include(CheckLinkerFlag)
  check_linker_flag(CXX LINKER:--icf=all FLASHCORE_HAS_ICF)
  if(FLASHCORE_HAS_ICF)
    target_link_options(${target} PRIVATE LINKER:--icf=all)
  endif()
endfunction()
