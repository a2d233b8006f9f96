// What the software driver promises of pools: which serves what, host and managed ones, access, and
// their attributes.
#include <cuda.h>

#include <cstdint>
#include <cstring>

#include "catch.h"
#include "standin.h"
#include "test_device.h"

using standin_test::Device;
using standin_test::kMemory;

namespace {

CUmemoryPool NewPool(CUmemLocationType location, int id = 0,
                     CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED,
                     std::size_t most = 0) {
  CUmemPoolProps properties{};
  properties.allocType = type;
  properties.location = {location, id};
#if CUDA_VERSION >= 12020
  properties.maxSize = most;
#else
  (void)most;
#endif
  CUmemoryPool pool = nullptr;
  REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
  return pool;
}

CUdeviceptr AllocateFrom(CUmemoryPool pool, std::size_t bytes) {
  CUdeviceptr out = 0;
  REQUIRE(cuMemAllocFromPoolAsync(&out, bytes, pool, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  return out;
}

cuuint64_t AttributeOf(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  REQUIRE(cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS);
  return value;
}

std::size_t Free() {
  std::size_t bytes = 0;
  REQUIRE(cuMemGetInfo_v2(&bytes, nullptr) == CUDA_SUCCESS);
  return bytes;
}

template <typename Value>
Value Ask(CUdeviceptr address, CUpointer_attribute attribute) {
  Value value{};
  REQUIRE(cuPointerGetAttribute(&value, attribute, address) == CUDA_SUCCESS);
  return value;
}

}  // namespace

TEST_CASE("memory of a pool in the host's memory is the host's, and no device has less for it") {
  const Device device;
  const std::size_t before = Free();
  const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_HOST);
  const CUdeviceptr memory = AllocateFrom(pool, kMemory * 2);
  CHECK(Free() == before);
  CHECK(Ask<CUmemorytype>(memory, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) == CU_MEMORYTYPE_HOST);
  CHECK(Ask<CUmemoryPool>(memory, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) == pool);
  REQUIRE(cuMemsetD8_v2(memory, 7, 4096) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(*reinterpret_cast<unsigned char*>(memory) == 7);
  CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == kMemory * 2);
  REQUIRE(cuMemFreeAsync(memory, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
  CHECK(cuMemFree_v2(memory) != CUDA_SUCCESS);
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}

TEST_CASE("what a stream has freed serves it again before it gets there, and no other stream") {
  const Device device;
  CUstream stream = nullptr;
  CUstream other = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  const auto take = [](std::size_t bytes, CUstream in) {
    CUdeviceptr out = 0;
    REQUIRE(cuMemAllocAsync(&out, bytes, in) == CUDA_SUCCESS);
    return out;
  };
  CUmemoryPool pool = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS);
  const cuuint64_t before = AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  const CUdeviceptr block = take(1 << 20, stream);
  const auto number = Ask<unsigned long long>(block, CU_POINTER_ATTRIBUTE_BUFFER_ID);
  standin_hold_stream(stream);
  REQUIRE(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
  const CUdeviceptr of_other = take(1 << 20, other);
  const CUdeviceptr smaller = take(1 << 19, stream);
  CHECK(of_other != block);
  CHECK(smaller != block);
  CHECK(take(1 << 20, stream) == block);
  CHECK(Ask<unsigned long long>(block, CU_POINTER_ATTRIBUTE_BUFFER_ID) != number);
  const CUdeviceptr another = take(1 << 20, stream);  // the free serves one
  CHECK(another != block);
  standin_release_stream(stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  // The free of what is the program's again did not take it away.
  CHECK(Ask<std::size_t>(block, CU_POINTER_ATTRIBUTE_RANGE_SIZE) == 1 << 20);
  for (const CUdeviceptr each : {block, of_other, smaller, another}) {
    REQUIRE(cuMemFreeAsync(each, stream) == CUDA_SUCCESS);
  }
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == before);
  REQUIRE(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamDestroy_v2(other) == CUDA_SUCCESS);
}

TEST_CASE("a pool of the host cannot be for other processes") {
  const Device device;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemoryPool pool = nullptr;
  CHECK(cuMemPoolCreate(&pool, &properties) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a pool that is no pool, and a place that there is not, are refused") {
  const Device device;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 7};
  CUmemoryPool pool = nullptr;
  CHECK(cuMemPoolCreate(&pool, &properties) == CUDA_ERROR_INVALID_DEVICE);
  properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  CHECK(cuMemPoolCreate(&pool, &properties) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolCreate(nullptr, &properties) == CUDA_ERROR_INVALID_VALUE);
  cuuint64_t value = 0;
  CHECK(cuMemPoolGetAttribute(nullptr, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value) ==
        CUDA_ERROR_INVALID_VALUE);
  CUmemoryPool own = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&own, 0) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(own) == CUDA_ERROR_INVALID_VALUE);  // a device's default pool
  CHECK(cuMemPoolSetAttribute(own, static_cast<CUmemPool_attribute>(15), &value) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("what a device's current pool is decides where its memory comes from") {
  const Device device;
  const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_DEVICE);
  CUmemoryPool before = nullptr;
  CUmemoryPool current = nullptr;
  REQUIRE(cuDeviceGetMemPool(&before, 0) == CUDA_SUCCESS);
  REQUIRE(cuDeviceSetMemPool(0, pool) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGetMemPool(&current, 0) == CUDA_SUCCESS);
  CHECK(current == pool);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAllocAsync(&memory, 4096, nullptr) == CUDA_SUCCESS);
  CHECK(Ask<CUmemoryPool>(memory, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) == pool);
  REQUIRE(cuMemFreeAsync(memory, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  // cuda.h, cuDeviceSetMemPool: the pool must be of the device.
  CHECK(cuDeviceSetMemPool(1, pool) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGetMemPool(&current, 0) == CUDA_SUCCESS);
  CHECK(current == before);  // the default one is there again
}

TEST_CASE("a pool begins empty, whatever others that were destroyed have given") {
  const Device device;
  std::vector<CUdeviceptr> left;
  for (int i = 0; i < 20; ++i) {
    const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_DEVICE);
    CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    left.push_back(AllocateFrom(pool, 4096));
    CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 4096);
    REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
  }
  for (const CUdeviceptr memory : left) {
    CHECK(cuMemFreeAsync(memory, nullptr) == CUDA_SUCCESS);
  }
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("memory of another device's pool is on that device") {
  const Device second(1);
  const Device first(0);
  const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_DEVICE, 1);
  const std::size_t before = Free();
  const CUdeviceptr memory = AllocateFrom(pool, 8 << 20);
  CHECK(Free() == before);
  CHECK(Ask<int>(memory, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) == 1);
  REQUIRE(cuMemFree_v2(memory) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}

TEST_CASE("a pool gives no other device access, until it is told to and after it is told not to") {
  const Device second(1);
  const Device first(0);
  const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_DEVICE);
  CUmemAccess_flags flags{};
  CUmemLocation of_second{CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemLocation of_first{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const auto access_of = [&](CUmemLocation& location) {
    REQUIRE(cuMemPoolGetAccess(&flags, pool, &location) == CUDA_SUCCESS);
    return flags;
  };
  CHECK(access_of(of_first) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(access_of(of_second) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemAccessDesc access{of_second, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE(cuMemPoolSetAccess(pool, &access, 1) == CUDA_SUCCESS);
  CHECK(access_of(of_second) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  REQUIRE(cuMemPoolSetAccess(pool, &access, 1) == CUDA_SUCCESS);
  CHECK(access_of(of_second) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  access.location.id = 9;
  CHECK(cuMemPoolSetAccess(pool, &access, 1) == CUDA_ERROR_INVALID_DEVICE);
  access.location.id = 0;  // its own device cannot be shut out
  CHECK(cuMemPoolSetAccess(pool, &access, 1) == CUDA_ERROR_INVALID_DEVICE);
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}

TEST_CASE("the high-water marks of a pool are of what was used and of what was held") {
  const Device device;
  const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_DEVICE);
  cuuint64_t all = UINT64_MAX;
  REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) == CUDA_SUCCESS);
  for (const std::size_t bytes : {8 << 20, 4 << 20}) {
    REQUIRE(cuMemFreeAsync(AllocateFrom(pool, bytes), nullptr) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  }
  CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 8 << 20);
  CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 8 << 20);
  CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 8 << 20);
  cuuint64_t none = 0;
  REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none) == CUDA_SUCCESS);
  CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &all) ==
        CUDA_ERROR_INVALID_VALUE);  // cuda.h: can only be reset to zero
  REQUIRE(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
  CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}

TEST_CASE("what cuMemFree takes back from a pool serves again, and counts as used all the same") {
  const Device device;
  const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_DEVICE);
  cuuint64_t all = UINT64_MAX;
  REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) == CUDA_SUCCESS);
  for (const cuuint64_t used : {1 << 20, 2 << 20}) {
    REQUIRE(cuMemFree_v2(AllocateFrom(pool, 1 << 20)) == CUDA_SUCCESS);
    CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == used);
    CHECK(AttributeOf(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 1 << 20);
  }
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}

#if CUDA_VERSION >= 13000
TEST_CASE("a device says by what its pools are shared") {
  const Device device;
  int types = 0;
  REQUIRE(cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0) ==
          CUDA_SUCCESS);
  CHECK(types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

TEST_CASE("each place has a default pool and a current one, for pinned and for managed memory") {
  const Device device;
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  CUmemLocation nowhere{CU_MEM_LOCATION_TYPE_NONE, 0};
  CUmemoryPool of_device = nullptr;
  CUmemoryPool by_location = nullptr;
  CUmemoryPool of_host = nullptr;
  CUmemoryPool managed = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&of_device, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemGetDefaultMemPool(&by_location, &here, CU_MEM_ALLOCATION_TYPE_PINNED) ==
          CUDA_SUCCESS);
  CHECK(by_location == of_device);
  REQUIRE(cuMemGetDefaultMemPool(&of_host, &host, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS);
  REQUIRE(cuMemGetDefaultMemPool(&managed, &nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED) ==
          CUDA_SUCCESS);
  CHECK(of_host != of_device);
  CHECK(managed != of_host);
  CHECK(cuMemGetDefaultMemPool(&managed, &nowhere, CU_MEM_ALLOCATION_TYPE_PINNED) ==
        CUDA_ERROR_INVALID_VALUE);

  const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_HOST);
  CUmemoryPool current = nullptr;
  REQUIRE(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, pool) == CUDA_SUCCESS);
  REQUIRE(cuMemGetMemPool(&current, &host, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS);
  CHECK(current == pool);
  // The pool must be one of the place and the kind.
  CHECK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, pool) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_MANAGED, pool) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
  REQUIRE(cuMemGetMemPool(&current, &host, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS);
  CHECK(current == of_host);
}

TEST_CASE("memory of a managed pool is managed memory") {
  const Device device;
  const CUmemoryPool pool = NewPool(CU_MEM_LOCATION_TYPE_NONE, 0, CU_MEM_ALLOCATION_TYPE_MANAGED);
  const CUdeviceptr memory = AllocateFrom(pool, 4096);
  CHECK(Ask<unsigned>(memory, CU_POINTER_ATTRIBUTE_IS_MANAGED) == 1);
  CHECK(Ask<CUmemoryPool>(memory, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) == pool);
  std::memset(reinterpret_cast<void*>(memory), 1, 4096);  // the host may use it
  REQUIRE(cuMemFreeAsync(memory, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}
#endif
