// A library out of which no stack can be walked: it is compiled without unwind tables.
#include <cuda.h>

using Allocate = CUresult(CUDAAPI*)(CUdeviceptr*, std::size_t);

extern "C" __attribute__((visibility("default"))) CUresult call_for_me(Allocate allocate,
                                                                       CUdeviceptr* address,
                                                                       std::size_t bytes) {
  const CUresult result = allocate(address, bytes);
  return result;
}
