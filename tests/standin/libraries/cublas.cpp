// cuBLAS: a handle with its stream and its workspace. Status 0 is CUBLAS_STATUS_SUCCESS, 3
// _ALLOC_FAILED, 1 _NOT_INITIALIZED, 13 _EXECUTION_FAILED.
#include "library.h"

using namespace standin_library;

namespace {

struct Handle {
  void* stream;
  void* workspace;
  int pointer_mode;
  int math_mode;
};

Handle* of(void* handle) {
  return static_cast<Handle*>(handle);
}

// NVIDIA's documentation of cublasSetWorkspace gives 32 MiB for Hopper and 4 MiB for others as a
// recommendation; what a handle really takes was read from recordings of GPUs: 33,554,432 bytes on
// capability 9.0, 8,519,680 below.
std::size_t workspace_bytes() {
  constexpr int kComputeCapabilityMajor = 75;
  return device_attribute(kComputeCapabilityMajor, 9) >= 9 ? 33554432 : 8519680;
}

}  // namespace

STANDIN_EXPORT int cublasCreate_v2(void** out) {
  if (!out) return 7;  // CUBLAS_STATUS_INVALID_VALUE
  void* const workspace = allocate(workspace_bytes());
  if (!workspace) return 3;
  *out = new Handle{nullptr, workspace, 0, 0};
  return 0;
}

STANDIN_EXPORT int cublasDestroy_v2(void* handle) {
  if (!handle) return 1;
  release(of(handle)->workspace);
  delete of(handle);
  return 0;
}

STANDIN_EXPORT int cublasSetStream_v2(void* handle, void* stream) {
  if (!handle) return 1;
  of(handle)->stream = stream;
  return 0;
}

STANDIN_EXPORT int cublasGetStream_v2(void* handle, void** out) {
  if (!handle) return 1;
  *out = of(handle)->stream;
  return 0;
}

// The program brings memory of its own; what the handle has it keeps.
STANDIN_EXPORT int cublasSetWorkspace_v2(void* handle, void* memory, std::size_t bytes) {
  (void)memory, (void)bytes;
  return handle ? 0 : 1;
}

STANDIN_EXPORT int cublasSetPointerMode_v2(void* handle, int mode) {
  if (!handle) return 1;
  of(handle)->pointer_mode = mode;
  return 0;
}

STANDIN_EXPORT int cublasGetPointerMode_v2(void* handle, int* out) {
  if (!handle) return 1;
  *out = of(handle)->pointer_mode;
  return 0;
}

STANDIN_EXPORT int cublasSetMathMode(void* handle, int mode) {
  if (!handle) return 1;
  of(handle)->math_mode = mode;
  return 0;
}

STANDIN_EXPORT int cublasGetMathMode(void* handle, int* out) {
  if (!handle) return 1;
  *out = of(handle)->math_mode;
  return 0;
}

STANDIN_EXPORT int cublasSetSmCountTarget(void* handle, int count) {
  (void)count;
  return handle ? 0 : 1;
}

STANDIN_EXPORT const char* cublasGetStatusString(int status) {
  return status == 0 ? "success" : "the stand-in does not serve it";
}

namespace {

constexpr const char* kLibrary = "cuBLAS";
constexpr int kNotSupported = 15;

int Compute(void* handle, std::span<const void* const> arguments) {
  if (!handle) return 1;
  return launch(of(handle)->stream, arguments) == 0 ? 0 : 13;
}

bool AnswersOnDevice(void* handle) {
  constexpr int kPointerModeDevice = 1;
  return handle && of(handle)->pointer_mode == kPointerModeDevice;
}

}  // namespace

#include "functions/cublas.inc"
