# Runs the program of docs/Runtime.md on a bundle that PREFIX's compiler makes.
execute_process(
  COMMAND ${PREFIX}/bin/flashcore-compile ${INPUT} --emit=bundle --no-cubin
    -o attention.fcb
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ./attention attention.fcb
  OUTPUT_VARIABLE output RESULT_VARIABLE code)
message("${output}")
if(NOT code EQUAL 0 OR NOT output MATCHES "O starts with 0x3c00")
  message(FATAL_ERROR "expects ones, but got exit code ${code}")
endif()
# A bundle that is not there is an error and nothing else.
execute_process(COMMAND ./attention missing.fcb
  ERROR_VARIABLE error RESULT_VARIABLE code)
if(NOT code EQUAL 2 OR NOT error MATCHES "missing.fcb: cannot read the file")
  message(FATAL_ERROR "expects exit code 2, but got ${code}: ${error}")
endif()
