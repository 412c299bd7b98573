# Makes the archive of a release, unpacks it in WORK, and uses it there as on a
# machine that has nothing: no environment, no PATH.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/modules/LLVMVersion.cmake)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

# run(DIRECTORY command...): its output in `output`; any failure ends the test.
function(run directory)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${directory}
    OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE code)
  message("${text}")
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "expects success of ${ARGN}, but got ${code}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

run(${SOURCE_DIR} scripts/package.sh ${BUILD_DIR} ${WORK})
file(GLOB archives RELATIVE ${WORK} ${WORK}/*)
if(NOT archives MATCHES "^(flashcore-[0-9.]+-linux-[^;]+)\\.tar\\.gz;flashcore-[^;]+\\.tar\\.gz\\.sha256$")
  message(FATAL_ERROR "expects an archive and its checksum, but got '${archives}'")
endif()
set(name ${CMAKE_MATCH_1})
run(${WORK} sha256sum --check --strict ${name}.tar.gz.sha256)
run(${WORK} tar xzf ${name}.tar.gz)
file(RENAME ${WORK}/${name} ${WORK}/unpacked)
set(root ${WORK}/unpacked)
run(${root} sha256sum --check --strict --quiet SHA256SUMS)
foreach(file README.md CHANGELOG.md LICENSE THIRD_PARTY_NOTICES.md
    docs/Embedding.md lib/libFlashCoreRuntime.a include/flashcore/Runtime/Bundle.h
    lib/libflashcore.so.0 include/flashcore-c/Compiler.h
    include/flashcore-c/Runtime.h include/flashcore-c/Emulator.h)
  if(NOT EXISTS ${root}/${file})
    message(FATAL_ERROR "expects ${file} in the archive")
  endif()
endforeach()

set(nothing env -i PATH=/nonexistent)
run(${root} ${nothing} bin/flashcore --version)
if(NOT output MATCHES "^flashcore [0-9.]+, LLVM ${FLASHCORE_LLVM_MAJOR}\\.")
  message(FATAL_ERROR "expects the version, but got '${output}'")
endif()
run(${root} ${nothing} bin/flashcore compile docs/examples/attention.mlir
  --emit=bundle --no-cubin -o ../attention.fcb)
run(${root} ${nothing} bin/flashcore run ../attention.fcb --device=emulator)
if(NOT output MATCHES "(^|\n)PASS")
  message(FATAL_ERROR "expects PASS, but got '${output}'")
endif()
# By the name of a link, with itself as the compiler.
run(${root} ${nothing} bin/flashcore-run docs/examples/attention.mlir
  --device=emulator -- --no-cubin)
