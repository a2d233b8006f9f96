// The software driver's device, under the shim, for tests: a context and what one does with it.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "shim/device/contexts.h"
#include "shim/process.h"
#include "standin/standin.h"

// Newer headers declare only the newest form.
extern "C" CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);

namespace cubfc::test {

inline void must(CUresult result) {
  REQUIRE(result == CUDA_SUCCESS);
}

// A context of its own, current on this thread while it lives.
class TestContext {
 public:
  explicit TestContext(int ordinal = 0) {
    must(cuInit(0));
    CUdevice device = 0;
    must(cuDeviceGet(&device, ordinal));
    must(cuDevicePrimaryCtxRetain(&handle, device));
    device_ = device;
    must(cuCtxSetCurrent(handle));
  }
  ~TestContext() {
    cuCtxSetCurrent(nullptr);
    cuDevicePrimaryCtxReset_v2(device_);
    cuDevicePrimaryCtxRelease_v2(device_);
  }
  TestContext(const TestContext&) = delete;
  TestContext& operator=(const TestContext&) = delete;

  CUcontext handle = nullptr;

 private:
  CUdevice device_ = 0;
};

// A stream that does not begin its work while this lives.
class HeldStream {
 public:
  HeldStream() {
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE(standin_hold_stream(stream) == 1);
  }
  ~HeldStream() { standin_release_stream(stream); }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  CUstream stream = nullptr;
};

// Of blocks that the program has freed and that wait for the device.
inline std::uint64_t bytes_waiting() {
  std::uint64_t bytes = 0;
  auto* process = cubfc::Process::active();
  for (auto* each = process->contexts().first(); each != nullptr; each = each->next) {
    bytes += each->alive() ? each->headroom().retired : 0;
  }
  return bytes;
}

// Until a call on another thread waits for work of the device, or `over` says that it is through.
inline void wait_until_a_call_waits(const std::atomic<bool>& over) {
  while (!over && standin_waiting_calls() == 0) {
    std::this_thread::yield();
  }
}

// Until this thread sleeps: in a lock, or in the driver. 0: it has not begun yet.
inline void wait_until_asleep(const std::atomic<pid_t>& thread) {
  for (char state = 'R'; state == 'R' || state == 'D';) {
    std::this_thread::yield();
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    if (std::getline(file, text); thread != 0) {
      const std::size_t name_end = text.rfind(") ");
      state = name_end == std::string::npos ? 'X' : text[name_end + 2];  // X: it has ended
    }
  }
}

// Keeps the calls of a function of the driver's as they begin, on whatever thread, while it lives.
// One at a time.
class HeldCalls {
 public:
  explicit HeldCalls(const char* symbol) {
    held_symbol = symbol;
    held = 0;
    is_released = false;
    standin_watch([](const standin_call* call) {
      if (call->result == nullptr && std::strcmp(call->symbol, held_symbol) == 0) {
        ++held;
        is_released.wait(false);
      }
    });
  }
  ~HeldCalls() {
    standin_watch(nullptr);
    is_released = true;
    is_released.notify_all();
  }
  HeldCalls(const HeldCalls&) = delete;
  HeldCalls& operator=(const HeldCalls&) = delete;

  // Until one is kept.
  static void wait() {
    while (held == 0) {
      std::this_thread::yield();
    }
  }

 private:
  static inline std::atomic<const char*> held_symbol;
  static inline std::atomic<int> held;
  static inline std::atomic<bool> is_released;
};

inline CUdeviceptr allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  must(cuMemAlloc(&address, bytes));
  return address;
}

inline CUresult create_physical(std::size_t bytes, CUmemGenericAllocationHandle* handle,
                                int device = 0) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return cuMemCreate(handle, bytes, &properties, 0);
}

// The arena that an address lies in has no broken invariant.
inline void verify_arenas() {
  Process* process = Process::active();
  REQUIRE(process != nullptr);
  for (Context* context = process->contexts().first(); context != nullptr;
       context = context->next) {
    CHECK(context->arena.verify() == "");
  }
}

inline std::vector<unsigned char> read(CUdeviceptr address, std::size_t bytes) {
  std::vector<unsigned char> data(bytes);
  must(cuMemcpyDtoH(data.data(), address, bytes));
  return data;
}

}  // namespace cubfc::test
