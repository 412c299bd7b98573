# Installs BUILD_DIR into FIRST_PREFIX and moves the tree to PREFIX. Nothing of
# the package may name the place where it was built or installed.
file(REMOVE_RECURSE ${FIRST_PREFIX} ${PREFIX})
execute_process(
  COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${FIRST_PREFIX}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${FIRST_PREFIX} ${PREFIX})

file(GLOB_RECURSE package ${PREFIX}/*.cmake)
list(LENGTH package count)
if(count LESS 4)
  message(FATAL_ERROR "expects the package files in ${PREFIX}, but got "
    "'${package}'")
endif()
foreach(file IN LISTS package)
  file(READ ${file} text)
  foreach(place ${BUILD_DIR} ${SOURCE_DIR} ${FIRST_PREFIX})
    string(FIND "${text}" ${place} position)
    if(NOT position EQUAL -1)
      message(FATAL_ERROR "${file} names ${place}")
    endif()
  endforeach()
endforeach()
