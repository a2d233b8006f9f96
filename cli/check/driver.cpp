#include "cli/check/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>

namespace cubfc::cli::check {
namespace {

void* loaded_driver() {
  if (void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL); library != nullptr) {
    return library;
  }
  const char* const why = dlerror();
  throw DriverError(
      std::string(why == nullptr ? "libcuda.so.1 cannot be loaded" : why) +
      ": there is no NVIDIA driver here. A container gets it by `--gpus all`, or by "
      "`--device nvidia.com/gpu=all`; without a GPU, `cubfc demo` shows what cubfc does");
}

const char* what_to_do_about(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NO_DEVICE:
      return access("/dev/nvidiactl", F_OK) == 0
                 ? ": no GPU can be seen; CUDA_VISIBLE_DEVICES may hide it"
                 : ": no GPU can be seen; there is no /dev/nvidiactl. A container gets the devices "
                   "by `--gpus all`";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return ": libcuda.so.1 is of another version than the kernel's driver (/proc/driver/nvidia/"
             "version)";
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return ": the GPUs are not ready; on NVSwitch systems nvidia-fabricmanager has to run";
    case CUDA_ERROR_UNKNOWN:
      return access("/dev/nvidia-uvm", F_OK) == 0
                 ? ""
                 : ": there is no /dev/nvidia-uvm; `nvidia-modprobe -u` on the host makes it";
    case CUDA_ERROR_OUT_OF_MEMORY:
      return ": the device has no memory for a context; who has it, `cubfc top` and nvidia-smi "
             "tell";
    default:
      return "";
  }
}

}  // namespace

template <typename Function>
Function* Driver::find(const char* name) const {
  void* const found = dlsym(library_, name);
  if (found == nullptr) {
    throw DriverError(std::string("the driver has no ") + name);
  }
  return reinterpret_cast<Function*>(found);
}

void Driver::must(const char* function, CUresult result) const {
  if (result == CUDA_SUCCESS) {
    return;
  }
  const char* name = nullptr;
  const auto name_of =
      reinterpret_cast<CUresult (*)(CUresult, const char**)>(dlsym(library_, "cuGetErrorName"));
  if (name_of == nullptr || name_of(result, &name) != CUDA_SUCCESS || name == nullptr) {
    name = "an error without a name";
  }
  throw DriverError(std::string(function) + ": " + name + " (" + std::to_string(result) + ")" +
                    what_to_do_about(result));
}

Driver::Driver() : library_(loaded_driver()) {
  must("cuDriverGetVersion", find<CUresult(int*)>("cuDriverGetVersion")(&version_));
  must("cuInit", find<CUresult(unsigned)>("cuInit")(0));
  must("cuDeviceGetCount", find<CUresult(int*)>("cuDeviceGetCount")(&count_));
}

std::string Driver::name_of(int device) const {
  std::array<char, 256> name{};
  must("cuDeviceGetName", find<CUresult(char*, int, CUdevice)>("cuDeviceGetName")(
                              name.data(), static_cast<int>(name.size()) - 1, device));
  return name.data();
}

std::uint64_t Driver::total_bytes_of(int device) const {
  std::size_t bytes = 0;
  must("cuDeviceTotalMem",
       find<CUresult(std::size_t*, CUdevice)>("cuDeviceTotalMem_v2")(&bytes, device));
  return bytes;
}

Context::Context(const Driver& driver, int device) : driver_(driver), device_(device) {
  CUcontext context = nullptr;
  driver_.must("cuDevicePrimaryCtxRetain", driver_.find<CUresult(CUcontext*, CUdevice)>(
                                               "cuDevicePrimaryCtxRetain")(&context, device));
  driver_.must("cuCtxSetCurrent", driver_.find<CUresult(CUcontext)>("cuCtxSetCurrent")(context));
}

Context::~Context() {
  driver_.find<CUresult(CUcontext)>("cuCtxSetCurrent")(nullptr);
  driver_.find<CUresult(CUdevice)>("cuDevicePrimaryCtxRelease_v2")(device_);
}

std::uint64_t Context::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  driver_.must("cuMemGetInfo", driver_.find<CUresult(std::size_t*, std::size_t*)>(
                                   "cuMemGetInfo_v2")(&free, &total));
  return free;
}

CUdeviceptr Context::allocate(std::uint64_t bytes) const {
  CUdeviceptr address = 0;
  const CUresult result =
      driver_.find<CUresult(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2")(&address, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return 0;
  }
  driver_.must("cuMemAlloc", result);
  return address;
}

void Context::free(CUdeviceptr address) const {
  driver_.must("cuMemFree", driver_.find<CUresult(CUdeviceptr)>("cuMemFree_v2")(address));
}

void Context::fill(CUdeviceptr address, std::uint32_t word, std::uint64_t words) const {
  driver_.must("cuMemsetD32", driver_.find<CUresult(CUdeviceptr, unsigned, std::size_t)>(
                                  "cuMemsetD32_v2")(address, word, words));
  driver_.must("cuCtxSynchronize", driver_.find<CUresult()>("cuCtxSynchronize")());
}

void Context::read(void* into, CUdeviceptr address, std::uint64_t bytes) const {
  driver_.must("cuMemcpyDtoH", driver_.find<CUresult(void*, CUdeviceptr, std::size_t)>(
                                   "cuMemcpyDtoH_v2")(into, address, bytes));
}

}  // namespace cubfc::cli::check
