// A second process for standin_test: prints one number.
//   free                    what cuMemGetInfo says is free
//   allocate BYTES          the result of cuMemAlloc
//   exchange HANDLE VALUE   the first word behind an IPC handle (in hex), which it then overwrites
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

unsigned Exchange(const std::string& text, unsigned value) {
  CUipcMemHandle handle;
  for (std::size_t i = 0; i < sizeof(handle); ++i) {
    const unsigned long byte = std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16);
    handle.reserved[i] = static_cast<char>(byte);
  }
  CUdeviceptr memory = 0;
  if (cuIpcOpenMemHandle_v2(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) return 0;
  unsigned before = 0;
  cuMemcpyDtoH_v2(&before, memory, sizeof(before));
  cuMemcpyHtoD_v2(memory, &value, sizeof(value));
  return cuIpcCloseMemHandle(memory) == CUDA_SUCCESS ? before : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CUcontext context = nullptr;
  if (argc < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
  cuCtxSetCurrent(context);
  const std::string what = argv[1];
  if (what == "free") {
    std::size_t free = 0;
    cuMemGetInfo_v2(&free, nullptr);
    std::printf("%zu\n", free);
  } else if (what == "allocate" && argc == 3) {
    CUdeviceptr memory = 0;
    std::printf("%d\n", cuMemAlloc_v2(&memory, std::strtoull(argv[2], nullptr, 10)));
  } else if (what == "exchange" && argc == 4) {
    const auto value = static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10));
    std::printf("%u\n", Exchange(argv[2], value));
  } else {
    return 1;
  }
  return 0;
}
