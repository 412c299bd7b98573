# The CMake package: find_package(FlashCore [COMPONENTS Runtime Compiler CAPI]).
# A build of the runtime alone installs a package with that component only.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(${CMAKE_CURRENT_LIST_DIR}/LLVMVersion.cmake)

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/FlashCore)
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/../FlashCoreConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/FlashCoreConfig.cmake
  INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/cmake/FlashCoreConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
# By the components of `cmake --install BUILD --component C`, too; all need
# these files.
foreach(_component Runtime Compiler CAPI)
  install(FILES
    ${PROJECT_BINARY_DIR}/cmake/FlashCoreConfig.cmake
    ${PROJECT_BINARY_DIR}/cmake/FlashCoreConfigVersion.cmake
    DESTINATION ${_package_dir} COMPONENT ${_component})
endforeach()
install(EXPORT FlashCoreRuntimeTargets NAMESPACE FlashCore::
  DESTINATION ${_package_dir} COMPONENT Runtime)
if(PROJECT_NAME STREQUAL "FlashCore")
  install(EXPORT FlashCoreCompilerTargets NAMESPACE FlashCore::
    DESTINATION ${_package_dir} COMPONENT Compiler)
endif()
if(TARGET flashcore-shared)
  install(EXPORT FlashCoreCAPITargets NAMESPACE FlashCore::
    DESTINATION ${_package_dir} COMPONENT CAPI)
endif()
