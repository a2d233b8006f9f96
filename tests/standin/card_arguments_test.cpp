// What a card answers where the software driver has nothing to serve: the arguments come first.
#include <cuda.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "card_test.h"
#include "reported_test.h"

using namespace standin_test;

namespace {

CUarray MakeArray() {
  const CUDA_ARRAY_DESCRIPTOR shape{64, 16, CU_AD_FORMAT_FLOAT, 1};
  CUarray array = nullptr;
  Must(cuArrayCreate_v2(&array, &shape));
  return array;
}

}  // namespace

TEST_CASE("a card's answers: what else is asked of devices") {
  const Device device;
  std::array<char, 64> text{};
  std::size_t width = 0;
  unsigned nodes = 0;
  CUdevprop properties{};
  const auto widest = [&](int format, unsigned channels, CUdevice of = 0) {
    return cuDeviceGetTexture1DLinearMaxWidth(&width, Numbered<CUarray_format>(format), channels,
                                              of);
  };
  CheckAnswers({
      {"an identifier nowhere", kValue, [&] { return cuDeviceGetLuid(nullptr, &nodes, 0); }},
      {"of no device", kDevice, [&] { return cuDeviceGetLuid(text.data(), &nodes, 9); }},
      {"the widest texture", kFine, [&] { return widest(CU_AD_FORMAT_FLOAT, 1); }},
      {"of three channels", kValue, [&] { return widest(CU_AD_FORMAT_FLOAT, 3); }},
      {"of no format", kValue, [&] { return widest(0x99, 1); }},
      {"of no device, too", kDevice, [&] { return widest(CU_AD_FORMAT_FLOAT, 1, 9); }},
      {"sync attributes, no flags", kValue,
       [&] { return cuDeviceGetNvSciSyncAttributes(text.data(), 0, 0); }},
      {"nowhere", kHandle, [] { return cuDeviceGetNvSciSyncAttributes(nullptr, 0, 0); }},
      {"sync attributes of no device", kDevice,
       [&] { return cuDeviceGetNvSciSyncAttributes(text.data(), 9, 0); }},
      {"properties", kFine, [&] { return cuDeviceGetProperties(&properties, 0); }},
      {"properties nowhere", kValue, [] { return cuDeviceGetProperties(nullptr, 0); }},
      {"properties of no device", kDevice, [&] { return cuDeviceGetProperties(&properties, 9); }},
      {"a flush", kUnserved,
       [] {
         return cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                           CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
       }},
      {"a flush to nobody", kValue,
       [] {
         return cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                           Numbered<CUflushGPUDirectRDMAWritesScope>(7));
       }},
  });
  CHECK(width == 1073741824);
  CHECK(properties.maxThreadsPerBlock == 1024);
}

#if CUDA_VERSION >= 13000
TEST_CASE("a card's answers: what is atomic, who is notified, what is logged") {
  const Device device;
  const CUatomicOperation add = CU_ATOMIC_OPERATION_INTEGER_ADD;
  const auto none = Numbered<CUatomicOperation>(77);
  unsigned host = 9;
  unsigned peer = 9;
  CUasyncCallbackHandle notified = nullptr;
  CUlogsCallbackHandle logged = nullptr;
  CUlogIterator at = 9;
  std::array<char, 64> text{};
  std::size_t bytes = text.size();
  const auto notify = [](CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) {};
  const auto log = [](void*, CUlogLevel, char*, std::size_t) {};
  const auto on_host = [&](const CUatomicOperation& of, unsigned count, CUdevice on) {
    return cuDeviceGetHostAtomicCapabilities(&host, &of, count, on);
  };
  const auto on_peer = [&](CUdevice to) {
    return cuDeviceGetP2PAtomicCapabilities(&peer, &add, 1, 0, to);
  };
  const std::string path = "/tmp/standin-logs-" + std::to_string(getpid());
  CheckAnswers({
      {"on the host", kFine, [&] { return on_host(add, 1, 0); }},
      {"no operations", kValue, [&] { return on_host(add, 0, 0); }},
      {"no such operation", kValue, [&] { return on_host(none, 1, 0); }},
      {"no such device", kDevice, [&] { return on_host(add, 1, 9); }},
      {"on a peer", kFine, [&] { return on_peer(1); }},
      {"on itself", kDevice, [&] { return on_peer(0); }},
      {"on no device", kDevice, [&] { return on_peer(9); }},
      {"notify nobody", kValue,
       [&] { return cuDeviceRegisterAsyncNotification(0, nullptr, nullptr, &notified); }},
      {"of no device", kDevice,
       [&] { return cuDeviceRegisterAsyncNotification(9, notify, nullptr, &notified); }},
      {"notify", kFine,
       [&] { return cuDeviceRegisterAsyncNotification(0, notify, nullptr, &notified); }},
      {"no more", kFine, [&] { return cuDeviceUnregisterAsyncNotification(0, notified); }},
      {"nothing more", kValue, [] { return cuDeviceUnregisterAsyncNotification(0, nullptr); }},
      {"the end of the log", kFine, [&] { return cuLogsCurrent(&at, 0); }},
      {"nowhere", kValue, [] { return cuLogsCurrent(nullptr, 0); }},
      {"dump", kFine, [&] { return cuLogsDumpToMemory(&at, text.data(), &bytes, 0); }},
      {"dump nowhere", kValue, [&] { return cuLogsDumpToMemory(&at, nullptr, &bytes, 0); }},
      {"dump to a file", kFine, [&] { return cuLogsDumpToFile(&at, path.c_str(), 0); }},
      {"dump to no file", kValue, [&] { return cuLogsDumpToFile(&at, nullptr, 0); }},
      {"tell nobody", kValue, [&] { return cuLogsRegisterCallback(nullptr, nullptr, &logged); }},
      {"tell", kFine, [&] { return cuLogsRegisterCallback(log, nullptr, &logged); }},
      {"tell no more", kFine, [&] { return cuLogsUnregisterCallback(logged); }},
      {"tell nothing more", kValue, [] { return cuLogsUnregisterCallback(nullptr); }},
  });
  std::remove(path.c_str());
  CHECK(host == 0);
  CHECK(peer == 0);
  CHECK(at == 0);
  CHECK(bytes == 0);
}

TEST_CASE("a card's answers: checkpoints of processes") {
  const Device device;
  CUprocessState state{};
  int thread = -9;
  constexpr int kNobody = 999999999;
  CheckAnswers({
      {"this process", kFine, [&] { return cuCheckpointProcessGetState(getpid(), &state); }},
      {"told nowhere", kValue, [] { return cuCheckpointProcessGetState(getpid(), nullptr); }},
      {"no process", CUDA_ERROR_OPERATING_SYSTEM,
       [&] { return cuCheckpointProcessGetState(kNobody, &state); }},
      {"its thread", kFine,
       [&] { return cuCheckpointProcessGetRestoreThreadId(getpid(), &thread); }},
      {"lock", kUnserved, [] { return cuCheckpointProcessLock(getpid(), nullptr); }},
      {"checkpoint", CUDA_ERROR_ILLEGAL_STATE,
       [] { return cuCheckpointProcessCheckpoint(getpid(), nullptr); }},
      {"restore", CUDA_ERROR_ILLEGAL_STATE,
       [] { return cuCheckpointProcessRestore(getpid(), nullptr); }},
      {"unlock", CUDA_ERROR_ILLEGAL_STATE,
       [] { return cuCheckpointProcessUnlock(getpid(), nullptr); }},
  });
  CHECK(state == CU_PROCESS_STATE_RUNNING);
  CHECK(thread != -9);
}
#endif

TEST_CASE("a card's answers: what an ordinary array has not") {
  const Device device;
  const CUarray array = MakeArray();
  CUDA_ARRAY_SPARSE_PROPERTIES sparse{};
  CUDA_ARRAY_MEMORY_REQUIREMENTS memory{};
  CUarray plane = nullptr;
  CUarrayMapInfo map{};
  CheckAnswers({
      {"requirements", kValue, [&] { return cuArrayGetMemoryRequirements(&memory, array, 0); }},
      {"nowhere", kValue, [&] { return cuArrayGetMemoryRequirements(nullptr, array, 0); }},
      {"of nothing", kHandle, [&] { return cuArrayGetMemoryRequirements(&memory, nullptr, 0); }},
      {"of no mipmapped array", kHandle,
       [&] { return cuMipmappedArrayGetMemoryRequirements(&memory, nullptr, 0); }},
      {"tiles", kValue, [&] { return cuArrayGetSparseProperties(&sparse, array); }},
      {"tiles of nothing", kHandle, [&] { return cuArrayGetSparseProperties(&sparse, nullptr); }},
      {"a plane", kValue, [&] { return cuArrayGetPlane(&plane, array, 0); }},
      {"a plane of nothing", kHandle, [&] { return cuArrayGetPlane(&plane, nullptr, 0); }},
      {"map nothing", kValue, [&] { return cuMemMapArrayAsync(&map, 1, nullptr); }},
      {"map none", kValue, [&] { return cuMemMapArrayAsync(&map, 0, nullptr); }},
      {"map what is not named", kValue, [] { return cuMemMapArrayAsync(nullptr, 1, nullptr); }},
  });
}

TEST_CASE("a card's answers: other libraries' memory and graphics, launches on several devices") {
  const Device device;
  CUexternalMemory memory = nullptr;
  CUexternalSemaphore semaphore = nullptr;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC file{};
  file.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC windows{};
  windows.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
  CUDA_LAUNCH_PARAMS launch{};
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  CheckAnswers({
    {"a file", kUnserved, [&] { return cuImportExternalMemory(&memory, &file); }},
        {"nothing", kValue, [&] { return cuImportExternalMemory(&memory, nullptr); }},
        {"nowhere", kValue, [&] { return cuImportExternalMemory(nullptr, &file); }},
        {"Windows' handle", kValue, [&] { return cuImportExternalMemory(&memory, &windows); }},
        {"no semaphore", kValue, [&] { return cuImportExternalSemaphore(&semaphore, nullptr); }},
        {"destroy no memory", kValue, [] { return cuDestroyExternalMemory(nullptr); }},
        {"destroy no semaphore", kValue, [] { return cuDestroyExternalSemaphore(nullptr); }},
        {"signal", kValue,
         [&] { return cuSignalExternalSemaphoresAsync(&semaphore, nullptr, 1, nullptr); }},
        {"end no resource", kHandle, [] { return cuGraphicsUnregisterResource(nullptr); }},
        {"flags of none", kHandle, [] { return cuGraphicsResourceSetMapFlags_v2(nullptr, 0); }},
        {"memory of none", kHandle,
         [&] { return cuGraphicsResourceGetMappedPointer_v2(&address, &bytes, nullptr); }},
        {"map none", kValue, [] { return cuGraphicsMapResources(0, nullptr, nullptr); }},
        {"unmap none", kValue, [] { return cuGraphicsUnmapResources(0, nullptr, nullptr); }},
        {"launch nothing", kHandle,
         [&] { return cuLaunchCooperativeKernelMultiDevice(&launch, 1, 0); }},
        {"no launches", kValue,
         [&] { return cuLaunchCooperativeKernelMultiDevice(&launch, 0, 0); }},
#if CUDA_VERSION >= 12090
        {"a green context's id", kContext, [] {
           unsigned long long id = 0;
           return cuGreenCtxGetId(nullptr, &id);
         }},
#endif
  });
}
