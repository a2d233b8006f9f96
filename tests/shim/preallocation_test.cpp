// What is preallocated is a reservation at every moment: nobody else has it, and whatever the
// program needs memory for takes it without a wait. On a device of 8 GiB.
#include <atomic>
#include <random>
#include <thread>

#include "shim/cubfc.h"
#include "shim/device/devices.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kGiB = 1 << 30;
constexpr std::size_t kDevice = 8 * kGiB;
constexpr std::size_t kPreallocated = kDevice / 4 * 3;
constexpr std::size_t kSmallPiece = kDevice / 960;

std::size_t free_bytes() {
  std::size_t bytes = 0;
  must(cuMemGetInfo(&bytes, nullptr));
  return bytes;
}

std::size_t held() {
  return cubfc::Process::active()->contexts().devices().get(0)->preallocation.bytes();
}

}  // namespace

TEST_CASE("the first request takes the share of the device, and a stranger sees the rest",
          "[default]") {
  const TestContext context;
  allocate(kMiB);
  CHECK(standin_live_bytes(0) >= kPreallocated);
  CHECK(kDevice - standin_live_bytes(0) <= kDevice / 100 * 26);
  CHECK(free_bytes() + 4 * kMiB >= kDevice);
}

TEST_CASE("a first request that is large counts towards it", "[default]") {
  const TestContext context;
  allocate(5 * kGiB);
  CHECK(standin_live_bytes(0) <= kPreallocated + 2 * kMiB);
  CHECK(standin_live_bytes(0) >= kPreallocated - kSmallPiece);
}

TEST_CASE("small requests up to 70% of the device need no allocation but for slices", "[default]") {
  const TestContext context;
  standin_reset_calls();
  for (std::size_t bytes = 0; bytes < kDevice / 100 * 70; bytes += kMiB) {
    allocate(kMiB);
    REQUIRE(standin_live_bytes(0) <= kPreallocated + 4 * kMiB);
  }
  CHECK(standin_calls("cuMemAlloc_v2") <= 7 + 70 * kDevice / 100 / (256 * kMiB));
  CHECK(standin_live_bytes(0) >= kPreallocated - kSmallPiece);
  verify_arenas();
}

TEST_CASE("it is taken in few pieces, and of what one leaves over the next growths are served",
          "[default]") {
  const std::size_t step = GENERATE(3 * kMiB, 20 * kMiB, 70 * kMiB, 300 * kMiB);
  const bool changing = GENERATE(false, true);
  CAPTURE(step, changing);
  const TestContext context;
  standin_reset_calls();
  allocate(kMiB);
  CHECK(standin_calls("cuMemCreate") <= 64);
  standin_reset_calls();
  std::size_t bytes = 0;
  std::size_t requests = 0;
  for (; bytes + step <= kDevice / 100 * 60; ++requests) {
    const std::size_t next = changing ? step - requests % 7 * step / 10 : step;
    allocate(next);
    bytes += next;
  }
  const std::size_t pages = standin_calls("cuMemMap");  // each is created for an arena
  const std::size_t growths = standin_calls("cuMemAlloc_v2") + standin_calls("cuMemSetAccess");
  const std::size_t created = standin_calls("cuMemCreate") - pages;
  const std::size_t released = standin_calls("cuMemRelease");
  CAPTURE(requests, pages, growths, created, released);
  const std::size_t large_pieces = bytes / (kDevice / 64);  // of which a growth may need several
  CHECK(growths + created + released <= 3 * growths + requests + large_pieces + 16);
  CHECK(created <= growths + growths / 4 + 16);
  CHECK(standin_live_bytes(0) >= kPreallocated - kSmallPiece);
}

TEST_CASE("as long as some of it is held, no memory is taken from free blocks to grow",
          "[default][pages]") {
  const TestContext context;
  standin_reset_calls();
  std::mt19937 random(1);
  std::vector<std::pair<CUdeviceptr, std::size_t>> blocks(400);
  std::size_t live = 0;
  for (int i = 0; i < 5000; ++i) {
    auto& [address, bytes] = blocks[random() % blocks.size()];
    if (address != 0) {
      must(cuMemFree(address));
      live -= bytes;
    }
    bytes = kMiB + random() % (36 * kMiB);
    address = live + bytes > kDevice / 100 * 30 ? 0 : allocate(bytes);
    live += address == 0 ? 0 : bytes;
    REQUIRE(held() > kDevice / 4);
  }
  CHECK(standin_calls("cuMemUnmap") == 0);
}

TEST_CASE("whoever needs nearly all of the device has it at once, while the device works",
          "[default]") {
  const TestContext context;
  const CUdeviceptr small = allocate(kMiB);
  const CUdeviceptr freed = allocate(100 * kMiB);
  const HeldStream held_stream;
  must(cuMemsetD8Async(small, 1, kMiB, held_stream.stream));
  must(cuMemFreeAsync(freed, held_stream.stream));
  constexpr std::size_t kMost = kDevice / (100 * kMiB) * 96 * kMiB;
  {
    CUmemGenericAllocationHandle handle = 0;
    must(create_physical(kMost, &handle));
    must(cuMemRelease(handle));
  }
  {
    CUstream stream = nullptr;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr block = 0;
    must(cuMemAllocAsync(&block, kMost, stream));
    must(cuMemFreeAsync(block, stream));
    must(cuStreamSynchronize(stream));
    must(cuStreamDestroy_v2(stream));
  }
  {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    shape.Width = 16384;
    shape.Height = kMost / 16384 / 16;
    shape.Depth = 0;
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 4;
    CUarray array = nullptr;
    must(cuArray3DCreate_v2(&array, &shape));
    must(cuArrayDestroy(array));
  }
  allocate(kMost);
  CHECK(cuStreamQuery(held_stream.stream) == CUDA_ERROR_NOT_READY);
}

TEST_CASE("only what is lacking is given up, and nothing for what can never be met", "[default]") {
  const TestContext context;
  allocate(kMiB);
  const std::size_t before = held();
  CUmemGenericAllocationHandle handle = 0;
  must(create_physical(kDevice / 4,
                       &handle));  // the rest of the device, and the first slice with it
  CHECK(before - held() <= 8 * kMiB + kSmallPiece);
  const std::size_t now = held();
  CUmemGenericAllocationHandle more = 0;
  must(create_physical(100 * kMiB, &more));
  CHECK(now - held() >= 96 * kMiB);
  CHECK(now - held() <= 100 * kMiB + kSmallPiece);
  const std::size_t left = held();
  CUmemGenericAllocationHandle none = 0;
  CUdeviceptr block = 0;
  CHECK(create_physical(kDevice - kGiB, &none) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAlloc(&block, kDevice - kGiB) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAlloc(&block, 2 * kDevice) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAllocAsync(&block, kDevice - kGiB, nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(held() == left);
  must(cuMemRelease(handle));
  must(cuMemRelease(more));
}

TEST_CASE("all contexts of a device share it, and the last one that used it gives all back",
          "[default]") {
  CUcontext second = nullptr;
  {
    const TestContext first;
    allocate(kMiB);
    must(cuCtxCreate_v2(&second, 0, 0));
    CHECK(free_bytes() + 16 * kMiB >= kDevice);
    allocate(kDevice / 100 * 97);
    CHECK(held() == 0);
    must(cuCtxDestroy_v2(second));
    CHECK(standin_live_bytes(0) <= 4 * kMiB);
    must(cuCtxSetCurrent(first.handle));
  }
  CHECK(standin_live_bytes(0) == 0);
  const TestContext again;
  allocate(kMiB);
  CHECK(standin_live_bytes(0) >= kPreallocated);
}

TEST_CASE("where the driver refuses, what there is can be had all the same", "[default][regions]") {
  for (const int error : {2, 801, 999}) {
    const TestContext context;
    standin_fail("cuMemCreate", error, 0, UINT64_MAX);
    allocate(kMiB);
    CHECK(held() == 0);
    allocate(kDevice / 100 * 97);
    standin_fail("cuMemCreate", 0, 0, 0);
    verify_arenas();
  }
  const TestContext context;
  allocate(kMiB);
  const std::size_t before = held();
  CUdeviceptr block = 0;
  standin_fail("cuMemAlloc_v2", CUDA_ERROR_UNKNOWN, 0, 1);
  CHECK(cuMemAlloc(&block, kGiB) == CUDA_ERROR_UNKNOWN);
  CHECK(held() == before);  // what was given up for it is held again
  standin_fail("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY, 0, 1);
  CHECK(cuMemAlloc(&block, kGiB) == CUDA_SUCCESS);
}

TEST_CASE("a device that has no such memory holds nothing, and gives all it has", "[without]") {
  const TestContext context;
  CHECK_FALSE(cubfc::Process::active()->contexts().devices().get(0)->preallocation.possible());
  const CUdeviceptr most = allocate(kDevice / 100 * 97);
  CHECK(held() == 0);
  CUdeviceptr more = 0;
  CHECK(cuMemAlloc(&more, kGiB) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFree(most));
  allocate(kDevice / 100 * 90);
  CHECK(held() == 0);
}

TEST_CASE("a slice while a stream captures takes it, too", "[default]") {
  const TestContext context;
  allocate(kMiB);
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  allocate(kDevice / 100 * 90);
  CUgraph graph = nullptr;
  must(cuStreamEndCapture(stream, &graph));
  must(cuGraphDestroy(graph));
}

TEST_CASE("unused memory goes back into it, and all of it to the device on request", "[default]") {
  const TestContext context;
  const CUdeviceptr kept = allocate(kMiB);
  must(cuMemFree(allocate(7 * kGiB)));
  must(cuCtxSynchronize());
  cubfc_trim(0);
  CHECK(standin_live_bytes(0) <= kPreallocated + kSmallPiece);
  CHECK(standin_live_bytes(0) >= kPreallocated - kSmallPiece);
  cubfc_trim(CUBFC_TRIM_PREALLOCATED);
  CHECK(standin_live_bytes(0) <= 4 * kMiB);
  CHECK(held() == 0);
  must(cuMemFree(kept));
}

TEST_CASE("threads that take memory by every function lose none of it", "[default][limited]") {
  const TestContext context;
  const std::size_t all = free_bytes();
  allocate(kMiB);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      if (cuCtxSetCurrent(context.handle) != CUDA_SUCCESS) {
        ++failures;
      }
      for (unsigned round = 0; round < 60; ++round) {
        const std::size_t bytes = ((round * 7 + number * 13) % 40 + 1) * all / 400;
        CUdeviceptr block = 0;
        CUmemGenericAllocationHandle handle = 0;
        const CUresult got = (round + number) % 2 == 0
                                 ? cuMemAlloc(&block, bytes)
                                 : create_physical(bytes / (2 * kMiB) * (2 * kMiB), &handle);
        failures += got == CUDA_SUCCESS ? 0 : 1;
        if (block != 0) {
          cuMemFree(block);
        } else if (handle != 0) {
          cuMemRelease(handle);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(failures == 0);  // they never ask for more than two fifths together
  CHECK(standin_peak_bytes(0) <= all + 2 * kMiB);
  CHECK(free_bytes() + 64 * kMiB >= all);
  allocate(all / 100 * 97);
  verify_arenas();
}

TEST_CASE("the limit holds at every moment, and can be had in one piece", "[limited]") {
  constexpr std::size_t kLimit = 2 * kGiB;
  const TestContext context;
  must(cuMemFree(allocate(kLimit)));
  allocate(kMiB);
  CHECK(standin_live_bytes(0) <= kLimit);
  std::size_t taken = 0;
  CUmemGenericAllocationHandle handle = 0;
  while (create_physical(50 * kMiB, &handle) == CUDA_SUCCESS) {
    taken += 50 * kMiB;
    REQUIRE(standin_peak_bytes(0) <= kLimit);
  }
  CHECK(taken >= kLimit / 100 * 95);
}
