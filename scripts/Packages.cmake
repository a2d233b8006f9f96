# What `cmake --install` adds to libraries, command and man page, and what `cpack` makes of it all (scripts/package).
include(CMakePackageConfigHelpers)

# Who packages for others says who they are, and where.
set(CUBFC_HOMEPAGE "https://cubfc.example" CACHE STRING "The address of the project that packages name")
set(CUBFC_MAINTAINER "The authors of cubfc <authors@cubfc.example>" CACHE STRING "Who answers for packages, with an address")

# find_package(cubfc): the header, and where the library is.
configure_package_config_file(scripts/cubfcConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/cubfcConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cubfc
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/cubfcConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cubfcConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/cubfcConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cubfc)

# The documents, in folders as they are here, because they link to each other. Debian wants to know of each package who may do
# what with it, and what has changed; of a version the time is that of the sources.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  string(TIMESTAMP changed "%a, %d %b %Y %H:%M:%S +0000" UTC)
else()
  set(changed "Thu, 01 Jan 1970 00:00:00 +0000")
endif()
find_program(CUBFC_GZIP gzip REQUIRED)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
function(cubfc_install_what_debian_wants package component)
  file(CONFIGURE OUTPUT debian/${package}/changelog @ONLY
    CONTENT "${package} (${PROJECT_VERSION}) unstable; urgency=low\n\n  * What has changed is in CHANGELOG.md of cubfc.\n\n -- ${CUBFC_MAINTAINER}  ${changed}\n")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/debian/${package})
  execute_process(COMMAND ${CUBFC_GZIP} -9 -n -k -f ${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
  file(READ scripts/debian/copyright copyright)
  string(REPLACE "https://cubfc.example" "${CUBFC_HOMEPAGE}" copyright "${copyright}")
  file(WRITE ${folder}/copyright "${copyright}")
  install(FILES ${folder}/changelog.gz ${folder}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
endfunction()
cubfc_install_what_debian_wants(cubfc Unspecified)
install(FILES scripts/debian/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME cubfc)
if(CUBFC_SOFTWARE_GPU)
  cubfc_install_what_debian_wants(cubfc-software-gpu software-gpu)
endif()

# Paths in them begin with the prefix, so configure with CMAKE_INSTALL_PREFIX=/usr for a Debian package.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME cubfc)
set(CPACK_PACKAGE_VENDOR cubfc)
set(CPACK_PACKAGE_CONTACT "${CUBFC_MAINTAINER}")
set(CPACK_PACKAGE_HOMEPAGE_URL "${CUBFC_HOMEPAGE}")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME cubfc-${PROJECT_VERSION}-Linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
else()
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
endif()
# A package for each component; the archive has both.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each has its own, in the first line of its description
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME cubfc)
set(CPACK_DEBIAN_UNSPECIFIED_DESCRIPTION "GPU memory arena for unmodified CUDA programs
libcubfc.so, preloaded into any CUDA program, serves its device
allocations from an arena under the memory policy that JAX, XLA and
TensorFlow made popular, with a hard limit if one is wanted. The command
cubfc runs programs under it, and shows and explains what they use.")
# tests/packages sees that they need nothing else, and no newer C library.
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_DEPENDS "libc6 (>= 2.34), zlib1g")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS "cubfc-software-gpu")
# As Debian has it; CPack writes scripts that call ldconfig all the same.
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/scripts/debian/triggers)
if(CUBFC_SOFTWARE_GPU)
  list(APPEND CPACK_COMPONENTS_ALL software-gpu)
  set(CPACK_DEBIAN_SOFTWARE-GPU_PACKAGE_NAME cubfc-software-gpu)
  set(CPACK_DEBIAN_SOFTWARE-GPU_DESCRIPTION "CUDA driver without a GPU, for the demonstration of cubfc
A libcuda.so.1 without a GPU, on which the command cubfc shows (cubfc
demo) what it does. It lies in a folder of its own, where no program finds
it that is not told to look there.")
  set(CPACK_DEBIAN_SOFTWARE-GPU_PACKAGE_DEPENDS "libc6 (>= 2.34)")
endif()
include(CPack)
