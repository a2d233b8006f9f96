// What the software driver promises to the tests that are built on it: contexts, memory, errors.
#include "standin.h"

#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "test_device.h"

using standin_test::Device;
using standin_test::kMemory;

TEST_CASE("bytes written to device memory are the bytes read") {
  const Device device;
  const std::vector<char> written(100000, 'x');
  std::vector<char> read(written.size());
  const CUdeviceptr memory = device.Allocate(written.size());
  REQUIRE(cuMemcpyHtoD_v2(memory, written.data(), written.size()) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoH_v2(read.data(), memory, read.size()) == CUDA_SUCCESS);
  CHECK(read == written);
}

TEST_CASE("addresses are aligned to 512 bytes, and to 2 MiB from 2 MiB on") {
  const Device device;
  device.Allocate(1);
  CHECK(device.Allocate(1) % 512 == 0);
  CHECK(device.Allocate(2 << 20) % (2 << 20) == 0);
}

TEST_CASE("freed memory keeps its bytes as long as another block lies in the same chunk") {
  const Device device;
  const CUdeviceptr first = device.Allocate(4096);
  const CUdeviceptr neighbour = device.Allocate(4096);
  REQUIRE(cuMemsetD8_v2(first, 7, 4096) == CUDA_SUCCESS);
  REQUIRE(cuMemFree_v2(first) == CUDA_SUCCESS);
  REQUIRE(device.Allocate(4096) == first);
  unsigned char byte = 0;
  REQUIRE(cuMemcpyDtoH_v2(&byte, first, 1) == CUDA_SUCCESS);
  CHECK(byte == 7);
  REQUIRE(cuMemFree_v2(first) == CUDA_SUCCESS);
  REQUIRE(cuMemFree_v2(neighbour) == CUDA_SUCCESS);
  REQUIRE(device.Allocate(4096) == first);
  REQUIRE(cuMemcpyDtoH_v2(&byte, first, 1) == CUDA_SUCCESS);
  CHECK(byte == 0);  // the chunk was the device's meanwhile, as on an H200
}

// Every second piece of a full device is given back; then one is wanted of twice the size.
CUresult allocate_across_holes(const Device& device) {
  std::vector<CUdeviceptr> pieces;
  for (std::size_t used = 0; used < kMemory; used += 2 << 20) {
    pieces.push_back(device.Allocate(2 << 20));
  }
  for (std::size_t i = 0; i < pieces.size(); i += 2) cuMemFree_v2(pieces[i]);
  std::size_t free = 0;
  REQUIRE(cuMemGetInfo_v2(&free, nullptr) == CUDA_SUCCESS);
  CHECK(free == kMemory / 2);
  CUdeviceptr out = 0;
  return cuMemAlloc_v2(&out, 4 << 20);
}

TEST_CASE("holes between blocks make no request fail, as on an H200") {
  CHECK(allocate_across_holes(Device{}) == CUDA_SUCCESS);
}

TEST_CASE("where addresses are memory, a device can be too fragmented for a size that is free",
          "[.line]") {
  CHECK(allocate_across_holes(Device{}) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("misuse of cuMemAlloc and cuMemFree gets the documented errors") {
  const Device device;
  CUdeviceptr out = 0;
  CHECK(cuMemAlloc_v2(&out, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc_v2(nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc_v2(&out, kMemory + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr memory = device.Allocate(1024);
  int on_stack = 0;
  CHECK(cuMemFree_v2(memory + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(reinterpret_cast<CUdeviceptr>(&on_stack)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(12345) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(0) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(memory) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the 32-bit forms of CUDA 2 are refused, so that a wrong alias is noticed") {
  const Device device;
  unsigned address = 0;
  CHECK(cuMemAlloc(&address, 16) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemFree(0) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("a pitched allocation has rows that begin aligned") {
  const Device device;
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  REQUIRE(cuMemAllocPitch_v2(&memory, &pitch, 100, 3, 4) == CUDA_SUCCESS);
  CHECK(pitch == 512);
  CHECK(cuMemAllocPitch_v2(&memory, &pitch, 100, 3, 5) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an address range is that of the allocation, with the size asked for") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(1000);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  REQUIRE(cuMemGetAddressRange_v2(&base, &size, memory + 999) == CUDA_SUCCESS);
  CHECK(base == memory);
  CHECK(size == 1000);
  CHECK(cuMemGetAddressRange_v2(&base, &size, memory + 1000) == CUDA_ERROR_NOT_FOUND);
  REQUIRE(cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(cuMemGetAddressRange_v2(&base, &size, memory) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("a pointer's attributes are those of its allocation, and its buffer id is never reused") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(1000);
  const auto buffer_id = [&] {
    unsigned long long id = 0;
    REQUIRE(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory) == CUDA_SUCCESS);
    return id;
  };
  const auto first = buffer_id();
  CUdeviceptr start = 0;
  CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory + 8) ==
        CUDA_SUCCESS);
  CHECK(start == memory);
  REQUIRE(cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory) ==
        CUDA_ERROR_INVALID_VALUE);
  REQUIRE(device.Allocate(1000) == memory);
  CHECK(buffer_id() != first);
}

TEST_CASE("attributes of a pointer that is none are zero, all at once, without an error") {
  const Device device;
  unsigned type = 99;
  int ordinal = 99;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &ordinal};
  REQUIRE(cuPointerGetAttributes(2, attributes, values, 4096) == CUDA_SUCCESS);
  CHECK(type == 0);
  CHECK(ordinal < 0);
}

TEST_CASE("a reset primary context loses its memory, keeps its handle's value, and gets a new id") {
  const Device device;
  unsigned long long before = 0;
  unsigned long long after = 0;
  device.Allocate(4096);
  REQUIRE(cuCtxGetId(device.context(), &before) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(0) == 0);
  int active = 1;
  unsigned flags = 0;
  REQUIRE(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
  CHECK(active == 0);
  CUdeviceptr out = 0;
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext again = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS);
  CHECK(again == device.context());
  REQUIRE(cuCtxGetId(again, &after) == CUDA_SUCCESS);
  CHECK(after != before);
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_SUCCESS);
  cuDevicePrimaryCtxRelease_v2(0);
}

TEST_CASE("the stack of contexts follows push, pop and destroy") {
  const Device device;
  CUcontext mine = nullptr;
  CUcontext current = nullptr;
  REQUIRE(cuCtxCreate_v2(&mine, 0, 1) == CUDA_SUCCESS);
  cuCtxGetCurrent(&current);
  CHECK(current == mine);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc_v2(&memory, 4096) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(1) == 4096);
  REQUIRE(cuCtxDestroy_v2(mine) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(1) == 0);
  cuCtxGetCurrent(&current);
  CHECK(current == device.context());
  CHECK(cuCtxDestroy_v2(mine) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("how deep kernels wait for others is no limit of devices from 9.0 on") {
  const Device device;
  CHECK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 3) == CUDA_ERROR_UNSUPPORTED_LIMIT);
  std::size_t depth = 0;
  CHECK(cuCtxGetLimit(&depth, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) == CUDA_SUCCESS);
  CHECK(depth == 2);
}

TEST_CASE("a destroyed context can be made current, and serves nothing") {
  const Device device;
  CUcontext mine = nullptr;
  REQUIRE(cuCtxCreate_v2(&mine, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxDestroy_v2(mine) == CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  REQUIRE(cuCtxPushCurrent_v2(mine) == CUDA_SUCCESS);
  CHECK(cuMemAlloc_v2(&memory, 16) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  REQUIRE(cuCtxSetCurrent(mine) == CUDA_SUCCESS);
  CHECK(cuMemAlloc_v2(&memory, 16) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  REQUIRE(cuCtxPopCurrent_v2(nullptr) == CUDA_SUCCESS);
  CHECK(cuMemAlloc_v2(&memory, 16) == CUDA_SUCCESS);
  CHECK(cuCtxPushCurrent_v2(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&memory)) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("a thread without a context gets CUDA_ERROR_INVALID_CONTEXT") {
  const Device device;
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    CUdeviceptr out = 0;
    result = cuMemAlloc_v2(&out, 16);
  }).join();
  CHECK(result == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("a failure is injected from the n-th call on, for as many calls as asked") {
  const Device device;
  CUdeviceptr out = 0;
  REQUIRE(standin_fail("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY, 1, 2) == 1);
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_SUCCESS);
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_SUCCESS);
  CHECK(standin_fail("cuNoSuchFunction", 1, 0, 1) == 0);
}

TEST_CASE("every call is counted under the symbol that was called") {
  const Device device;
  standin_reset_calls();
  CUdeviceptr out = 0;
  cuMemAlloc_v2(&out, 16);
  cuMemAlloc_v2(&out, 0);
  CHECK(standin_calls("cuMemAlloc_v2") == 2);
  CHECK(standin_calls("cuMemAlloc") == 0);
}

TEST_CASE("an injected latency is taken by each call") {
  const Device device;
  standin_latency("cuCtxGetId", 2000000);
  const auto start = std::chrono::steady_clock::now();
  unsigned long long id = 0;
  cuCtxGetId(nullptr, &id);
  standin_latency("cuCtxGetId", 0);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(2));
}

TEST_CASE("virtual memory: physical memory is seen through each of its mappings") {
  const Device device;
  const std::size_t size = 2 << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  REQUIRE(cuMemCreate(&handle, size, &properties, 0) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(0) == size);
  REQUIRE(cuMemAddressReserve(&range, 2 * size, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(range, size, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(range + size, size, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemSetAccess(range, 2 * size, &access, 1) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8_v2(range, 9, 1) == CUDA_SUCCESS);
  unsigned char byte = 0;
  REQUIRE(cuMemcpyDtoH_v2(&byte, range + size, 1) == CUDA_SUCCESS);
  CHECK(byte == 9);
  CHECK(cuMemFree_v2(range) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(0) == size);  // still mapped
  REQUIRE(cuMemUnmap(range, 2 * size) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(0) == 0);
  CHECK(cuMemAddressFree(range, 2 * size) == CUDA_SUCCESS);
}

TEST_CASE("the driver is of no use in a child of fork") {
  const Device device;
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr out = 0;
    _exit(cuMemAlloc_v2(&out, 16) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("threads that allocate and free at once never share an address") {
  const Device device;
  std::atomic<int> wrong{0};
  const auto work = [&](unsigned value) {
    cuCtxSetCurrent(device.context());
    for (int i = 0; i < 100; ++i) {
      CUdeviceptr memory = 0;
      unsigned read = 0;
      if (cuMemAlloc_v2(&memory, 4096) != CUDA_SUCCESS) ++wrong;
      cuMemsetD32_v2(memory, value, 1024);
      cuMemcpyDtoH_v2(&read, memory + 4092, 4);
      if (read != value) ++wrong;
      if (cuMemFree_v2(memory) != CUDA_SUCCESS) ++wrong;
    }
  };
  std::thread first(work, 1u);
  std::thread second(work, 2u);
  first.join();
  second.join();
  CHECK(wrong == 0);
  CHECK(standin_live_bytes(0) == 0);
}
