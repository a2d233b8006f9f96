// What the tests of reported behaviour have in common. Their expected answers are what is publicly
// reported of real drivers; reported_is_noticed.py checks that each of them is asked for.
#pragma once

#include <cuda.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "catch.h"
#include "standin.h"
#include "test_device.h"

namespace standin_test {

inline constexpr std::size_t kMebibyte = std::size_t{1} << 20;
inline constexpr std::size_t kPhysical = 2 * kMebibyte;  // the least that can be mapped
inline constexpr CUdeviceptr kNowhere = 0xdeadbeef000;

inline void Must(CUresult result) {
  REQUIRE(result == CUDA_SUCCESS);
}

inline CUdeviceptr AddressOf(const void* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

inline CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  Must(cuStreamCreate(&stream, flags));
  return stream;
}

inline CUevent NewEvent() {
  CUevent event = nullptr;
  Must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

// Work in a stream of the current context that is not done before it is let go.
class HeldWork {
 public:
  explicit HeldWork(CUdeviceptr written, CUstream stream = NewStream()) : stream_(stream) {
    standin_hold_stream(stream_);
    Must(cuMemsetD8Async(written, 1, 1, stream_));
  }
  ~HeldWork() { LetGo(); }
  HeldWork(const HeldWork&) = delete;
  HeldWork& operator=(const HeldWork&) = delete;

  void LetGo() const { standin_release_stream(stream_); }
  CUstream stream() const { return stream_; }

  // Makes the call on a thread with the context, and lets the work go when that waits or is back.
  // Whether the call succeeded before.
  template <typename Call>
  bool IsNotWaitedForBy(CUcontext context, Call call) const {
    const auto [result, before] = MakeCall(context, call);
    return result == CUDA_SUCCESS && before;
  }
  // The same. Whether the call waited, and succeeded when the work was done.
  template <typename Call>
  bool IsWaitedForBy(CUcontext context, Call call) const {
    const auto [result, before] = MakeCall(context, call);
    return result == CUDA_SUCCESS && !before && cuStreamQuery(stream_) == CUDA_SUCCESS;
  }

 private:
  // What it answers, and whether that was before the work was let go.
  template <typename Call>
  std::pair<CUresult, bool> MakeCall(CUcontext context, Call call) const {
    std::atomic<bool> is_back{false};
    CUresult result = CUDA_ERROR_UNKNOWN;
    std::thread thread([&] {
      cuCtxSetCurrent(context);
      result = call();
      is_back = true;
    });
    while (!is_back && standin_waiting_calls() == 0) std::this_thread::yield();
    const bool before = is_back && cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY;
    LetGo();
    thread.join();
    return {result, before};
  }

  CUstream stream_;
};

// Memory of cuMemCreate, mapped. No device has access to it yet.
class MappedMemory {
 public:
  explicit MappedMemory(int device = 0) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    Must(cuMemCreate(&handle_, kPhysical, &properties, 0));
    Must(cuMemAddressReserve(&address_, kPhysical, 0, 0, 0));
    Must(cuMemMap(address_, kPhysical, 0, handle_, 0));
  }
  ~MappedMemory() {
    if (mapped_) cuMemUnmap(address_, kPhysical);
    cuMemAddressFree(address_, kPhysical);
    cuMemRelease(handle_);
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  CUdeviceptr address() const { return address_; }
  CUresult Give(int device, CUmemAccess_flags flags) const {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    return cuMemSetAccess(address_, kPhysical, &access, 1);
  }
  CUresult Unmap() {
    const CUresult result = cuMemUnmap(address_, kPhysical);
    mapped_ = result != CUDA_SUCCESS;
    return result;
  }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  bool mapped_ = true;
};

// What the device allocates in stream order is there when this returns.
inline CUdeviceptr AllocateOfPool(std::size_t bytes) {
  CUdeviceptr out = 0;
  const CUstream stream = NewStream();
  Must(cuMemAllocAsync(&out, bytes, stream));
  Must(cuStreamSynchronize(stream));
  Must(cuStreamDestroy_v2(stream));
  return out;
}

inline CUdeviceptr AllocateManaged(std::size_t bytes) {
  CUdeviceptr out = 0;
  Must(cuMemAllocManaged(&out, bytes, CU_MEM_ATTACH_GLOBAL));
  return out;
}

inline std::size_t FreeBytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  Must(cuMemGetInfo_v2(&free, &total));
  return free;
}

}  // namespace standin_test
