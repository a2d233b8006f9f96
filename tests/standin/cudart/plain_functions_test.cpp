// What the runtime promises of the functions that every program calls: memory, copies, streams,
// events, launches.
#include <atomic>
#include <cstring>
#include <string>

#include "runtime_test.h"

using namespace cudart_test;

namespace {

cudaStream_t NonBlocking() {
  cudaStream_t stream = nullptr;
  Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

template <typename... Arguments>
int Driver(CUresult (*function)(Arguments...), std::type_identity_t<Arguments>... arguments) {
  return static_cast<int>(function(arguments...));
}

}  // namespace

TEST_CASE("memory of the host is pinned, registered and reached from the device") {
  const Runtime runtime;
  void* memory = nullptr;
  void* on_device = nullptr;
  unsigned flags = 0;
  Must(cudaHostAlloc(&memory, 4096, cudaHostAllocMapped));
  Must(cudaHostGetFlags(&flags, memory));
  CHECK((flags & cudaHostAllocMapped) != 0);
  Must(cudaHostGetDevicePointer(&on_device, memory, 0));
  Must(cudaMemset(on_device, 3, 4096));
  Must(cudaDeviceSynchronize());
  CHECK(static_cast<char*>(memory)[4095] == 3);
  Must(cudaFreeHost(memory));
  Must(cudaMallocHost(&memory, 0));
  CHECK(memory == nullptr);
  alignas(4096) static char own[4096];
  Must(cudaHostRegister(own, sizeof(own), cudaHostRegisterDefault));
  CHECK(cudaHostRegister(own, sizeof(own), 0) == cudaErrorHostMemoryAlreadyRegistered);
  Must(cudaHostUnregister(own));
  CHECK(cudaHostUnregister(own) == cudaErrorHostMemoryNotRegistered);
}

TEST_CASE("rows are set and copied with what lies between them left alone") {
  const Runtime runtime;
  void* memory = nullptr;
  std::size_t pitch = 0;
  Must(cudaMallocPitch(&memory, &pitch, 6, 4));
  Must(cudaMemset(memory, 1, pitch * 4));
  Must(cudaMemset2D(memory, pitch, 2, 3, 2));
  Must(cudaMemset2DAsync(static_cast<char*>(memory) + 2 * pitch, pitch, 3, 6, 1, nullptr));
  Bytes read(16);
  Must(cudaMemcpy2D(read.data(), 4, memory, pitch, 4, 3, cudaMemcpyDeviceToHost));
  CHECK(read == Bytes{2, 2, 2, 1, 2, 2, 2, 1, 3, 3, 3, 3, 0, 0, 0, 0});
  Must(cudaMemcpy2DAsync(memory, pitch, Counted(8).data(), 4, 4, 2, cudaMemcpyHostToDevice,
                         nullptr));
  Must(cudaDeviceSynchronize());
  CHECK(Read(static_cast<char*>(memory) + pitch, 6) == Bytes{5, 6, 7, 8, 1, 1});
}

TEST_CASE("bytes go to the other device once its memory is reached, and by copies always") {
  const Runtime runtime;
  int can = 0;
  Must(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  Must(cudaDeviceEnablePeerAccess(1, 0));
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  void* const from = Allocated(8);
  Must(cudaMemcpy(from, Counted(8).data(), 8, cudaMemcpyHostToDevice));
  Must(cudaSetDevice(1));
  void* const to = Allocated(8);
  Must(cudaMemcpyPeer(to, 1, from, 0, 4));
  CHECK(Read(to, 8) == Bytes{1, 2, 3, 4, 0, 0, 0, 0});
  Must(cudaMemcpyPeerAsync(to, 1, from, 0, 8, nullptr));
  CHECK(Read(to, 8) == Counted(8));
  Must(cudaSetDevice(0));
  Must(cudaDeviceDisablePeerAccess(1));
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
}

TEST_CASE("variables are copied in a stream") {
  const Runtime runtime;
  cudaStream_t stream = NonBlocking();
  const int values[4] = {4, 3, 2, 1};
  int read[2] = {};
  Must(cudaMemcpyToSymbolAsync(variable_on_host, values, sizeof(values), 0, cudaMemcpyHostToDevice,
                               stream));
  Must(cudaMemcpyFromSymbolAsync(read, variable_on_host, sizeof(read), 8, cudaMemcpyDeviceToHost,
                                 stream));
  Must(cudaStreamSynchronize(stream));
  CHECK(read[0] == 2);
  CHECK(read[1] == 1);
}

TEST_CASE("streams wait for events, and tell what they were made with") {
  const Runtime runtime;
  int least = 0;
  int greatest = 0;
  int priority = 7;
  unsigned flags = 0;
  cudaStream_t first = NonBlocking();
  cudaStream_t second = nullptr;
  Must(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  Must(cudaStreamCreateWithPriority(&second, cudaStreamNonBlocking, greatest));
  Must(cudaStreamGetPriority(second, &priority));
  CHECK(priority == greatest);
  Must(cudaStreamGetFlags(second, &flags));
  CHECK(flags == cudaStreamNonBlocking);
  cudaEvent_t event = nullptr;
  cudaEvent_t end = nullptr;
  float took = -1;
  Must(cudaEventCreate(&event));
  Must(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
  std::atomic<int> calls = 0;
  const auto count = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  const auto called = [](cudaStream_t, cudaError_t error, void* counter) {
    *static_cast<std::atomic<int>*>(counter) += error == cudaSuccess ? 10 : 100;
  };
  standin_hold_stream(first);
  Must(cudaEventRecord(event, first));
  Must(cudaStreamWaitEvent(second, event, 0));
  Must(cudaLaunchHostFunc(second, count, &calls));
  Must(cudaStreamAddCallback(second, called, &calls, 0));
  Must(cudaEventRecordWithFlags(end, second, cudaEventRecordDefault));
  CHECK(cudaStreamQuery(second) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(calls == 0);
  standin_release_stream(first);
  Must(cudaEventSynchronize(end));
  Must(cudaEventElapsedTime(&took, event, end));
  CHECK(took >= 0);
  CHECK(calls == 11);
  Must(cudaEventDestroy(event));
  Must(cudaStreamDestroy(second));
}

TEST_CASE("launches of every form run") {
  const Runtime runtime;
  void* memory = Allocated(32);
  unsigned value = 1;
  std::size_t count = 8;
  void* arguments[] = {&memory, &value, &count};
  const dim3 one{1, 1, 1};
  const dim3 eight{8, 1, 1};
  Must(cudaLaunchCooperativeKernel(FillKernel(), one, eight, arguments, 0, nullptr));
  CHECK(Read<unsigned>(memory, 8) == Words(1));
  value = 2;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributePriority;
  cudaLaunchConfig_t config{one, eight, 0, nullptr, &attribute, 1};
  standin_reset_calls();
  Must(cudaLaunchKernelExC(&config, FillKernel(), arguments));
  CHECK(standin_calls("cuLaunchKernelEx") + standin_calls("cuLaunchKernelEx_ptsz") == 1);
  CHECK(Read<unsigned>(memory, 8) == Words(2));
  int blocks = 0;
  int drivers = 0;
  cudaFunction_t function = nullptr;
  Must(cudaGetFuncBySymbol(&function, FillKernel()));
  Must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, FillKernel(), 256, 0));
  CHECK(Driver(cuOccupancyMaxActiveBlocksPerMultiprocessor, &drivers, function, 256, 0) == 0);
  CHECK(blocks == drivers);
}

TEST_CASE("memory is taken and given back in the order of a stream") {
  const Runtime runtime;
  cudaStream_t stream = NonBlocking();
  cudaMemPool_t pool = nullptr;
  void* memory = nullptr;
  std::uint64_t threshold = 1 << 20;
  std::uint64_t told = 0;
  Must(cudaDeviceGetDefaultMemPool(&pool, 0));
  Must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  Must(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &told));
  CHECK(told == threshold);
  Must(cudaMallocAsync(&memory, 4096, stream));
  Must(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &told));
  CHECK(told == 4096);
  Must(cudaFreeAsync(memory, stream));
  Must(cudaStreamSynchronize(stream));
  Must(cudaMemPoolTrimTo(pool, 0));
  Must(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &told));
  CHECK(told == 0);
  cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
  Must(cudaMemPoolSetAccess(pool, &access, 1));
  cudaMemAccessFlags flags{};
  Must(cudaMemPoolGetAccess(&flags, pool, &access.location));
  CHECK(flags == cudaMemAccessFlagsProtReadWrite);
}

TEST_CASE("handles for other processes are the driver's") {
  const Runtime runtime;
  void* const memory = Allocated(4096);
  cudaIpcMemHandle_t handle{};
  CUipcMemHandle drivers{};
  Must(cudaIpcGetMemHandle(&handle, memory));
  CHECK(Driver(cuIpcGetMemHandle, &drivers, reinterpret_cast<CUdeviceptr>(memory)) == 0);
  CHECK(std::memcmp(&handle, &drivers, sizeof(handle)) == 0);
  void* opened = nullptr;
  CUdeviceptr by_driver = 0;
  // Of this process: whatever the driver says of that.
  CHECK(static_cast<int>(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess)) ==
        Driver(cuIpcOpenMemHandle_v2, &by_driver, drivers, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  CHECK(cudaIpcCloseMemHandle(memory) != cudaSuccess);
  cudaEvent_t event = nullptr;
  cudaIpcEventHandle_t of_event{};
  Must(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  Must(cudaIpcGetEventHandle(&of_event, event));
}

TEST_CASE("versions, attributes and errors are told") {
  const Runtime runtime;
  int version = 0;
  int drivers = 0;
  int count = 0;
  Must(cudaRuntimeGetVersion(&version));
  CHECK(version == CUDART_VERSION);
  Must(cudaDriverGetVersion(&version));
  CHECK(Driver(cuDriverGetVersion, &drivers) == 0);
  CHECK(version == drivers);
  Must(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  Must(cudaDeviceGetAttribute(&version, cudaDevAttrMultiProcessorCount, 1));
  CHECK(Driver(cuDeviceGetAttribute, &drivers, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1) == 0);
  CHECK(version == drivers);
  CHECK(cudaGetErrorName(cudaErrorInvalidSymbol) == std::string("cudaErrorInvalidSymbol"));
  CHECK(std::string(cudaGetErrorString(cudaErrorInvalidDeviceFunction)) ==
        "invalid device function");
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
}

TEST_CASE("what the driver has nothing for is refused as it refuses it") {
  const Runtime runtime;
  void* out[16] = {};
  std::size_t number = 0;
  cudaStream_t stream = NonBlocking();
  CHECK(cudaImportExternalSemaphore(reinterpret_cast<cudaExternalSemaphore_t*>(out), nullptr) ==
        cudaErrorInvalidValue);
  CHECK(cudaSignalExternalSemaphoresAsync(nullptr, nullptr, 0, stream) == cudaErrorInvalidValue);
  CHECK(cudaWaitExternalSemaphoresAsync(nullptr, nullptr, 0, stream) == cudaErrorInvalidValue);
  CHECK(cudaGraphicsMapResources(0, nullptr, stream) == cudaErrorInvalidValue);
  CHECK(cudaGraphicsUnmapResources(0, nullptr, stream) == cudaErrorInvalidValue);
  CHECK(cudaGraphicsResourceGetMappedPointer(out, &number, nullptr) ==
        cudaErrorInvalidResourceHandle);
  CHECK(cudaMemcpy3DBatchAsync(0, nullptr, 0, stream) == cudaErrorInvalidValue);
  Must(cudaLogsCurrent(reinterpret_cast<cudaLogIterator*>(out), 0));
  const cudaUUID_t id{};
  const void* table = nullptr;
  CHECK(cudaGetExportTable(&table, &id) != cudaSuccess);
  CHECK(table == nullptr);
}
