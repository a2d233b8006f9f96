// Two small devices, and a primary context that is current for the length of a test.
#pragma once

#include <cuda.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "standin.h"

namespace standin_test {

inline constexpr std::size_t kMemory = std::size_t{64} << 20;

// The file through which the test shares its devices with processes that it starts.
inline std::string SharedFile() {
  return "/tmp/standin-test-" + std::to_string(getpid());
}
inline std::string SharedVariable(const std::string& file = SharedFile()) {
  return "STANDIN_DEVICES=2 STANDIN_MEMORY=64MiB STANDIN_SHARED=" + file;
}

class Device {
 public:
  explicit Device(int ordinal = 0) : ordinal_(ordinal) {
    static const bool started = Start();
    (void)started;
    cuDevicePrimaryCtxRetain(&context_, ordinal_);
    cuCtxSetCurrent(context_);
  }
  ~Device() {
    cuDevicePrimaryCtxReset_v2(ordinal_);
    cuDevicePrimaryCtxRelease_v2(ordinal_);
    cuCtxSetCurrent(nullptr);
    standin_work_delay(0);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  CUcontext context() const { return context_; }

  // Freed with the context. Ends the program where there is no memory.
  CUdeviceptr Allocate(std::size_t bytes) const {
    CUdeviceptr out = 0;
    if (cuMemAlloc_v2(&out, bytes) != CUDA_SUCCESS) std::abort();
    return out;
  }

 private:
  static bool Start() {
    standin_configure("STANDIN_DEVICES", "2");
    standin_configure("STANDIN_MEMORY", "64MiB");
    standin_configure("STANDIN_SHARED", SharedFile().c_str());
    std::atexit([] { unlink(SharedFile().c_str()); });
    return cuInit(0) == CUDA_SUCCESS;
  }

  int ordinal_;
  CUcontext context_ = nullptr;
};

}  // namespace standin_test
