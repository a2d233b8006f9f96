// What the software driver promises of linking, occupancy, advice on managed memory, parts of a
// device and preferences.
#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "catch.h"
#include "test_device.h"

using standin_test::Device;

namespace {

CUfunction AnyFunction() {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  REQUIRE(cuModuleLoadData(&module, "image") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&function, module, "any") == CUDA_SUCCESS);
  return function;
}

CUdeviceptr Managed(std::size_t bytes) {
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  return memory;
}

int Attribute(CUmem_range_attribute attribute, CUdeviceptr address, std::size_t bytes) {
  int value = -77;
  REQUIRE(cuMemRangeGetAttribute(&value, sizeof(value), attribute, address, bytes) == CUDA_SUCCESS);
  return value;
}

constexpr std::size_t kPart = 1 << 20;

}  // namespace

TEST_CASE("a linked image has what was added, and empty logs") {
  const Device device;
  std::string log(100, 'x');
  std::vector<CUjit_option> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::vector<void*> values{log.data(), reinterpret_cast<void*>(log.size())};
  CUlinkState link = nullptr;
  REQUIRE(cuLinkCreate_v2(2, options.data(), values.data(), &link) == CUDA_SUCCESS);
  void* image = nullptr;
  std::size_t bytes = 0;
  CHECK(cuLinkComplete(link, &image, &bytes) == CUDA_ERROR_INVALID_VALUE);  // of nothing
  std::string part = "one";
  const auto add = [&](CUjitInputType type) {
    return cuLinkAddData_v2(link, type, part.data(), part.size(), "name", 0, nullptr, nullptr);
  };
  REQUIRE(add(CU_JIT_INPUT_PTX) == CUDA_SUCCESS);
  CHECK(add(CU_JIT_NUM_INPUT_TYPES) == CUDA_ERROR_INVALID_VALUE);
  char path[] = "/tmp/standin-test-XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(write(file, "two", 3) == 3);
  close(file);
  CHECK(cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr) == CUDA_SUCCESS);
  CUmodule module = nullptr;
  CHECK(cuModuleLoad(&module, path) == CUDA_SUCCESS);
  unlink(path);
  CHECK(cuModuleLoad(&module, path) == CUDA_ERROR_FILE_NOT_FOUND);
  CHECK(cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr) ==
        CUDA_ERROR_FILE_NOT_FOUND);
  REQUIRE(cuLinkComplete(link, &image, &bytes) == CUDA_SUCCESS);
  CHECK(std::string(static_cast<const char*>(image), bytes) == "onetwo");
  CHECK(values[1] == nullptr);
  CHECK(add(CU_JIT_INPUT_PTX) == CUDA_ERROR_INVALID_VALUE);  // it is complete
  REQUIRE(cuLinkDestroy(link) == CUDA_SUCCESS);
  CHECK(cuLinkDestroy(link) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE(
    "occupancy goes down with shared memory, and a block size is found that fills the device") {
  const Device device;
  const CUfunction function = AnyFunction();
  int blocks = 0;
  REQUIRE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0) == CUDA_SUCCESS);
  CHECK(blocks == 8);
  REQUIRE(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             100 << 10) == CUDA_SUCCESS);
  REQUIRE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 100 << 10) ==
          CUDA_SUCCESS);
  CHECK(blocks == 2);
  int grid = 0;
  int block = 0;
  REQUIRE(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, 0) == CUDA_SUCCESS);
  CHECK(block == 1024);
  CHECK(grid == 2 * 132);
  REQUIRE(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, 128) ==
          CUDA_SUCCESS);
  CHECK(block == 128);
  CHECK(grid == 16 * 132);
  // A kernel that needs 1 KiB for each thread: 192 fit, as one block or as several.
  const auto shared_of = [](int threads) { return static_cast<std::size_t>(threads) << 10; };
  REQUIRE(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function, shared_of, 0, 0, 0) ==
          CUDA_SUCCESS);
  CHECK(block < 228);
  CHECK(grid / 132 * block >= 192);
  CHECK(cuOccupancyMaxPotentialBlockSize(nullptr, &block, function, nullptr, 0, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  std::size_t shared = 0;
  REQUIRE(cuOccupancyAvailableDynamicSMemPerBlock(&shared, function, 2, 1024) == CUDA_SUCCESS);
  CHECK(shared == 100 << 10);  // as the function is allowed, where 113 KiB would be left
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, function, 3, 1024) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("advice on managed memory is told again, for ranges that have it in common") {
  const Device device;
  const CUdeviceptr memory = Managed(2 * kPart);
  CHECK(Attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 2 * kPart) == 0);
  REQUIRE(cuMemAdvise(memory, kPart, CU_MEM_ADVISE_SET_READ_MOSTLY, 0) == CUDA_SUCCESS);
  CHECK(Attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, kPart) == 1);
  CHECK(Attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 2 * kPart) == 0);
  REQUIRE(cuMemAdvise(memory, kPart, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0) == CUDA_SUCCESS);
  CHECK(Attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, kPart) == 0);

  CHECK(Attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, kPart) == CU_DEVICE_INVALID);
  REQUIRE(cuMemAdvise(memory, kPart, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1) == CUDA_SUCCESS);
  CHECK(Attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, kPart) == 1);
  CHECK(cuMemAdvise(memory, kPart, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 5) ==
        CUDA_ERROR_INVALID_VALUE);

  REQUIRE(cuMemAdvise(memory, kPart, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU) == CUDA_SUCCESS);
  REQUIRE(cuMemAdvise(memory, kPart, CU_MEM_ADVISE_SET_ACCESSED_BY, 1) == CUDA_SUCCESS);
  int devices[3] = {};
  REQUIRE(cuMemRangeGetAttribute(devices, sizeof(devices), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                 memory, kPart) == CUDA_SUCCESS);
  CHECK(devices[0] == 1);
  CHECK(devices[1] == CU_DEVICE_CPU);
  CHECK(devices[2] == CU_DEVICE_INVALID);

  REQUIRE(cuMemPrefetchAsync(memory, 2 * kPart, CU_DEVICE_CPU, nullptr) == CUDA_SUCCESS);
  CHECK(Attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 2 * kPart) ==
        CU_DEVICE_CPU);
}

#if CUDA_VERSION >= 13000
TEST_CASE("ranges of managed memory are discarded and prefetched in batches, in a stream's order") {
  const Device device;
  const CUdeviceptr memory = Managed(3 * kPart);
  CUdeviceptr ranges[] = {memory, memory + kPart, memory + 2 * kPart};
  std::size_t sizes[] = {kPart, kPart, kPart};
  CUmemLocation places[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
  std::size_t firsts[] = {0, 2};
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuMemPrefetchBatchAsync(ranges, sizes, 3, places, firsts, 2, 0, stream) == CUDA_SUCCESS);
  constexpr auto kPlace = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
  CHECK(Attribute(kPlace, memory, 2 * kPart) == 1);
  CHECK(Attribute(kPlace, memory + 2 * kPart, kPart) == CU_DEVICE_CPU);
  auto* const bytes = reinterpret_cast<unsigned char*>(memory);
  std::fill_n(bytes, 3 * kPart, 7);
  standin_hold_stream(stream);
  REQUIRE(cuMemDiscardBatchAsync(ranges, sizes, 2, 0, stream) == CUDA_SUCCESS);
  CHECK(bytes[0] == 7);
  standin_release_stream(stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(std::count(bytes, bytes + 2 * kPart, 7) == 0);
  CHECK(std::count(bytes + 2 * kPart, bytes + 3 * kPart, 7) == kPart);
  CHECK(Attribute(kPlace, memory, kPart) == CU_DEVICE_INVALID);
  REQUIRE(cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, 3, places, firsts, 1, 0, stream) ==
          CUDA_SUCCESS);
  CHECK(Attribute(kPlace, memory, 3 * kPart) == 1);
  // What is wrong in one range is done in none.
  ranges[2] = device.Allocate(kPart);
  CHECK(cuMemPrefetchBatchAsync(ranges, sizes, 3, places + 1, firsts, 1, 0, stream) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(Attribute(kPlace, memory, 2 * kPart) == 1);
  for (const auto& [first, second, count] :
       {std::tuple{1, 2, 2}, {0, 0, 2}, {0, 3, 2}, {0, 1, 0}}) {
    std::size_t wrong[] = {static_cast<std::size_t>(first), static_cast<std::size_t>(second)};
    CHECK(cuMemPrefetchBatchAsync(ranges, sizes, 2, places, wrong, static_cast<std::size_t>(count),
                                  0, stream) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuMemDiscardBatchAsync(ranges, sizes, 2, 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemDiscardBatchAsync(ranges, sizes, 2, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemDiscardBatchAsync(nullptr, sizes, 2, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemDiscardBatchAsync(ranges, sizes, 0, 0, stream) == CUDA_ERROR_INVALID_VALUE);
}
#endif

TEST_CASE("only managed memory takes advice") {
  const Device device;
  const CUdeviceptr plain = device.Allocate(kPart);
  const CUdeviceptr managed = Managed(kPart);
  int value = 0;
  CHECK(cuMemAdvise(plain, kPart, CU_MEM_ADVISE_SET_READ_MOSTLY, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPrefetchAsync(plain, kPart, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAdvise(managed, kPart + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, kPart) ==
        CUDA_ERROR_INVALID_VALUE);
}

#if CUDA_VERSION >= 12040
TEST_CASE("a device's multiprocessors come in parts, and a green context has its part") {
  const Device device;
  CUdevResource all{};
  REQUIRE(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
  CHECK(all.sm.smCount == 132);
#if CUDA_VERSION >= 13000
  CHECK(all.sm.minSmPartitionSize > 0);
  CHECK(all.sm.smCoscheduledAlignment >= 2);
#endif
  unsigned groups = 100;
  REQUIRE(cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr, 0, 10) == CUDA_SUCCESS);
  CHECK(groups == 8);  // of 16 each
  std::vector<CUdevResource> parts(3);
  CUdevResource rest{};
  groups = 3;
  REQUIRE(cuDevSmResourceSplitByCount(parts.data(), &groups, &all, &rest, 0, 10) == CUDA_SUCCESS);
  CHECK(groups == 3);
  CHECK(parts[2].sm.smCount == 16);
  CHECK(rest.sm.smCount == 132 - 3 * 16);
  CHECK(cuDevSmResourceSplitByCount(parts.data(), &groups, &all, &rest, 0, 133) ==
        CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);

  CUdevResourceDesc description = nullptr;
  REQUIRE(cuDevResourceGenerateDesc(&description, parts.data(), 2) == CUDA_SUCCESS);
  CUgreenCtx green = nullptr;
  REQUIRE(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  CUdevResource has{};
  REQUIRE(cuGreenCtxGetDevResource(green, &has, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
  CHECK(has.sm.smCount == 32);
  CUcontext context = nullptr;
  REQUIRE(cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS);
  REQUIRE(cuCtxGetDevResource(context, &has, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
  CHECK(has.sm.smCount == 32);
  REQUIRE(cuCtxGetDevResource(device.context(), &has, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
  CHECK(has.sm.smCount == 132);
#if CUDA_VERSION >= 12050
  // It and its streams record events of the primary context, of whose memory it has a share.
  CUstream stream = nullptr;
  CUevent event = nullptr;
  REQUIRE(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  CHECK(cuEventRecord(event, stream) == CUDA_SUCCESS);
  CHECK(cuGreenCtxRecordEvent(green, event) == CUDA_SUCCESS);
  const Device second(1);
  CUevent elsewhere = nullptr;
  REQUIRE(cuEventCreate(&elsewhere, 0) == CUDA_SUCCESS);
  CHECK(cuEventRecord(elsewhere, stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuGreenCtxRecordEvent(green, elsewhere) == CUDA_ERROR_INVALID_HANDLE);
#endif
  REQUIRE(cuGreenCtxDestroy(green) == CUDA_SUCCESS);
}
#endif

TEST_CASE("a context remembers its own preferences") {
  const Device device;
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_EQUAL;
  REQUIRE(cuCtxGetCacheConfig(&cache) == CUDA_SUCCESS);
  CHECK(cache == CU_FUNC_CACHE_PREFER_NONE);
  REQUIRE(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1) == CUDA_SUCCESS);
  REQUIRE(cuCtxGetCacheConfig(&cache) == CUDA_SUCCESS);
  CHECK(cache == CU_FUNC_CACHE_PREFER_L1);
  {
    CUcontext other = nullptr;
    REQUIRE(cuCtxCreate_v2(&other, 0, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxGetCacheConfig(&cache) == CUDA_SUCCESS);
    CHECK(cache == CU_FUNC_CACHE_PREFER_NONE);
    REQUIRE(cuCtxDestroy_v2(other) == CUDA_SUCCESS);
  }
  cuCtxSetCurrent(nullptr);
  CHECK(cuCtxGetCacheConfig(&cache) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("a launch by the functions of before CUDA 4 runs with what was set") {
  const Device device;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  REQUIRE(cuModuleLoadData(&module, "image") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&fill, module, "fill") == CUDA_SUCCESS);
  const CUdeviceptr memory = device.Allocate(64);
  REQUIRE(cuMemsetD8_v2(memory, 0, 64) == CUDA_SUCCESS);
  CUdeviceptr to = memory;
  REQUIRE(cuParamSetv(fill, 0, &to, sizeof(to)) == CUDA_SUCCESS);
  REQUIRE(cuParamSeti(fill, 8, 7) == CUDA_SUCCESS);
  std::uint64_t count = 100;
  REQUIRE(cuParamSetv(fill, 16, &count, sizeof(count)) == CUDA_SUCCESS);
  REQUIRE(cuParamSetSize(fill, 24) == CUDA_SUCCESS);
  REQUIRE(cuFuncSetBlockShape(fill, 4, 1, 1) == CUDA_SUCCESS);
  REQUIRE(cuLaunchGrid(fill, 2, 1) == CUDA_SUCCESS);
  std::vector<std::uint32_t> read(16);
  REQUIRE(cuMemcpyDtoH_v2(read.data(), memory, 64) == CUDA_SUCCESS);
  CHECK(read[7] == 7);  // 8 threads
  CHECK(read[8] == 0);
  CHECK(cuFuncSetBlockShape(fill, 0, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLaunchGrid(fill, 0, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("another kernel of the name of one that is known is a delay") {
  const Device device;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  REQUIRE(cuModuleLoadData(&module, "image") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&fill, module, "fill") == CUDA_SUCCESS);
  std::uint64_t value = 7;  // where our own kernel has an address
  std::uint32_t count = 4;
  std::uint64_t to = device.Allocate(64);
  void* arguments[] = {&value, &count, &to};
  REQUIRE(cuLaunchKernel(fill, 1, 1, 1, 4, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("what there is nothing for says so") {
  const Device device;
  CUtexref texture = nullptr;
  CUfunction function = nullptr;
  CHECK(cuParamSetTexRef(function, 0, texture) == CUDA_ERROR_NOT_SUPPORTED);
  CUmodule module = nullptr;
  CUtexref reference = nullptr;
  REQUIRE(cuModuleLoadData(&module, "image") == CUDA_SUCCESS);
  CHECK(cuModuleGetTexRef(&reference, module, "any") == CUDA_ERROR_NOT_FOUND);
}
