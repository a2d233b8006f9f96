// What is reported of real drivers about contexts, streams, modules and the process: handles that
// are no more or never were, errors that last, a child of fork.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "reported_test.h"

using namespace standin_test;

namespace {

// On a thread that has never had a context.
template <typename Call>
CUresult WithoutContext(Call call) {
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::thread([&] { result = call(); }).join();
  return result;
}

}  // namespace

TEST_CASE("reported: the driver is not initialized in a child of fork") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(512);
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr out = 0;
    int count = 0;
    const bool refused = cuMemAlloc_v2(&out, 512) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuMemFree_v2(memory) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("reported: a destroyed stream is told from one that never was") {
  const Device device;
  const CUstream stream = NewStream();
  Must(cuStreamDestroy_v2(stream));
  CUgraph graph = nullptr;
  CHECK(cuStreamQuery(stream) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
        CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuStreamDestroy_v2(stream) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("reported: the default stream cannot be destroyed") {
  const Device device;
  CHECK(cuStreamDestroy_v2(nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("reported: a destroyed event is known as destroyed") {
  const Device device;
  const CUevent event = NewEvent();
  Must(cuEventDestroy_v2(event));
  CHECK(cuEventQuery(event) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuEventRecord(event, nullptr) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuEventDestroy_v2(event) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("reported: no event is no handle") {
  const Device device;
  CHECK(cuEventQuery(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventSynchronize(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuCtxRecordEvent(device.context(), nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("reported: a stream that never was ends the process") {
  const std::string command = SharedVariable() + " exec " STANDIN_PEER " use-no-stream";
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("reported: nothing is popped from an empty stack of contexts") {
  const Device device;
  CHECK(WithoutContext([] {
          CUcontext popped = nullptr;
          return cuCtxPopCurrent_v2(&popped);
        }) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("reported: a primary context that none retains cannot be released, but reset") {
  const Device device;
  CHECK(cuDevicePrimaryCtxReset_v2(1) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease_v2(1) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("reported: a primary context has its handle again after a reset") {
  const Device device;
  CUcontext again = nullptr;
  Must(cuDevicePrimaryCtxReset_v2(0));
  Must(cuDevicePrimaryCtxRetain(&again, 0));
  CHECK(again == device.context());
  cuDevicePrimaryCtxRelease_v2(0);
}

TEST_CASE("reported: a pool that a program has made outlives the reset of the primary context") {
  const Device device;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  CUdeviceptr block = 0;
  Must(cuMemPoolCreate(&pool, &properties));
  Must(cuMemAllocFromPoolAsync(&block, 4096, pool, nullptr));
  Must(cuStreamSynchronize(nullptr));
  Must(cuDevicePrimaryCtxReset_v2(0));
  cuuint64_t used = 0;
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS);
  CHECK(used >= 4096);
  CUcontext again = nullptr;
  Must(cuDevicePrimaryCtxRetain(&again, 0));
  CHECK(cuMemFree_v2(block) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
  cuDevicePrimaryCtxRelease_v2(0);
}

TEST_CASE("reported: an error that lasts is every call's answer, until the context is reset") {
  const Device device;
  CUdeviceptr memory = device.Allocate(512);
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(standin_break_context(device.context(), CUDA_ERROR_ILLEGAL_ADDRESS) == 1);
  CHECK(cuMemGetInfo_v2(&free, &total) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuMemFree_v2(memory) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuMemAlloc_v2(&memory, 512) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuMemAlloc_v2(&memory, 512) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  Must(cuDevicePrimaryCtxRetain(&context, 0));
  Must(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc_v2(&memory, 512) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS);
  Must(cuDevicePrimaryCtxRelease_v2(0));
}

TEST_CASE("reported: a library's module needs a context, the library does not") {
  const Device device;
  CUlibrary library = nullptr;
  CUmodule module = nullptr;
  CHECK(WithoutContext([&] {
          return cuLibraryLoadData(&library, "image", nullptr, nullptr, 0, nullptr, nullptr, 0);
        }) == CUDA_SUCCESS);
  CHECK(WithoutContext([&] { return cuLibraryGetModule(&module, library); }) ==
        CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuLibraryGetModule(&module, library) == CUDA_SUCCESS);
  CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
}

#if CUDA_VERSION >= 12030
TEST_CASE("reported: no kernel has no name") {
  const Device device;
  const char* name = nullptr;
  CHECK(cuKernelGetName(&name, nullptr) == CUDA_ERROR_INVALID_VALUE);
}
#endif

TEST_CASE("reported: an unknown function is not found, or found to be NULL by the newer form") {
  const Device device;
  int here = 0;
  void* address = &here;
  CHECK(cuGetProcAddress("cuNoSuchFunction", &address, 13000, 0) == CUDA_ERROR_NOT_FOUND);
  CHECK(address == &here);
  auto status = CU_GET_PROC_ADDRESS_SUCCESS;
  CHECK(cuGetProcAddress_v2("cuNoSuchFunction", &address, 13000, 0, &status) == CUDA_SUCCESS);
  CHECK(address == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_CASE("reported: the runtime's request for cuMemAlloc of CUDA 3.2 gives cuMemAlloc_v2") {
  const Device device;
  void* address = nullptr;
  CHECK(cuGetProcAddress("cuMemAlloc", &address, 3020, 0) == CUDA_SUCCESS);
  CHECK(address == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
}

TEST_CASE("reported: the text of error 101 is about a device's ordinal") {
  const char* text = nullptr;
  CHECK(cuGetErrorString(CUDA_ERROR_INVALID_DEVICE, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "invalid device ordinal");
}
