// The host has no memory for libcubfc.so while a program's second context is made, allocated in and
// freed in: this program's malloc refuses the library, and nobody else.
#include <cuda.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" void* __libc_malloc(std::size_t bytes);
// CUDA 13 gave the base name other parameters; every driver still has this form.
extern "C" CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device);

namespace {

std::uintptr_t library_begin = 0;
std::uintptr_t library_end = 0;
bool refuses = false;

int look_at(dl_phdr_info* info, std::size_t, void*) {
  if (std::strstr(info->dlpi_name, "libcubfc") == nullptr) {
    return 0;
  }
  library_begin = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const std::uintptr_t end =
        info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    library_end = info->dlpi_phdr[i].p_type == PT_LOAD && end > library_end ? end : library_end;
  }
  return 1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* malloc(std::size_t bytes) {
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  return refuses && caller >= library_begin && caller < library_end ? nullptr
                                                                    : __libc_malloc(bytes);
}

int main() {
  dl_iterate_phdr(&look_at, nullptr);
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  CUdeviceptr blocks[3] = {};
  cuInit(0);
  cuCtxCreate_v2(&first, 0, 0);
  std::printf("first context: allocate %d\n", cuMemAlloc(&blocks[0], 4096));
  refuses = true;
  const CUresult made = cuCtxCreate_v2(&second, 0, 0);
  const CUresult allocated = cuMemAlloc(&blocks[1], 4096);
  const CUresult freed = cuMemFree(blocks[0]);
  refuses = false;
  std::printf("second: made %d\n", made);
  std::printf("without host memory: allocate %s, free %s\n",
              allocated == CUDA_SUCCESS || allocated == CUDA_ERROR_OUT_OF_MEMORY ? "ok" : "wrong",
              freed == CUDA_SUCCESS || freed == CUDA_ERROR_OUT_OF_MEMORY ? "ok" : "wrong");
  std::printf("with it: allocate %d\n", cuMemAlloc(&blocks[2], 4096));
  return 0;
}
