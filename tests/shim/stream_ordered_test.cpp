// cuMemAllocAsync and cuMemFreeAsync: the driver's pools, counted; and, under
// CUBFC_STREAM_ORDERED=arena, the arena in the order of the streams.
#include <thread>

#include "shim/serve/driver_requests.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

CUdeviceptr allocate_async(std::size_t bytes, CUstream stream) {
  CUdeviceptr address = 0;
  must(cuMemAllocAsync(&address, bytes, stream));
  return address;
}

// Counted against the device's budget, beyond the arena's regions.
std::uint64_t driver_bytes() {
  return cubfc::Process::active()->requests().ledger().totals().bytes;
}

CUstream new_stream() {
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

// The device's own, as it came.
CUmemoryPool own_pool() {
  CUmemoryPool pool = nullptr;
  must(cuDeviceGetDefaultMemPool(&pool, 0));
  return pool;
}

std::uint64_t figure(CUmemPool_attribute attribute, CUmemoryPool pool = own_pool()) {
  cuuint64_t value = 0;
  must(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

CUresult set_figure(CUmemPool_attribute attribute, cuuint64_t value) {
  return cuMemPoolSetAttribute(own_pool(), attribute, &value);
}

}  // namespace

TEST_CASE("either kind of pointer is freed by either free", "[stream_ordered]") {
  const TestContext context;
  CUstream const stream = new_stream();
  const std::uint64_t before = driver_bytes();
  for (int round = 0; round < 20; ++round) {
    const CUdeviceptr plain = allocate(4096);
    const CUdeviceptr ordered = allocate_async(4096, stream);
    const CUdeviceptr other = allocate_async(4096, nullptr);
    CHECK(plain != ordered);
    must(cuMemsetD8Async(ordered, 1, 4096, stream));
    must(cuMemFreeAsync(plain, stream));
    must(cuMemFree(ordered));
    must(cuMemFreeAsync(other, nullptr));
    CHECK(cuMemFree(plain) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFreeAsync(ordered, stream) != CUDA_SUCCESS);
  }
  CHECK(driver_bytes() == before);
  verify_arenas();
}

TEST_CASE("what cannot be is refused as the driver refuses it", "[stream_ordered]") {
  const TestContext context;
  CUstream const stream = new_stream();
  CUdeviceptr address = 0;
  CHECK(cuMemAllocAsync(&address, 0, stream) == CUDA_SUCCESS);  // of nothing, as the driver does
  CHECK(address == 0);
  CHECK(cuMemAllocAsync(nullptr, 100, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocAsync(&address, std::size_t{1} << 50, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr block = allocate(4096);
  CHECK(cuMemFreeAsync(block + 512, stream) == CUDA_ERROR_INVALID_VALUE);
  must(cuMemFree(block));
}

TEST_CASE("while its stream captures, memory is the graph's", "[stream_ordered]") {
  const TestContext context;
  CUstream const stream = new_stream();
  const CUdeviceptr block = allocate(4096);
  const std::uint64_t before = driver_bytes();
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  const CUdeviceptr of_graph = allocate_async(4096, stream);
  must(cuMemsetD8Async(of_graph, 1, 4096, stream));
  CHECK(cuMemFreeAsync(block, stream) == CUDA_ERROR_INVALID_VALUE);  // and frees nothing
  must(cuMemFreeAsync(of_graph, stream));
  CUgraph graph = nullptr;
  must(cuStreamEndCapture(stream, &graph));
  CHECK(driver_bytes() == before);
  must(cuMemFree(block));
  verify_arenas();
}

TEST_CASE("a pool's figures are of what is allocated in stream order, whoever serves it",
          "[stream_ordered]") {
  const TestContext context;
  CUstream const stream = new_stream();
  constexpr std::uint64_t kMiB = 1 << 20;
  const std::uint64_t before = figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  must(set_figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
  CHECK(figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == before);
  const auto used = [&] {
    must(cuStreamSynchronize(stream));
    return figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) - before;
  };
  const CUdeviceptr first = allocate_async(2 * kMiB, stream);
  const CUdeviceptr second = allocate_async(kMiB, stream);
  const CUdeviceptr plain = allocate(kMiB);  // it is no pool's
  CHECK(used() == 3 * kMiB);
  CHECK(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 3 * kMiB);
  must(cuMemFreeAsync(first, stream));
  CHECK(used() == kMiB);
  const CUdeviceptr again = allocate_async(2 * kMiB, stream);
  CHECK(used() == 3 * kMiB);
  must(cuMemFreeAsync(second, stream));  // what cuMemFree takes back, a driver may count for ever
  CHECK(used() == 2 * kMiB);
  must(cuMemFreeAsync(plain, stream));
  CHECK(used() == 2 * kMiB);
  CHECK(figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == before + 3 * kMiB);
  CHECK(set_figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == before + 3 * kMiB);
  must(set_figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
  CHECK(figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == before + 2 * kMiB);
  must(set_figure(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0));
  CHECK(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  must(cuMemFreeAsync(again, stream));
  CHECK(used() == 0);

  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool another = nullptr;
  must(cuMemPoolCreate(&another, &properties));
  const CUdeviceptr block = allocate_async(kMiB, stream);
  CHECK(figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, another) == 0);
  must(cuMemFreeAsync(block, stream));
  must(cuMemPoolDestroy(another));
  cuuint64_t value = 7;
  CHECK(cuMemPoolGetAttribute(nullptr, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value) != CUDA_SUCCESS);
  CHECK(value == 7);
  verify_arenas();
}

TEST_CASE("what the driver's pools give is counted until it is freed",
          "[stream_ordered][driver_in_stream_order]") {
  const TestContext context;
  CUstream const stream = new_stream();
  const std::uint64_t before = driver_bytes();
  const CUdeviceptr first = allocate_async(1 << 20, stream);
  const CUdeviceptr second = allocate_async(1 << 20, stream);
  CHECK(driver_bytes() == before + (2 << 20));
  must(cuMemFreeAsync(first, stream));
  CHECK(driver_bytes() == before + (1 << 20));
  must(cuMemFree(second));
  CHECK(driver_bytes() == before);
}

TEST_CASE("a stream is given back what it freed, at once, and nobody else is",
          "[stream_ordered][arena_in_stream_order]") {
  const TestContext context;
  CUstream const other = new_stream();
  const HeldStream held;
  const CUdeviceptr block = allocate_async(100'000, held.stream);
  must(cuMemsetD8Async(block, 1, 100'000, held.stream));
  must(cuMemFreeAsync(block, held.stream));
  const CUdeviceptr of_other = allocate_async(100'000, other);
  CHECK(of_other != block);
  CHECK(allocate_async(200'000, held.stream) != block);  // it is too small
  CHECK(allocate_async(10'000, held.stream) != block);   // it is far too large
  const CUdeviceptr again = allocate_async(99'000, held.stream);
  CHECK(again == block);
  must(cuMemsetD8Async(again, 2, 99'000, held.stream));
  CHECK(allocate_async(99'000, held.stream) != block);  // it is not free any more
  std::size_t bytes = 0;
  must(cuMemGetAddressRange(nullptr, &bytes, again));
  CHECK(bytes == 99'000);
  standin_release_stream(held.stream);
  must(cuStreamSynchronize(held.stream));
  CHECK(read(again, 99'000) == std::vector<unsigned char>(99'000, 2));
  must(cuMemFree(again));
  CHECK(cuMemFree(again) == CUDA_ERROR_INVALID_VALUE);
  verify_arenas();
}

TEST_CASE("what a destroyed stream freed goes to no stream of the same handle",
          "[stream_ordered][arena_in_stream_order]") {
  const TestContext context;
  CUstream const stream = new_stream();
  const HeldStream held;
  CUevent event = nullptr;
  must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  must(cuEventRecord(event, held.stream));
  must(cuStreamWaitEvent(stream, event, 0));
  const CUdeviceptr block = allocate_async(100'000, stream);
  must(cuMemFreeAsync(block, stream));
  must(cuStreamDestroy_v2(stream));
  for (int i = 0; i < 50; ++i) {
    CHECK(allocate_async(100'000, new_stream()) != block);
  }
}

TEST_CASE("each thread has a default stream of its own",
          "[stream_ordered][arena_in_stream_order]") {
  const TestContext context;
  const HeldStream held;
  CUevent event = nullptr;
  must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  must(cuEventRecord(event, held.stream));
  must(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));  // what is freed there waits
  const CUdeviceptr block = allocate_async(100'000, CU_STREAM_PER_THREAD);
  must(cuMemFreeAsync(block, CU_STREAM_PER_THREAD));
  for (int i = 0; i < 5; ++i) {
    std::thread([&] {
      must(cuCtxSetCurrent(context.handle));
      CHECK(allocate_async(100'000, CU_STREAM_PER_THREAD) != block);
    }).join();
  }
  CHECK(allocate_async(100'000, CU_STREAM_PER_THREAD) == block);
}

TEST_CASE("memory that waits for a stream serves everybody before an allocation fails",
          "[stream_ordered][arena_in_stream_order]") {
  const TestContext context;
  CUstream const stream = new_stream();
  for (int round = 0; round < 5; ++round) {
    const CUdeviceptr large = allocate_async(std::size_t{180} << 20, stream);
    must(cuMemsetD8Async(large, 1, std::size_t{180} << 20, stream));
    must(cuMemFreeAsync(large, stream));
    must(cuMemFree(allocate(std::size_t{190} << 20)));
  }
  verify_arenas();
}

TEST_CASE("a pool of the program's own, or one that it shares, is the driver's",
          "[stream_ordered][arena_in_stream_order]") {
  const TestContext context;
  CUstream const stream = new_stream();
  CUmemoryPool pool = nullptr;
  must(cuDeviceGetDefaultMemPool(&pool, 0));
  const std::uint64_t before = driver_bytes();
  CUdeviceptr block = 0;
  must(cuMemAllocFromPoolAsync(&block, 4096, pool, stream));
  CHECK(driver_bytes() == before + 4096);
  must(cuMemFreeAsync(block, stream));
  must(cuMemFreeAsync(allocate_async(4096, stream), stream));
  CHECK(driver_bytes() == before);
  must(cuDeviceSetMemPool(0, pool));
  block = allocate_async(4096, stream);
  CHECK(driver_bytes() == before + 4096);
  must(cuMemFreeAsync(block, stream));
}

TEST_CASE("the default stream of one context says nothing of another's", "[stream_ordered]") {
  constexpr std::size_t kBytes = 100'000;
  const TestContext second(1);
  const TestContext first(0);
  const CUdeviceptr block = allocate_async(kBytes, nullptr);
  must(cuStreamSynchronize(nullptr));
  must(cuCtxSetCurrent(second.handle));
  REQUIRE(standin_hold_stream(nullptr) == 1);
  must(cuMemsetD8Async(block, 0xbb, kBytes, nullptr));
  must(cuMemFreeAsync(block, nullptr));
  must(cuCtxSetCurrent(first.handle));
  const CUdeviceptr again = allocate_async(kBytes, nullptr);
  must(cuMemsetD8(again, 0xaa, kBytes));
  must(cuCtxSynchronize());
  must(cuCtxSetCurrent(second.handle));
  standin_release_stream(nullptr);
  must(cuStreamSynchronize(nullptr));
  must(cuCtxSetCurrent(first.handle));
  CHECK(read(again, kBytes) == std::vector<unsigned char>(kBytes, 0xaa));
  verify_arenas();
}

TEST_CASE("a green context's default stream is not its primary context's", "[stream_ordered]") {
  constexpr std::size_t kBytes = 100'000;
  const TestContext primary;
  CUdevResource resource{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext of_green = nullptr;
  must(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  must(cuDevResourceGenerateDesc(&description, &resource, 1));
  must(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  must(cuCtxFromGreenCtx(&of_green, green));
  must(cuCtxSetCurrent(of_green));
  const CUdeviceptr block = allocate_async(kBytes, nullptr);
  must(cuStreamSynchronize(nullptr));
  REQUIRE(standin_hold_stream(nullptr) == 1);
  must(cuMemsetD8Async(block, 0xbb, kBytes, nullptr));
  must(cuMemFreeAsync(block, nullptr));
  must(cuCtxSetCurrent(primary.handle));
  const CUdeviceptr again = allocate_async(kBytes, nullptr);
  must(cuMemsetD8(again, 0xaa, kBytes));
  must(cuCtxSetCurrent(of_green));
  standin_release_stream(nullptr);
  must(cuStreamSynchronize(nullptr));
  must(cuCtxSetCurrent(primary.handle));
  must(cuCtxSynchronize());
  CHECK(read(again, kBytes) == std::vector<unsigned char>(kBytes, 0xaa));
  must(cuGreenCtxDestroy(green));
}

TEST_CASE("memory of the driver's pools outlives the context that was current",
          "[stream_ordered][driver_in_stream_order]") {
  const TestContext context;
  const std::uint64_t before = driver_bytes();
  CUcontext other = nullptr;
  must(cuCtxCreate_v2(&other, 0, 0));
  CUstream const stream = new_stream();
  const CUdeviceptr block = allocate_async(1 << 20, stream);
  must(cuMemsetD8Async(block, 7, 1 << 20, stream));
  must(cuStreamSynchronize(stream));
  must(cuCtxDestroy_v2(other));
  must(cuCtxSetCurrent(context.handle));
  CHECK(driver_bytes() == before + (1 << 20));
  CHECK(read(block, 100) == std::vector<unsigned char>(100, 7));
  must(cuMemFreeAsync(block, nullptr));
  CHECK(driver_bytes() == before);
}

TEST_CASE("room is made on the device of the stream", "[stream_ordered][driver_in_stream_order]") {
  constexpr std::size_t kMost = std::size_t{150} << 20;
  const TestContext first(0);
  const TestContext second(1);
  CUstream const stream = new_stream();
  must(cuMemFree(allocate(kMost)));
  must(cuCtxSetCurrent(first.handle));
  CUdeviceptr block = 0;
  must(cuMemAllocAsync(&block, kMost, stream));
  must(cuMemFreeAsync(block, stream));
  must(cuMemFree(allocate(kMost)));  // the first device's memory was not taken for it
}

TEST_CASE("a stream that gets its own blocks again does not gather them",
          "[arena_in_stream_order]") {
  const TestContext context;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  standin_reset_calls();
  for (int round = 0; round < 4000; ++round) {
    CUdeviceptr block = 0;
    must(cuMemAllocAsync(&block, 4096, stream));
    must(cuMemFreeAsync(block, stream));
    if (round % 100 == 0) {
      must(cuStreamSynchronize(stream));
    }
  }
  CHECK(standin_calls("cuCtxRecordEvent") > 20);  // so many epochs were closed
  CHECK(standin_calls("cuEventCreate") < 20);     // and their events used again
  must(cuStreamDestroy_v2(stream));
}
