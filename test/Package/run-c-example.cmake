# Runs the program of docs/Embedding.md, and its bundle with PREFIX's runtime.
execute_process(COMMAND ./attention "b1 h2 s100 d64 causal"
  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output MATCHES "attention on sm_90: batch 1, heads 2, seqlen 100 x 100")
  message(FATAL_ERROR "expects an explanation for sm_90, but got: ${output}")
endif()
execute_process(
  COMMAND ${PREFIX}/bin/flashcore-run attention.fcb --device=emulator
  OUTPUT_VARIABLE output RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT output MATCHES "(^|\n)PASS")
  message(FATAL_ERROR "expects PASS, but got exit code ${code}: ${output}")
endif()
# What is wrong and what is not lowered are told apart.
foreach(case "2;d;expects d and head_dim" "3;d264;has head_dim 264")
  list(GET case 0 expected)
  list(GET case 1 words)
  list(GET case 2 message)
  execute_process(COMMAND ./attention ${words}
    ERROR_VARIABLE error RESULT_VARIABLE code)
  if(NOT code EQUAL expected OR NOT error MATCHES "${message}")
    message(FATAL_ERROR
      "expects exit code ${expected} of '${words}', but got ${code}: ${error}")
  endif()
endforeach()
