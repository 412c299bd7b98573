# Runs the example compiler, and its kernel on the emulator of PREFIX, with the
# launch that the first line of the PTX gives.
execute_process(
  COMMAND ./toy-compile ${EXAMPLE}/sdpa.mlir sm_89
  OUTPUT_FILE sdpa.ptx COMMAND_ERROR_IS_FATAL ANY)
file(READ sdpa.ptx ptx)
foreach(pattern "mma.sync.aligned.m16n8k16" "ldmatrix" "target sm_89")
  if(NOT ptx MATCHES ${pattern})
    message(FATAL_ERROR "expects '${pattern}' in sdpa.ptx")
  endif()
endforeach()
if(NOT ptx MATCHES "^// launch: ([^\n]+)\n")
  message(FATAL_ERROR "expects the launch in the first line of sdpa.ptx")
endif()
separate_arguments(launch UNIX_COMMAND "${CMAKE_MATCH_1}")

# The weights of a row add up to 1, so of values that are all 1 each mean is 1.
set(command ${PREFIX}/bin/flashcore-emu sdpa.ptx ${launch} --arg
  f16[2,128,64]:randn:1 f16[2,128,64]:randn:2 f16[2,128,64]:ones
  f16[2,128,64]:poison)
foreach(step "--out;2=ones.npy" "--expect;3=ones.npy:0.001")
  execute_process(COMMAND ${command} ${step}
    OUTPUT_VARIABLE report RESULT_VARIABLE code)
  message("${report}")
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "expects no findings and a result of ones")
  endif()
endforeach()
