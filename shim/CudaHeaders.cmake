# Finds cuda.h and makes the target cubfc_cuda_headers. Headers are all that is taken from the CUDA
# toolkit: nothing links to libcuda or libcudart. Looked for in this order: CUBFC_CUDA_INCLUDE_DIR,
# a CUDA toolkit, the PyPI wheel nvidia-cuda-runtime (or nvidia-cuda-runtime-cu12) of the Python on
# the PATH, and <build>/cuda-headers, where scripts/test unpacks that wheel when there is no other.
if(NOT CUBFC_CUDA_INCLUDE_DIR)
  find_package(CUDAToolkit QUIET)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  set(wheel_dirs)
  if(Python3_EXECUTABLE)
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
      OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(root ${CMAKE_BINARY_DIR}/cuda-headers ${site_packages})
      list(APPEND wheel_dirs ${root}/nvidia/cu13/include ${root}/nvidia/cuda_runtime/include)
    endforeach()
  endif()
  find_path(cubfc_found_cuda_h cuda.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda ${wheel_dirs}
    PATH_SUFFIXES include
    NO_CMAKE_FIND_ROOT_PATH)  # the headers are the same for every processor
  if(NOT cubfc_found_cuda_h)
    message(FATAL_ERROR
      "cuda.h was not found. Install a CUDA toolkit (12.1 or newer), or the headers alone: "
      "'pip install nvidia-cuda-runtime', or name their folder: -DCUBFC_CUDA_INCLUDE_DIR=/path/include")
  endif()
  set(CUBFC_CUDA_INCLUDE_DIR ${cubfc_found_cuda_h} CACHE PATH "Folder with cuda.h" FORCE)
endif()

file(STRINGS ${CUBFC_CUDA_INCLUDE_DIR}/cuda.h cubfc_version_line REGEX "^#define CUDA_VERSION [0-9]+")
string(REGEX MATCH "[0-9]+$" CUBFC_CUDA_HEADER_VERSION "${cubfc_version_line}")
if(CUBFC_CUDA_HEADER_VERSION LESS 12010)
  message(FATAL_ERROR "CUDA headers 12.1 or newer are needed; ${CUBFC_CUDA_INCLUDE_DIR} has ${CUBFC_CUDA_HEADER_VERSION}.")
endif()
message(STATUS "CUDA headers: ${CUBFC_CUDA_INCLUDE_DIR} (${CUBFC_CUDA_HEADER_VERSION})")

add_library(cubfc_cuda_headers INTERFACE)
target_include_directories(cubfc_cuda_headers SYSTEM INTERFACE ${CUBFC_CUDA_INCLUDE_DIR})
