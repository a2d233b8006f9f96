# What `cmake --install` adds to library, command and man page, and what `cpack` makes of it all (scripts/package).
include(CMakePackageConfigHelpers)

install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# find_package(cubfc): the header, and where the library is.
configure_package_config_file(scripts/cubfcConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/cubfcConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cubfc
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/cubfcConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cubfcConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/cubfcConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cubfc)

# Paths in them begin with the prefix, so configure with CMAKE_INSTALL_PREFIX=/usr for a Debian package.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME cubfc)
set(CPACK_PACKAGE_VENDOR cubfc)
set(CPACK_PACKAGE_CONTACT "The authors of cubfc <cubfc@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU memory arena for unmodified CUDA programs")
set(CPACK_PACKAGE_DESCRIPTION "libcubfc.so, preloaded into any CUDA program, serves its device
allocations from an arena under the memory policy that JAX, XLA and
TensorFlow made popular, with a hard limit if one is wanted. The command
cubfc runs programs under it, and shows and explains what they use.")
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
# tests/packages sees that they need nothing else, and no newer C library.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34), zlib1g")
# As Debian has it; CPack writes scripts that call ldconfig all the same.
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/scripts/debian/triggers)
include(CPack)
