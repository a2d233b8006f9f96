// What the runtime promises of devices, kernels, streams and the thread's own default stream.
#include <string>

#include "../made_up_cubin.h"
#include "runtime_test.h"

using namespace cudart_test;

extern "C" {
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long* out);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid, dim3 block, void** arguments,
                                  size_t shared_bytes, cudaStream_t stream);
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** out, unsigned version,
                                                  unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status);
}

namespace {

cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// Launches fill(memory, value, 8) by `kernel`.
cudaError_t Fill(const void* kernel, void* memory, unsigned value) {
  std::size_t count = 8;
  void* arguments[] = {&memory, &value, &count};
  return cudaLaunchKernel(kernel, dim3{1, 1, 1}, dim3{32, 1, 1}, arguments, 0, nullptr);
}

}  // namespace

TEST_CASE("a device is found by its bus, and its peers are told as the driver tells them") {
  const Runtime runtime;
  char bus[32] = {};
  int device = -1;
  Must(cudaDeviceGetPCIBusId(bus, sizeof(bus), 1));
  Must(cudaDeviceGetByPCIBusId(&device, bus));
  CHECK(device == 1);
  CHECK(cudaDeviceGetByPCIBusId(&device, "nothing") != cudaSuccess);
  for (const cudaDeviceP2PAttr attribute :
       {cudaDevP2PAttrPerformanceRank, cudaDevP2PAttrAccessSupported,
        cudaDevP2PAttrNativeAtomicSupported, cudaDevP2PAttrCudaArrayAccessSupported}) {
    int value = -1;
    int drivers = -2;
    Must(cudaDeviceGetP2PAttribute(&value, attribute, 0, 1));
    REQUIRE(cuDeviceGetP2PAttribute(&drivers, static_cast<CUdevice_P2PAttribute>(attribute), 0,
                                    1) == CUDA_SUCCESS);
    CHECK(value == drivers);
  }
}

TEST_CASE("the device is chosen that has most of what is asked for") {
  const Runtime runtime;
  cudaDeviceProp asked{};
  int device = -1;
  Must(cudaChooseDevice(&device, &asked));
  CHECK(device == 0);
  CHECK(cudaChooseDevice(nullptr, &asked) == cudaErrorInvalidValue);
}

TEST_CASE("what is set of a device is what it has then") {
  const Runtime runtime;
  cudaFuncCache cache{};
  cudaSharedMemConfig banks{};
  Must(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
  Must(cudaDeviceGetCacheConfig(&cache));
  CHECK(cache == cudaFuncCachePreferShared);
  Must(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte));
  Must(cudaDeviceGetSharedMemConfig(&banks));
  CUsharedconfig drivers{};
  REQUIRE(cuCtxGetSharedMemConfig(&drivers) == CUDA_SUCCESS);
  CHECK(static_cast<int>(banks) == static_cast<int>(drivers));
  std::size_t bytes = 0;
  Must(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  Must(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
  CHECK(bytes == 2048);
  standin_reset_calls();
  Must(cudaCtxResetPersistingL2Cache());
  CHECK(standin_calls("cuCtxResetPersistingL2Cache") == 1);
}

TEST_CASE("a kernel's name and attributes are the driver's") {
  const Runtime runtime;
  const char* name = nullptr;
  Must(cudaFuncGetName(&name, FillKernel()));
  CHECK(std::string(name) == "fill");
  cudaFunction_t function = nullptr;
  cudaFuncAttributes attributes{};
  Must(cudaGetFuncBySymbol(&function, FillKernel()));
  Must(cudaFuncSetAttribute(FillKernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  Must(cudaFuncGetAttributes(&attributes, FillKernel()));
  const auto drivers = [&](CUfunction_attribute attribute) {
    int value = -1;
    REQUIRE(cuFuncGetAttribute(&value, attribute, function) == CUDA_SUCCESS);
    return value;
  };
  CHECK(attributes.numRegs == drivers(CU_FUNC_ATTRIBUTE_NUM_REGS));
  CHECK(attributes.maxThreadsPerBlock == drivers(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  CHECK(attributes.binaryVersion == drivers(CU_FUNC_ATTRIBUTE_BINARY_VERSION));
  CHECK(attributes.maxDynamicSharedSizeBytes ==
        drivers(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  Must(cudaFuncSetCacheConfig(FillKernel(), cudaFuncCachePreferL1));
  Must(cudaFuncSetSharedMemConfig(FillKernel(), cudaSharedMemBankSizeFourByte));
  CHECK(cudaFuncGetName(&name, &attributes) == cudaErrorInvalidDeviceFunction);
}

TEST_CASE("how much of a kernel fits is what the driver says") {
  const Runtime runtime;
  cudaFunction_t function = nullptr;
  Must(cudaGetFuncBySymbol(&function, FillKernel()));
  std::size_t bytes = 0;
  std::size_t drivers_bytes = 1;
  Must(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, FillKernel(), 2, 256));
  REQUIRE(cuOccupancyAvailableDynamicSMemPerBlock(&drivers_bytes, function, 2, 256) ==
          CUDA_SUCCESS);
  CHECK(bytes == drivers_bytes);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {4, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = {8, 1, 1};
  config.blockDim = {256, 1, 1};
  config.attrs = &cluster;
  int alone = 0;
  int in_fours = 0;
  int largest = 0;
  Must(cudaOccupancyMaxActiveClusters(&alone, FillKernel(), &config));
  config.numAttrs = 1;
  Must(cudaOccupancyMaxActiveClusters(&in_fours, FillKernel(), &config));
  CHECK(alone == in_fours * 4);
  Must(cudaOccupancyMaxPotentialClusterSize(&largest, FillKernel(), &config));
  CHECK(largest >= 4);
  CHECK(cudaOccupancyMaxActiveClusters(&alone, FillKernel(), nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("a kernel's handle stands in its function's place") {
  const Runtime runtime;
  void* const memory = Allocated(32);
  cudaKernel_t kernel = nullptr;
  Must(cudaGetKernel(&kernel, FillKernel()));
  Must(Fill(kernel, memory, 3));
  CHECK(Read<unsigned>(memory, 8) == std::vector<unsigned>(8, 3));

  int nothing = 0;
  CHECK(Fill(&nothing, memory, 5) == cudaErrorInvalidDeviceFunction);
}

TEST_CASE(
    "a library's kernels and variables are found, and its kernels stand in functions' places") {
  const Runtime runtime;
  void* const memory = Allocated(32);
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  const auto load = [&](const char* image) {
    Must(cudaLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  };
  load("image");
  Must(cudaLibraryGetKernel(&kernel, library, "fill"));
  Must(Fill(kernel, memory, 4));
  CHECK(Read<unsigned>(memory, 8) == std::vector<unsigned>(8, 4));
  Must(cudaLibraryUnload(library));

  const std::string image = standin_test::Sample();
  load(image.c_str());
  unsigned count = 0;
  Must(cudaLibraryGetKernelCount(&count, library));
  REQUIRE(count == 1);
  Must(cudaLibraryEnumerateKernels(&kernel, 1, library));
  const char* name = nullptr;
  const char* drivers = nullptr;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  Must(cudaFuncGetName(&name, kernel));
  REQUIRE(cuKernelGetName(&drivers, reinterpret_cast<CUkernel>(kernel)) == CUDA_SUCCESS);
  CHECK(std::string(name) == drivers);
  Must(cudaFuncGetParamInfo(kernel, 1, &offset, &bytes));
  CHECK(offset == 8);
  CHECK(cudaFuncGetParamInfo(kernel, 2, &offset, &bytes) == cudaErrorInvalidValue);
  Must(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1, 0));
  void* counter = nullptr;
  Must(cudaLibraryGetGlobal(&counter, &bytes, library, "counter"));
  CHECK(bytes == 4);
  CHECK(Read<int>(counter, 1)[0] == 7);
  CHECK(cudaLibraryGetManaged(&counter, &bytes, library, "counter") == cudaErrorSymbolNotFound);
  Must(cudaLibraryUnload(library));
}

TEST_CASE("a stream's attributes are set, told and copied") {
  const Runtime runtime;
  cudaStream_t one = NewStream();
  cudaStream_t other = NewStream();
  cudaStreamAttrValue value{};
  cudaStreamAttrValue told{};
  value.syncPolicy = cudaSyncPolicyYield;
  Must(cudaStreamSetAttribute(one, cudaStreamAttributeSynchronizationPolicy, &value));
  Must(cudaStreamCopyAttributes(other, one));
  Must(cudaStreamGetAttribute(other, cudaStreamAttributeSynchronizationPolicy, &told));
  CHECK(told.syncPolicy == cudaSyncPolicyYield);
  CHECK(cudaStreamGetAttribute(other, cudaStreamAttributeSynchronizationPolicy, nullptr) ==
        cudaErrorInvalidValue);
  int device = -1;
  Must(cudaStreamGetDevice(one, &device));
  CHECK(device == 0);
  Must(cudaSetDevice(1));
  cudaStream_t there = NewStream();
  Must(cudaStreamGetDevice(there, &device));
  CHECK(device == 1);
}

TEST_CASE("the forms for the thread's own default stream work in that") {
  const Runtime runtime;
  unsigned long long legacy = 0;
  unsigned long long own = 0;
  unsigned long long named = 0;
  Must(cudaStreamGetId(nullptr, &legacy));
  Must(cudaStreamGetId_ptsz(nullptr, &own));
  Must(cudaStreamGetId(cudaStreamPerThread, &named));
  CHECK(own == named);
  CHECK(own != legacy);
  Must(cudaStreamGetId_ptsz(cudaStreamLegacy, &named));
  CHECK(named == legacy);

  void* memory = Allocated(32);
  unsigned value = 6;
  std::size_t count = 8;
  void* arguments[] = {&memory, &value, &count};
  Bytes read(32);
  standin_reset_calls();
  Must(cudaMemsetAsync_ptsz(memory, 1, 32, nullptr));
  Must(cudaLaunchKernel_ptsz(FillKernel(), dim3{1, 1, 1}, dim3{4, 1, 1}, arguments, 0, nullptr));
  Must(cudaMemcpy_ptds(read.data(), memory, 32, cudaMemcpyDeviceToHost));
  CHECK(read[0] == 6);
  CHECK(read[31] == 1);
  Must(cudaStreamSynchronize_ptsz(nullptr));
  CHECK(standin_calls("cuMemsetD8Async_ptsz") == 1);
  CHECK(standin_calls("cuLaunchKernel_ptsz") == 1);
  CHECK(standin_calls("cuMemcpyDtoH_v2_ptds") == 1);
  CHECK(standin_calls("cuStreamSynchronize_ptsz") == 1);
  CHECK(standin_calls("cuMemsetD8Async") == 0);
  // And no longer than for that call.
  Must(cudaMemsetAsync(memory, 1, 32, nullptr));
  CHECK(standin_calls("cuMemsetD8Async") == 1);
}

TEST_CASE("the driver's functions are given in the form that the caller is compiled for") {
  const Runtime runtime;
  void* plain = nullptr;
  void* own = nullptr;
  void* asked = nullptr;
  cudaDriverEntryPointQueryResult status{};
  Must(
      cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &plain, 13000, cudaEnableDefault, &status));
  CHECK(status == cudaDriverEntryPointSuccess);
  CHECK(plain == reinterpret_cast<void*>(&cuMemcpyAsync));
  Must(cudaGetDriverEntryPointByVersion_ptsz("cuMemcpyAsync", &own, 13000, cudaEnableDefault,
                                             nullptr));
  Must(cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &asked, 13000,
                                        cudaEnablePerThreadDefaultStream, nullptr));
  CHECK(own != plain);
  CHECK(own == asked);
  Must(cudaGetDriverEntryPointByVersion_ptsz("cuMemcpyAsync", &own, 13000, cudaEnableLegacyStream,
                                             nullptr));
  CHECK(own == plain);
  Must(cudaGetDriverEntryPointByVersion("cuNothing", &asked, 13000, cudaEnableDefault, &status));
  CHECK(status == cudaDriverEntryPointSymbolNotFound);
}

TEST_CASE("an error is the thread's last one until it is asked for") {
  const Runtime runtime;
  CHECK(cudaEventSynchronize(nullptr) != cudaSuccess);
  const cudaError_t last = cudaPeekAtLastError();
  CHECK(last != cudaSuccess);
  Must(cudaDeviceSynchronize());
  CHECK(cudaGetLastError() == last);
  CHECK(cudaGetLastError() == cudaSuccess);
}
