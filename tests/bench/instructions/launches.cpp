// Launches a kernel over and over, for instructions.py to count: by the function that
// cuGetProcAddress gives, as the CUDA runtime does, or by the one that the program is linked to.
// Prints the launches of a pass.
//
//     launches <looked_up | linked> <passes>
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr int kLaunches = 1000;

bool run(bool is_looked_up, int passes) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&block, 4096) != CUDA_SUCCESS ||
      cuModuleLoadData(&module, "an image") != CUDA_SUCCESS ||
      cuModuleGetFunction(&fill, module, "fill") != CUDA_SUCCESS ||
      cuGetProcAddress("cuLaunchKernel", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status) !=
          CUDA_SUCCESS) {
    return false;
  }
  auto* const launch =
      is_looked_up ? reinterpret_cast<decltype(&cuLaunchKernel)>(found) : &cuLaunchKernel;
  unsigned value = 1;
  unsigned long long words = 1;
  void* arguments[] = {&block, &value, &words};
  for (int i = 0; i < passes * kLaunches; ++i) {
    if (launch(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, static_cast<void**>(arguments), nullptr) !=
        CUDA_SUCCESS) {
      return false;
    }
  }
  return cuCtxSynchronize() == CUDA_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !run(argv[1] == std::string_view("looked_up"), std::atoi(argv[2]))) {
    std::fprintf(stderr, "usage: launches <looked_up | linked> <passes>; on the software driver\n");
    return 1;
  }
  std::printf("%d\n", kLaunches);
  return 0;
}
