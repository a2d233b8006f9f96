// A small CUDA runtime over the driver API: how it reaches the driver, which context is current,
// and the last error of each thread. Takes the driver from libcuda.so.1 by name, so that it runs on
// any.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

// Declared by cudaProfiler.h, which NVIDIA's wheels lack.
extern "C" {
CUresult CUDAAPI cuProfilerStart();
CUresult CUDAAPI cuProfilerStop();
}

// Functions that CUDA deprecates are served, too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace cudart {

// The driver functions that this runtime calls. One that came after CUDA 12.4 is null where the
// driver lacks it.
struct Driver {
#define CUDART_FUNCTION(function, name, version) decltype(&::function) function = nullptr;
#include "driver_functions.inc"
#undef CUDART_FUNCTION
  decltype(&::cuGetProcAddress_v2) get_proc_address = nullptr;
};

// While one lives, stream 0 is the thread's own in what the thread calls. For the forms whose names
// end in _ptsz or _ptds, which programs call that are compiled so.
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream();
  ~PerThreadDefaultStream();
  PerThreadDefaultStream(const PerThreadDefaultStream&) = delete;
  PerThreadDefaultStream& operator=(const PerThreadDefaultStream&) = delete;

 private:
  bool before_;
};
bool IsDefaultStreamPerThread();

// Loads the driver and initializes it at first use, once. Gives its functions in the forms for the
// default stream that the thread uses.
cudaError_t Load(const Driver*& out);

// Makes a context current to the thread, the primary one of its device where there is none.
cudaError_t MakeContextCurrent(const Driver& driver);

// The primary context of a device, retained once for the process.
cudaError_t PrimaryContext(const Driver& driver, int device, CUcontext* out);
void ForgetPrimaryContext(int device);

int& current_device();
cudaError_t& last_error();

// The numbers of both enumerations have been the same since CUDA 10.1.
inline cudaError_t ToRuntime(CUresult result) {
  return static_cast<cudaError_t>(result);
}

inline cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

// Runs body(driver) with the driver loaded, remembering what it returns. Bodies return either a
// CUresult or a cudaError_t.
template <typename Body>
cudaError_t WithDriver(Body body) noexcept {
  const Driver* driver = nullptr;
  if (const cudaError_t error = Load(driver)) return Remember(error);
  return Remember(static_cast<cudaError_t>(body(*driver)));
}

// The same with a context current.
template <typename Body>
cudaError_t WithContext(Body body) noexcept {
  return WithDriver([&](const Driver& driver) {
    const cudaError_t error = MakeContextCurrent(driver);
    return error == cudaSuccess ? static_cast<cudaError_t>(body(driver)) : error;
  });
}

}  // namespace cudart

#define CUDART_API extern "C" cudaError_t
