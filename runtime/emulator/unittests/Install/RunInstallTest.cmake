# Installs the emulator into an empty folder, then builds and runs a project
# that knows nothing but that folder.
function(run_step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result
    OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "'${ARGN}' failed (${result}):\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run_step(${CMAKE_COMMAND} --install ${EMULATOR_BINARY_DIR}
  --prefix ${WORK_DIR}/prefix)
run_step(${CMAKE_COMMAND} -S ${CONSUMER_SOURCE_DIR} -B ${WORK_DIR}/build
  -G ${GENERATOR}
  -D CMAKE_BUILD_TYPE=${BUILD_TYPE}
  -D CMAKE_C_COMPILER=${C_COMPILER}
  -D CMAKE_CXX_COMPILER=${CXX_COMPILER}
  -D CMAKE_CXX_FLAGS=${CXX_FLAGS}
  -D CMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
run_step(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run_step(${WORK_DIR}/build/consumer-c)
run_step(${WORK_DIR}/build/consumer-cxx)
run_step(${WORK_DIR}/prefix/bin/flashcore-emu --help)
