// What several processes share: a device's memory, IPC handles of memory and events, and pools. The
// second process is peer.cpp.
#include <cuda.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "catch.h"
#include "peer_process.h"

using standin_test::Device;
using standin_test::Hexadecimal;
using standin_test::kMemory;
using standin_test::Peer;
using standin_test::RunPeer;

namespace {

CUevent NewSharedEvent() {
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  return event;
}

std::string HandleOf(CUevent event) {
  CUipcEventHandle handle;
  REQUIRE(cuIpcGetEventHandle(&handle, event) == CUDA_SUCCESS);
  return Hexadecimal(handle);
}

std::string HandleOf(CUdeviceptr memory) {
  CUipcMemHandle handle;
  REQUIRE(cuIpcGetMemHandle(&handle, memory) == CUDA_SUCCESS);
  return Hexadecimal(handle);
}

// A pool of the device, an allocation from it, and its file, which programs that are started
// inherit.
class SharedPool {
 public:
  SharedPool() : pool_(New(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
    REQUIRE(cuMemPoolExportToShareableHandle(&fd_, pool_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                             0) == CUDA_SUCCESS);
    inherited_ = dup(fd_);
    REQUIRE(cuMemAllocFromPoolAsync(&memory_, 4096, pool_, nullptr) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32_v2(memory_, 1234, 1024) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  }
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;
  ~SharedPool() {
    close(fd_);
    close(inherited_);
    cuMemFreeAsync(memory_, nullptr);  // no context's: it would stay; refused where a test did it
    cuCtxSynchronize();
    cuMemPoolDestroy(pool_);
  }

  static CUmemoryPool New(CUmemAllocationHandleType type) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.handleTypes = type;
    CUmemoryPool pool = nullptr;
    REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
    return pool;
  }

  std::string Data() const {
    CUmemPoolPtrExportData data;
    REQUIRE(cuMemPoolExportPointer(&data, memory_) == CUDA_SUCCESS);
    return Hexadecimal(data);
  }

  CUdeviceptr memory() const { return memory_; }
  int fd() const { return inherited_; }

 private:
  CUmemoryPool pool_;
  int fd_ = -1;
  int inherited_ = -1;
  CUdeviceptr memory_ = 0;
};

unsigned WordAt(CUdeviceptr memory) {
  unsigned word = 0;
  REQUIRE(cuMemcpyDtoH_v2(&word, memory, sizeof(word)) == CUDA_SUCCESS);
  return word;
}

}  // namespace

TEST_CASE("a second process sees the same bytes through an IPC handle") {
  const Device device;
  device.Allocate(512);
  const CUdeviceptr memory = device.Allocate(4096);
  REQUIRE(cuMemsetD32_v2(memory, 1234, 1024) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CUipcMemHandle handle;
  REQUIRE(cuIpcGetMemHandle(&handle, memory) == CUDA_SUCCESS);
  CHECK(HandleOf(memory + 8) == Hexadecimal(handle));
  CUdeviceptr here = 0;
  CHECK(cuIpcOpenMemHandle_v2(&here, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
        CUDA_ERROR_INVALID_CONTEXT);
  CHECK(RunPeer("exchange " + Hexadecimal(handle) + " 5678") == "1234\n");
  CHECK(WordAt(memory) == 5678);
}

TEST_CASE("processes that share a device see each other's use and run out together") {
  const Device device;
  device.Allocate(kMemory / 2);
  CHECK(RunPeer("free") == std::to_string(kMemory / 2) + "\n");
  CHECK(RunPeer("allocate " + std::to_string(kMemory / 2 + 512)) == "2\n");
  CHECK(RunPeer("allocate " + std::to_string(kMemory / 4)) == "0\n");
  std::size_t free = 0;  // what the ended processes had is free again
  REQUIRE(cuMemGetInfo_v2(&free, nullptr) == CUDA_SUCCESS);
  CHECK(free == kMemory / 2);
}

TEST_CASE("a shared device whose maker was killed before it was ready is made ready") {
  std::string path = "/tmp/standin-unready-XXXXXX";
  close(mkstemp(path.data()));
  CHECK(RunPeer("free", path) == std::to_string(kMemory) + "\n");
  const auto bytes = static_cast<off_t>(std::filesystem::file_size(path));
  REQUIRE(truncate(path.c_str(), 0) == 0);
  REQUIRE(truncate(path.c_str(), bytes) == 0);
  CHECK(RunPeer("free", path) == std::to_string(kMemory) + "\n");
  std::filesystem::remove(path);
}

TEST_CASE("only an event that was made for it can be shared, and not with its own process") {
  const Device device;
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_INTERPROCESS) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CUipcEventHandle handle{};
  CHECK(cuIpcGetEventHandle(&handle, event) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuIpcOpenEventHandle(&event, handle) == CUDA_ERROR_INVALID_HANDLE);
  const CUevent shared = NewSharedEvent();
  CHECK(cuIpcGetEventHandle(nullptr, shared) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuIpcGetEventHandle(&handle, shared) == CUDA_SUCCESS);
  CHECK(cuIpcOpenEventHandle(&event, handle) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("a second process knows when the work before a shared event is done") {
  const Device device;
  const CUevent event = NewSharedEvent();
  CHECK(RunPeer("query-event " + HandleOf(event)) == "0\n");  // not recorded yet
  REQUIRE(standin_hold_stream(nullptr));
  REQUIRE(cuEventRecord(event, nullptr) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  CHECK(RunPeer("query-event " + HandleOf(event)) == "600\n");
  REQUIRE(standin_release_stream(nullptr));
  REQUIRE(cuEventSynchronize(event) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(RunPeer("query-event " + HandleOf(event)) == "0\n");
}

TEST_CASE("work of a second process waits for a shared event") {
  const Device device;
  const CUevent event = NewSharedEvent();
  const CUdeviceptr memory = device.Allocate(4096);
  REQUIRE(standin_hold_stream(nullptr));
  REQUIRE(cuMemsetD32Async(memory, 1234, 1024, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(event, nullptr) == CUDA_SUCCESS);
  Peer peer("read-after-event " + HandleOf(event) + " " + HandleOf(memory));
  CHECK(peer.Line() == "waiting\n");
  REQUIRE(standin_release_stream(nullptr));
  CHECK(peer.Line() == "1234\n");
}

TEST_CASE("a second process records a shared event") {
  const Device device;
  const CUevent event = NewSharedEvent();
  Peer peer("record-event " + HandleOf(event));
  CHECK(peer.Line() == "held\n");
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  peer.GoOn();
  CHECK(peer.Line() == "0\n");
  CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
}

TEST_CASE("a second process uses an allocation of a shared pool, and gives back only its mapping") {
  const Device device;
  const SharedPool pool;
  const std::string fd = std::to_string(pool.fd());
  // Takes the pool and the allocation, may allocate nothing from the pool; the first word; frees.
  CHECK(RunPeer("import " + fd + " " + pool.Data() + " 5678") == "0 0 1 1234 0\n");
  CHECK(WordAt(pool.memory()) == 5678);
  CHECK(cuMemFreeAsync(pool.memory(), nullptr) == CUDA_SUCCESS);
}

TEST_CASE("an allocation is imported into its own pool only, and only while its owner lives") {
  const Device device;
  const SharedPool pool;
  const SharedPool other;
  const std::string fd = std::to_string(pool.fd());
  CHECK(RunPeer("import " + fd + " " + other.Data() + " 0") == "0 1\n");
  const std::string garbage(2 * sizeof(CUmemPoolPtrExportData), '7');
  CHECK(RunPeer("import " + fd + " " + garbage + " 0") == "0 1\n");
  CHECK(RunPeer("import 0 " + pool.Data() + " 0") == "1\n");
}

TEST_CASE("an imported allocation needs no context, and lets in what has access to its pool") {
  const Device device;
  const SharedPool pool;
  CUmemoryPool imported = nullptr;
  CUmemPoolPtrExportData data;
  CUdeviceptr memory = 0;
  REQUIRE(cuMemPoolExportPointer(&data, pool.memory()) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolImportFromShareableHandle(
              &imported, reinterpret_cast<void*>(std::intptr_t{pool.fd()}),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolImportPointer(&memory, imported, &data) == CUDA_SUCCESS);
  unsigned word = 0;
  {
    const Device second(1);
    CHECK(cuMemcpyDtoH_v2(&word, memory, sizeof(word)) == CUDA_ERROR_INVALID_VALUE);
    CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    REQUIRE(cuMemPoolSetAccess(imported, &access, 1) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyDtoH_v2(&word, memory, sizeof(word)) == CUDA_SUCCESS);
    CHECK(word == 1234);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    REQUIRE(cuMemPoolSetAccess(imported, &access, 1) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH_v2(&word, memory, sizeof(word)) == CUDA_ERROR_INVALID_VALUE);
  }
  REQUIRE(cuCtxSetCurrent(device.context()) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(imported) == CUDA_SUCCESS);
}

TEST_CASE("only a pool that was made for it can be shared, and only its allocations") {
  const Device device;
  const CUmemoryPool pool = SharedPool::New(CU_MEM_HANDLE_TYPE_NONE);
  int fd = -1;
  CHECK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  const SharedPool shared;
  CUmemPoolPtrExportData data;
  CHECK(cuMemPoolExportPointer(&data, shared.memory() + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportPointer(&data, device.Allocate(512)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportPointer(nullptr, shared.memory()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportPointer(&data, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a process sees the devices that CUDA_VISIBLE_DEVICES names, by its own numbers") {
  const Device device;
  const auto seen = [](const char* list) {
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    const std::string line = RunPeer("devices");
    unsetenv("CUDA_VISIBLE_DEVICES");
    return line;
  };
  const std::string first = " 0000:01:00.0";
  const std::string second = " 0000:02:00.0";
  CHECK(RunPeer("devices") == "0" + first + second + "\n");
  CHECK(seen("0,1") == "0" + first + second + "\n");
  CHECK(seen("1, 0") == "0" + second + first + "\n");
  CHECK(seen("1") == "0" + second + "\n");
  CHECK(seen("1,2,0") == "0" + second + "\n");  // nothing behind what there is not
  CHECK(seen("1,1,0") == "0" + second + "\n");
  for (const char* none : {"", "-1", "2,0", "NoDevFiles", "0x", "GPU-"}) {
    INFO(none);
    CHECK(seen(none) == std::to_string(CUDA_ERROR_NO_DEVICE) + "\n");
  }
  CUuuid uuid;
  REQUIRE(cuDeviceGetUuid_v2(&uuid, 1) == CUDA_SUCCESS);
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                  static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  CHECK(seen(text.c_str()) == "0" + second + "\n");
}

TEST_CASE("the bytes of a device are the same whatever number a process gives it") {
  const Device device(1);
  const std::string before = RunPeer("free");
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  CHECK(RunPeer("free") == before);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc_v2(&memory, kMemory / 2) == CUDA_SUCCESS);
  CHECK(std::stoull(RunPeer("free")) == std::stoull(before) - kMemory / 2);
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(RunPeer("free") == before);
}
