// A driver of one GPU with 64 MiB that does what FAULT says, for the test of `cubfc check`:
//
// hang, crash    in cuInit
// none, old      no GPU; CUDA 11.8
// mismatch       cuInit fails as where libcuda.so.1 is not the kernel's
// context        no context can be made
// full           only half of the memory can be had
// bit, alias     memory with a bit that stays; two allocations at one address
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t kTotal = std::size_t{64} << 20;
std::size_t given = 0;
CUdeviceptr last = 0;

bool is_fault(const char* fault) {
  const char* const named = std::getenv("FAULT");
  return named != nullptr && std::strcmp(named, fault) == 0;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned /*flags*/) {
  if (is_fault("hang")) {
    sleep(1000);
  }
  if (is_fault("crash")) {
    std::abort();
  }
  return is_fault("mismatch") ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = is_fault("old") ? 11080 : 12040;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = is_fault("none") ? 0 : 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int bytes, CUdevice /*device*/) {
  std::strncpy(name, "a GPU \033[31m\n", static_cast<std::size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice /*device*/) {
  *bytes = kTotal;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice /*device*/) {
  *context = reinterpret_cast<CUcontext>(&given);
  return is_fault("context") ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice /*device*/) {
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext /*context*/) {
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = kTotal;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  if (given + bytes > (is_fault("full") ? kTotal / 2 : kTotal)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  given += bytes;
  last = is_fault("alias") && last != 0 ? last : reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
  *address = last;
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr /*address*/) {
  return CUDA_SUCCESS;  // the process ends soon
}
CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned word, std::size_t count) {
  auto* const words = reinterpret_cast<std::uint32_t*>(address);
  std::fill_n(words, count, word);
  if (is_fault("bit") && count > 12345) {
    words[12345] ^= 1U << 30;
  }
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void* into, CUdeviceptr address, std::size_t bytes) {
  std::memcpy(into, reinterpret_cast<const void*>(address), bytes);
  return CUDA_SUCCESS;
}
}
