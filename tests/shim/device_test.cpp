// A block looks and behaves like an allocation of the driver's.
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "shim/source/unused_memory.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

// What a context whose last reference was given up has left in a pool goes back then.
void allocate_once_more() {
  const TestContext context;
  must(cuMemFree(allocate(512)));
}

}  // namespace

TEST_CASE("a block starts on a multiple of the largest power of two that divides its size") {
  const TestContext context;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t alignment = 512; alignment <= 4 << 20; alignment *= 2) {
      allocate(1);  // so that the next hole starts at an odd place
      const CUdeviceptr block = allocate(3 * alignment);
      const bool from_arena =
          cubfc::Process::active()->contexts().owner_of_region(block) != nullptr;
      INFO(3 * alignment);
      CHECK((!from_arena || block % std::min<std::size_t>(alignment, 2 << 20) == 0));
    }
  }
  verify_arenas();
}

TEST_CASE("a block holds what an earlier one has left there", "[arena]") {
  const TestContext context;
  constexpr std::size_t kBytes = 1 << 20;
  std::set<CUdeviceptr> before;
  int reused = 0;
  for (int round = 0; round < 100; ++round) {
    const CUdeviceptr block = allocate(kBytes);
    if (!before.insert(block).second) {
      ++reused;
      CHECK(read(block, kBytes) == std::vector<unsigned char>(kBytes, 5));
    }
    must(cuMemsetD8(block, 5, kBytes));
    must(cuCtxSynchronize());
    must(cuMemFree(block));
  }
  CHECK(reused > 0);
}

TEST_CASE("a free waits for the work that was submitted before it", "[sync]") {
  const TestContext context;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr block = allocate(4096);
  REQUIRE(standin_hold_stream(stream) == 1);
  must(cuMemsetD8Async(block, 7, 4096, stream));

  std::atomic<bool> freed{false};
  std::thread other([&] {
    cuCtxSetCurrent(context.handle);
    cuMemFree(block);
    freed = true;
  });
  // The free cannot be over while the stream is held: what is allocated meanwhile is another block.
  const CUdeviceptr next = allocate(4096);
  CHECK(next != block);
  CHECK_FALSE(freed);
  standin_release_stream(stream);
  other.join();
  CHECK(freed);
  must(cuMemFree(next));
  must(cuStreamDestroy_v2(stream));
  verify_arenas();
}

TEST_CASE("each block has its own range, buffer id and mapping") {
  const TestContext context;
  const CUdeviceptr a = allocate(1000);
  const CUdeviceptr b = allocate(300000);
  for (const auto& [address, bytes] : {std::pair{a, std::size_t{1000}}, {b, std::size_t{300000}}}) {
    CUdeviceptr base = 0;
    std::size_t size = 0;
    must(cuMemGetAddressRange(&base, &size, address + 999));
    CHECK(base == address);
    CHECK(size == bytes);
    must(cuMemGetAddressRange(nullptr, &size, address));
    must(cuMemGetAddressRange(&base, nullptr, address));
    CUdeviceptr start = 0;
    must(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 512));
    CHECK(start == address);
    std::size_t range = 0;
    must(cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
    CHECK(range == bytes);
  }
  unsigned long long id_a = 0;
  unsigned long long id_b = 0;
  must(cuPointerGetAttribute(&id_a, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
  must(cuPointerGetAttribute(&id_b, CU_POINTER_ATTRIBUTE_BUFFER_ID, b + 5));
  CHECK(id_a != id_b);

  CUcontext owner = nullptr;
  CUmemorytype type{};
  CUdeviceptr start = 0;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  void* values[] = {&owner, &type, &start};
  must(cuPointerGetAttributes(3, wanted, values, b + 1));
  // Memory that is mapped, or of a pool, is no context's.
  const char* const allocator = std::getenv("CUBFC_ALLOCATOR");
  CHECK(owner == (allocator == nullptr ? context.handle : nullptr));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(start == b);
}

TEST_CASE("a freed block is, to who asks for it, the host's own memory at that address") {
  const TestContext context;
  const CUdeviceptr block = allocate(1000);
  const CUdeviceptr kept = allocate(1000);  // so that its region stays
  must(cuMemFree(block));
  CUdeviceptr host = 0;
  CUmemorytype type{};
  int ordinal = 0;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                  CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&host, &type, &ordinal};
  must(cuPointerGetAttributes(3, wanted, values, block + 100));
  CHECK(host == block + 100);
  CHECK(type == CUmemorytype{});
  CHECK(ordinal == -2);
  must(cuMemFree(kept));
}

TEST_CASE("a freed block is no device pointer any more") {
  const TestContext context;
  const CUdeviceptr kept = allocate(4096);
  const CUdeviceptr block = allocate(4096);
  must(cuMemFree(block));
  CUdeviceptr base = 0;
  std::size_t size = 0;
  CHECK(cuMemGetAddressRange(&base, &size, block) != CUDA_SUCCESS);
  CUmemorytype type{};
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block) != CUDA_SUCCESS);
  CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(kept + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeAsync(block, nullptr) == CUDA_ERROR_INVALID_VALUE);
  must(cuMemFree(kept));
}

TEST_CASE("a block can be freed from another thread, under another context, and by a stream") {
  const TestContext first(0);
  const CUdeviceptr a = allocate(4096);
  const CUdeviceptr b = allocate(4096);
  const CUdeviceptr c = allocate(4096);
  must(cuMemFreeAsync(c, nullptr));
  {
    CUcontext second = nullptr;
    CUdevice device = 0;
    must(cuDeviceGet(&device, 1));
    must(cuDevicePrimaryCtxRetain(&second, device));
    must(cuCtxPushCurrent(second));
    must(cuMemFree(a));
    must(cuCtxPopCurrent(nullptr));
    must(cuDevicePrimaryCtxRelease_v2(device));
  }
  std::thread([&] {
    cuCtxSetCurrent(first.handle);
    CHECK(cuMemFree(b) == CUDA_SUCCESS);
  }).join();
  verify_arenas();
}

TEST_CASE("a pool's pointer freed by cuMemFree, and a stranger's, are the driver's") {
  const TestContext context;
  CUdeviceptr pooled = 0;
  must(cuMemAllocAsync(&pooled, 4096, nullptr));
  CHECK(cuMemFree(pooled) == CUDA_SUCCESS);
  CUdeviceptr managed = 0;
  must(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemFree(managed) == CUDA_SUCCESS);
}

TEST_CASE("a pitched block keeps the driver's pitch") {
  const TestContext context;
  for (const std::size_t width : {1, 100, 511, 512, 513, 4000}) {
    CUdeviceptr block = 0;
    std::size_t pitch = 0;
    must(cuMemAllocPitch(&block, &pitch, width, 7, 4));
    CHECK(pitch >= width);
    CHECK(pitch % 256 == 0);
    std::size_t size = 0;
    must(cuMemGetAddressRange(nullptr, &size, block));
    CHECK(size == pitch * 7);
    must(cuMemFree(block));
  }
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  CHECK(cuMemAllocPitch(&block, &pitch, 100, 10, 3) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch(&block, &pitch, 0, 10, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch(&block, &pitch, 4096, ~std::size_t{0} / 2, 4) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("nothing that would show an importer a neighbour's memory is handed out") {
  const TestContext context;
  const CUdeviceptr block = allocate(65536);
  CUmemGenericAllocationHandle generic = 0;
  CHECK(cuMemRetainAllocationHandle(&generic, reinterpret_cast<void*>(block)) ==
        CUDA_ERROR_INVALID_VALUE);
}

// Of a pool's memory a driver may export whole blocks alone.
TEST_CASE("a range is exported for other devices when the program has something in each page",
          "[arena]") {
  const TestContext context;
  const std::size_t page = 65536;
  const auto can_export = [](CUdeviceptr from, CUdeviceptr to) {
    int descriptor = -1;
    const CUresult result = cuMemGetHandleForAddressRange(&descriptor, from, to - from,
                                                          CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result == CUDA_SUCCESS) {
      close(descriptor);
    }
    return result == CUDA_SUCCESS;
  };
  const CUdeviceptr before = allocate(512);
  for (const std::size_t bytes :
       {std::size_t{512}, std::size_t{8192}, std::size_t{100'000}, std::size_t{3} << 20}) {
    // As libraries do that register memory with a network card: rounded out to whole pages.
    const CUdeviceptr block = allocate(bytes);
    for (const std::size_t rounded : {std::size_t{4096}, page}) {
      const CUdeviceptr end = (block + bytes + rounded - 1) / rounded * rounded;
      CHECK(can_export(block / rounded * rounded, end));
      CHECK_FALSE(can_export(block / rounded * rounded, end + 2 * page));
    }
    must(cuMemFree(block));
  }
  // What is freed is not exported, though the next page is somebody's.
  const CUdeviceptr freed = allocate(16384);
  const CUdeviceptr beside = allocate(16384);
  must(cuMemFree(freed));
  const CUdeviceptr inside = (freed + 4095) / 4096 * 4096;
  CHECK_FALSE(can_export(inside, inside + 4096));
  CHECK_FALSE(can_export(beside / 4096 * 4096, ~CUdeviceptr{0} / 4096 * 4096));
  must(cuMemFree(beside));
  const CUdeviceptr large = allocate(4 << 20);
  must(cuMemFree(before));
  must(cuMemFree(large));
  must(cuCtxSynchronize());
  CHECK_FALSE(can_export(large, large + (4 << 20)));
  CHECK_FALSE(can_export(large, large + page));
}

TEST_CASE("a context's end takes its blocks, and its successor starts anew") {
  must(cuInit(0));
  CUdevice device = 0;
  must(cuDeviceGet(&device, 0));
  CUdeviceptr before = 0;
  CUcontext context = nullptr;
  for (int round = 0; round < 5; ++round) {
    must(cuDevicePrimaryCtxRetain(&context, device));
    must(cuCtxSetCurrent(context));
    before = allocate(4096);
    must(cuMemsetD8(before, 1, 4096));
    must(cuDevicePrimaryCtxReset_v2(device));
    CHECK(cuMemFree(before) != CUDA_SUCCESS);
    verify_arenas();
  }
  // The same handle's value, another context: its first allocation is served.
  must(cuDevicePrimaryCtxRetain(&context, device));
  must(cuCtxSetCurrent(context));
  const CUdeviceptr after = allocate(4096);
  must(cuMemsetD8(after, 2, 4096));
  CHECK(read(after, 4096) == std::vector<unsigned char>(4096, 2));
  must(cuCtxSetCurrent(nullptr));
  for (int held = 0; held < 6; ++held) {
    cuDevicePrimaryCtxRelease_v2(device);
  }
  allocate_once_more();
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("a hundred contexts made and destroyed leave nothing behind") {
  must(cuInit(0));
  CUdevice device = 0;
  must(cuDeviceGet(&device, 0));
  std::size_t known = 0;
  for (int i = 0; i < 100; ++i) {
    CUcontext context = nullptr;
    must(cuCtxCreate_v2(&context, 0, device));
    const CUdeviceptr block = allocate(100000);
    must(cuMemsetD8(block, 3, 100000));
    must(cuCtxDestroy_v2(context));
    std::size_t objects = 0;
    for (auto* each = cubfc::Process::active()->contexts().first(); each != nullptr;
         each = each->next) {
      ++objects;
    }
    known = i == 1 ? objects : known;
    if (i > 1) {
      CHECK(objects == known);  // ended contexts' objects are used again
    }
  }
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("a context whose references are not all given up keeps its blocks") {
  must(cuInit(0));
  CUdevice device = 0;
  must(cuDeviceGet(&device, 0));
  CUcontext context = nullptr;
  must(cuCtxCreate_v2(&context, 0, device));
  const CUdeviceptr block = allocate(1 << 20);
  must(cuCtxAttach(&context, 0));
  must(cuCtxDetach(context));
  std::size_t size = 0;
  must(cuMemGetAddressRange(nullptr, &size, block));
  CHECK(size == 1 << 20);
  must(cuMemFree(block));
  must(cuCtxDestroy_v2(context));

  must(cuDevicePrimaryCtxRetain(&context, device));
  must(cuDevicePrimaryCtxRetain(&context, device));
  must(cuCtxSetCurrent(context));
  const CUdeviceptr other = allocate(4096);
  must(cuDevicePrimaryCtxRelease_v2(device));
  must(cuMemsetD8(other, 1, 4096));
  must(cuMemFree(other));
  must(cuDevicePrimaryCtxRelease_v2(device));
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("a primary context that is released and retained by many threads serves each of them") {
  must(cuInit(0));
  CUdevice device = 0;
  must(cuDeviceGet(&device, 0));
  standin_latency("cuDevicePrimaryCtxGetState", 50000);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&] {
      for (int i = 0; i < 150; ++i) {
        CUcontext context = nullptr;
        CUdeviceptr block = 0;
        wrong += cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS;
        wrong += cuCtxSetCurrent(context) != CUDA_SUCCESS;
        if (cuMemAlloc(&block, 4096) == CUDA_SUCCESS) {
          wrong += cuMemsetD8(block, 1, 4096) != CUDA_SUCCESS;
          wrong += cuMemFree(block) != CUDA_SUCCESS;
        }
        cuDevicePrimaryCtxRelease_v2(device);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  standin_latency("cuDevicePrimaryCtxGetState", 0);
  CHECK(wrong == 0);
  CHECK(standin_live_bytes(0) == 0);
  verify_arenas();
}

TEST_CASE(
    "the memory of a primary context stays until its work is over, however many come after it") {
  allocate_once_more();
  cubfc::Process::active()->unused().trim(false);  // nothing that waits shall be waited for
  const auto is_active = [] {
    unsigned flags = 0;
    int active = 0;
    must(cuDevicePrimaryCtxGetState(0, &flags, &active));
    return active != 0;
  };
  const auto retain = [] {
    CUcontext context = nullptr;
    must(cuDevicePrimaryCtxRetain(&context, 0));
    must(cuCtxSetCurrent(context));
  };
  retain();
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr block = allocate(4096);
  std::atomic<bool> go_on{false};
  const auto wait = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) {
      std::this_thread::yield();
    }
  };
  must(cuLaunchHostFunc(stream, wait, &go_on));
  must(cuMemsetD8Async(block, 1, 4096, stream));
  std::thread releasing([] { CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS); });
  while (is_active()) {
    std::this_thread::yield();
  }
  CUcontext other = nullptr;
  for (int i = 0; i < 10; ++i) {
    retain();
    CUdeviceptr ignored = 0;
    cuMemAlloc(&ignored, 4096);  // fails when what the others took has not come back yet
    must(cuDevicePrimaryCtxRelease_v2(0));
    if (other == nullptr) {
      must(cuCtxCreate_v2(&other, 0, 0));
    }
  }
  go_on = true;
  releasing.join();
  must(cuCtxDestroy_v2(other));
  allocate_once_more();
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("contexts that end in one thread do not disturb the frees of another") {
  must(cuInit(0));
  CUdevice device = 0;
  must(cuDeviceGet(&device, 0));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      for (int i = 0; i < 80; ++i) {
        CUcontext context = nullptr;
        CUdeviceptr block = 0;
        wrong += cuCtxCreate_v2(&context, 0, device) != CUDA_SUCCESS;
        if (cuMemAlloc(&block, 4096) == CUDA_SUCCESS) {
          wrong += cuMemsetD8(block, 1, 4096) != CUDA_SUCCESS;
          wrong += cuMemFree(block) != CUDA_SUCCESS;
        }
        wrong += cuCtxDestroy_v2(context) != CUDA_SUCCESS;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("a second context is served from what the first holds without a block") {
  must(cuInit(0));
  CUdevice device = 0;
  must(cuDeviceGet(&device, 0));
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  must(cuCtxCreate_v2(&first, 0, device));
  must(cuMemFree(allocate(100 << 20)));
  must(cuCtxCreate_v2(&second, 0, device));
  must(cuMemFree(allocate(200 << 20)));
  must(cuCtxDestroy_v2(second));
  must(cuCtxDestroy_v2(first));
}

TEST_CASE("a pitched allocation succeeds when the arena has grown to the whole device") {
  const TestContext context;
  std::vector<CUdeviceptr> blocks;
  CUdeviceptr block = 0;
  while (cuMemAlloc(&block, 1 << 20) == CUDA_SUCCESS) {
    blocks.push_back(block);
  }
  for (const CUdeviceptr each : blocks) {
    must(cuMemFree(each));
  }
  std::size_t pitch = 0;
  must(cuMemAllocPitch(&block, &pitch, 1000, 1000, 8));
  must(cuMemFree(block));
}

TEST_CASE("a block says that it can be shared, as it can", "[ipc]") {
  const TestContext context;
  int capable = 0;
  must(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                             allocate(4096)));
  CHECK(capable == 1);
}

TEST_CASE("a block is not handed out while another device's context may still write to it",
          "[sync]") {
  const TestContext second(1);
  const TestContext first(0);
  CUstream stream = nullptr;
  must(cuCtxPushCurrent(second.handle));
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuCtxPopCurrent(nullptr));
  const CUdeviceptr block = allocate(4096);
  standin_hold_stream(stream);
  must(cuCtxPushCurrent(second.handle));
  const CUresult enabled = cuCtxEnablePeerAccess(first.handle, 0);
  REQUIRE((enabled == CUDA_SUCCESS || enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED));
  must(cuMemsetD8Async(block, 0xaa, 4096, stream));
  must(cuCtxPopCurrent(nullptr));
  std::atomic<bool> freed{false};
  std::thread other([&] {
    cuCtxSetCurrent(first.handle);
    CHECK(cuMemFree(block) == CUDA_SUCCESS);
    freed = true;
  });
  CHECK_FALSE(freed);
  CHECK(allocate(4096) != block);
  standin_release_stream(stream);
  other.join();
}
