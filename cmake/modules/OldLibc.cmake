# What is released runs on systems with glibc 2.28 or newer, whatever this one has:
# the same objects are linked against the files of an older libc.
set(FLASHCORE_LIBC_DIR "" CACHE PATH
  "Files of glibc 2.31, which scripts/get-libc.sh unpacks: what is released is \
linked against them, and runs with glibc 2.28; without them, with this system's")

# Links an executable or shared library so that where it runs only libraries are
# needed that every system has: those of libc and, with FLASHCORE_LIBC_DIR, libgcc_s.
# (The libgcc_eh of a newer system wants a newer libc, too.)
function(flashcore_link_for_old_libc target)
  target_link_options(${target} PRIVATE
    $<$<LINK_LANGUAGE:CXX>:-static-libstdc++>)
  if(NOT FLASHCORE_LIBC_DIR)
    target_link_options(${target} PRIVATE -static-libgcc)
    return()
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "FLASHCORE_LIBC_DIR needs clang, but CMAKE_CXX_COMPILER is "
      "${CMAKE_CXX_COMPILER_ID}: gcc looks for libraries of this system all the same")
  endif()
  if(NOT TARGET FlashCoreOldLibc)
    add_library(FlashCoreOldLibc OBJECT
      ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../libc/OldLibc.c)
    target_compile_options(FlashCoreOldLibc PRIVATE
      -Wall -Wextra -O2 -fno-builtin -ffunction-sections)
    set_target_properties(FlashCoreOldLibc PROPERTIES
      POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
  endif()
  # The C++ library and libgcc are those of the compiler.
  set(cross)
  if(CMAKE_CROSSCOMPILING)
    set(cross --target=${CMAKE_CXX_COMPILER_TARGET} --sysroot=${CMAKE_SYSROOT})
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${cross} -print-libgcc-file-name
    OUTPUT_VARIABLE libgcc OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  cmake_path(GET libgcc PARENT_PATH gcc)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:FlashCoreOldLibc>)
  target_link_options(${target} PRIVATE
    --sysroot=${FLASHCORE_LIBC_DIR} --gcc-install-dir=${gcc}
    -pthread)
  # This and threads are a part of libc since glibc 2.34.
  target_link_libraries(${target} PRIVATE m dl)
endfunction()
