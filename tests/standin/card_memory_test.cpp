// What a card answers about memory: mapped, pooled, pinned and managed memory, copies and sets.
#include <cuda.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "card_test.h"
#include "reported_test.h"

using namespace standin_test;

namespace {

CUmemAllocationProp OnDevice(int handle_types = 0) {
  CUmemAllocationProp out{};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  out.requestedHandleTypes = Numbered<CUmemAllocationHandleType>(handle_types);
  return out;
}

CUresult Create(int handle_types) {
  const CUmemAllocationProp properties = OnDevice(handle_types);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = cuMemCreate(&handle, kPhysical, &properties, 0);
  if (result == CUDA_SUCCESS) Must(cuMemRelease(handle));
  return result;
}

unsigned char FirstByteOf(CUdeviceptr memory) {
  unsigned char byte = 0;
  Must(cuMemcpyDtoH_v2(&byte, memory, 1));
  return byte;
}

// Memory of each of two devices; the first one's context is current.
struct Pair {
  Device second{1};
  CUdeviceptr from = second.Allocate(512);
  Device first{0};
  CUdeviceptr to = first.Allocate(512);

  Pair() {
    InSecond([&] {
      Must(cuMemsetD8_v2(from, 5, 512));
      Must(cuCtxSynchronize());
    });
  }
  template <typename Work>
  void InSecond(Work work) const {
    Must(cuCtxPushCurrent_v2(second.context()));
    work();
    Must(cuCtxPopCurrent_v2(nullptr));
  }
  CUresult Copy() const { return cuMemcpyPeer(to, first.context(), from, second.context(), 512); }
  CUresult CopyBox() const {
    CUDA_MEMCPY3D_PEER box{};
    box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = from;
    box.srcContext = second.context();
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = to;
    box.dstContext = first.context();
    box.WidthInBytes = 512;
    box.Height = 1;
    box.Depth = 1;
    return cuMemcpy3DPeer(&box);
  }
};

using Copy = CUresult (Pair::*)() const;
constexpr Copy kPeerCopies[] = {&Pair::Copy, &Pair::CopyBox};

}  // namespace

TEST_CASE("a copy between contexts comes after the work that the source's context has") {
  for (const Copy copy : kPeerCopies) {
    const Pair pair;
    std::optional<HeldWork> work;
    pair.InSecond([&] { work.emplace(pair.from); });
    CHECK(work->IsWaitedForBy(pair.first.context(), [&] {
      const CUresult result = (pair.*copy)();
      return result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
    }));
    CHECK(FirstByteOf(pair.to) == 1);
  }
}

TEST_CASE("a copy between contexts comes before the work that the source's context gets later") {
  for (const Copy copy : kPeerCopies) {
    const Pair pair;
    standin_hold_stream(nullptr);
    CHECK((pair.*copy)() == CUDA_SUCCESS);
    std::atomic<bool> done{false};
    std::thread later([&] {
      cuCtxSetCurrent(pair.second.context());
      CUstream stream = nullptr;  // that there was not yet when the copy was asked for
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      cuMemsetD8Async(pair.from, 9, 512, stream);
      cuStreamSynchronize(stream);
      done = true;
    });
    while (!done && standin_waiting_calls() == 0) std::this_thread::yield();
    standin_release_stream(nullptr);
    later.join();
    Must(cuCtxSynchronize());
    CHECK(FirstByteOf(pair.to) == 5);
    pair.InSecond([&] { CHECK(FirstByteOf(pair.from) == 9); });
  }
}

TEST_CASE("who waits for the source's context waits for a copy from it, too") {
  const Pair pair;
  standin_hold_stream(nullptr);
  REQUIRE(pair.Copy() == CUDA_SUCCESS);
  pair.InSecond([] { CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY); });
  standin_release_stream(nullptr);
  pair.InSecond([] { CHECK(cuCtxSynchronize() == CUDA_SUCCESS); });
  CHECK(FirstByteOf(pair.to) == 5);
}

TEST_CASE("a card's answers: physical memory, its types of handles, and where it is mapped") {
  const Device device;
  const CUmemAllocationProp properties = OnDevice(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemGenericAllocationHandle whole = 0;
  CUdeviceptr range = 0;
  Must(cuMemCreate(&whole, 2 * kPhysical, &properties, 0));
  Must(cuMemAddressReserve(&range, 4 * kPhysical, 0, 0, 0));
  const auto granularity = [&](int option) {
    std::size_t bytes = 0;
    return cuMemGetAllocationGranularity(&bytes, &properties,
                                         Numbered<CUmemAllocationGranularity_flags>(option));
  };
  const auto map = [&](std::size_t at, std::size_t bytes) {
    return cuMemMap(range + at, bytes, 0, whole, 0);
  };
  const auto export_as = [&](int type) {
    int fd = -1;
    return cuMemExportToShareableHandle(&fd, whole, Numbered<CUmemAllocationHandleType>(type), 0);
  };
  const auto import_as = [](int type) {
    CUmemGenericAllocationHandle out = 0;
    return cuMemImportFromShareableHandle(&out, reinterpret_cast<void*>(3),
                                          Numbered<CUmemAllocationHandleType>(type));
  };
  constexpr int kFabric = 8;
  CheckAnswers({
      {"granularity, recommended", kFine, [&] { return granularity(1); }},
      {"granularity, option 2", kValue, [&] { return granularity(2); }},
      {"granularity, option -1", kValue, [&] { return granularity(-1); }},
      {"half a handle at no granule", kUnserved, [&] { return map(4096, kPhysical); }},
      {"a handle at no granule", kValue, [&] { return map(4096, 2 * kPhysical); }},
      {"nothing, at no granule", kValue, [&] { return map(4096, 0); }},
      {"create for Windows", kValue, [] { return Create(CU_MEM_HANDLE_TYPE_WIN32); }},
      {"create for Windows' kernel", kValue, [] { return Create(CU_MEM_HANDLE_TYPE_WIN32_KMT); }},
      {"create for files and Windows", kValue, [] { return Create(3); }},
      {"create for fabric", kValue, [] { return Create(kFabric); }},
      {"create for what there is not", kFine, [] { return Create(0x10); }},
      {"export as nothing", kValue, [&] { return export_as(CU_MEM_HANDLE_TYPE_NONE); }},
      {"export as two types", kValue, [&] { return export_as(3); }},
      {"export as fabric", kUnserved, [&] { return export_as(kFabric); }},
      {"import as two types", kValue, [&] { return import_as(3); }},
      {"import as fabric", kUnserved, [&] { return import_as(kFabric); }},
  });
  Must(cuMemAddressFree(range, 4 * kPhysical));
  Must(cuMemRelease(whole));
}

#if CUDA_VERSION >= 13000
TEST_CASE("a card's answers: places that are no device's, peers' attributes") {
  const Device device;
  CUmemLocation nowhere{CU_MEM_LOCATION_TYPE_DEVICE, 9};
  CUmemoryPool pool = nullptr;
  Must(cuDeviceGetDefaultMemPool(&pool, 0));
  const CUdeviceptr managed = AllocateManaged(4096);
  const auto peers = [](int attribute) {
    int value = 0;
    return cuDeviceGetP2PAttribute(&value, Numbered<CUdevice_P2PAttribute>(attribute), 0, 1);
  };
  const auto kPinned = CU_MEM_ALLOCATION_TYPE_PINNED;
  CheckAnswers({
      {"default pool", kValue, [&] { return cuMemGetDefaultMemPool(&pool, &nowhere, kPinned); }},
      {"pool", kValue, [&] { return cuMemGetMemPool(&pool, &nowhere, kPinned); }},
      {"set pool", kValue, [&] { return cuMemSetMemPool(&nowhere, kPinned, pool); }},
      {"advice", kValue,
       [&] { return cuMemAdvise_v2(managed, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, nowhere); }},
      {"prefetch", kDevice,
       [&] { return cuMemPrefetchAsync_v2(managed, 4096, nowhere, 0, nullptr); }},
      {"attribute 0", kValue, [&] { return peers(0); }},
      {"attribute 1", kFine, [&] { return peers(1); }},
      {"attribute 5", kFine, [&] { return peers(5); }},
      {"attribute 6", kValue, [&] { return peers(6); }},
      {"attribute 7", kValue, [&] { return peers(7); }},
  });
}
#endif

#if CUDA_VERSION >= 12080
namespace {

constexpr std::size_t kUntouched = 77;

// Two copies of 16 bytes by one call, but for what `spoil` makes of it; and which one was blamed.
struct Batch {
  std::array<CUdeviceptr, 2> to{}, from{};
  std::array<std::size_t, 2> sizes{16, 16};
  CUmemcpyAttributes attributes{CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, {}, {}, 0};
  std::size_t index = 0;
  std::size_t failed = kUntouched;

  CUresult Run(CUstream stream) {
    return cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), 2, &attributes, &index, 1,
                              &failed, stream);
  }
};

}  // namespace

TEST_CASE("a card's answers: a batch of copies, and which of them it blames") {
  const Device device;
  const CUstream stream = NewStream();
  const CUdeviceptr memory = device.Allocate(64);
  const auto run = [&](auto spoil, CUstream in) {
    Batch batch;
    batch.to = {memory, memory + 16};
    batch.from = {memory + 32, memory + 48};
    spoil(batch);
    const CUresult result = batch.Run(in);
    return std::pair(result, batch.failed);
  };
  using Blamed = std::pair<CUresult, std::size_t>;
  CHECK(run([](Batch&) {}, stream) == Blamed(kFine, SIZE_MAX));
  CHECK(run([](Batch&) {}, nullptr) == Blamed(kValue, kUntouched));
  CHECK(run([](Batch& batch) { batch.sizes[0] = 0; }, stream) == Blamed(kValue, 0));
  CHECK(run([](Batch& batch) { batch.sizes[1] = 0; }, stream) == Blamed(kValue, 1));
  CHECK(run([](Batch& batch) { batch.attributes.flags = 2; }, stream) == Blamed(kValue, SIZE_MAX));
  CHECK(run([](Batch& batch) { batch.attributes.srcAccessOrder = {}; }, stream) ==
        Blamed(kValue, SIZE_MAX));
}

TEST_CASE("a card's answers: a batch of boxes") {
  const Device device;
  const CUstream stream = NewStream();
  const CUdeviceptr memory = device.Allocate(64);
  Must(cuMemsetD8_v2(memory, 7, 32));
  Must(cuCtxSynchronize());
  const auto run = [&](auto spoil, CUstream in, std::size_t count = 2,
                       unsigned long long flags = 0) {
    std::array<CUDA_MEMCPY3D_BATCH_OP, 2> boxes{};
    for (std::size_t i = 0; i < 2; ++i) {
      boxes[i].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
      boxes[i].src.op.ptr.ptr = memory + 16 * i;
      boxes[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
      boxes[i].dst.op.ptr.ptr = memory + 32 + 16 * i;
      boxes[i].extent = {4, 4, 1};
      boxes[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
    spoil(boxes);
    std::size_t failed = kUntouched;
    const CUresult result = cuMemcpy3DBatchAsync(count, boxes.data(), &failed, flags, in);
    return std::pair(result, failed);
  };
  const auto as_it_is = [](auto&) {};
  using Blamed = std::pair<CUresult, std::size_t>;
  CHECK(run(as_it_is, stream) == Blamed(kFine, SIZE_MAX));
  Must(cuStreamSynchronize(stream));
  CHECK(FirstByteOf(memory + 63) == 7);
  CHECK(run(as_it_is, nullptr) == Blamed(kValue, kUntouched));
  CHECK(run(as_it_is, stream, 0) == Blamed(kValue, SIZE_MAX));
  CHECK(run(as_it_is, stream, 2, 1) == Blamed(kValue, SIZE_MAX));
  CHECK(run([](auto& boxes) { boxes[1].extent.depth = 0; }, stream) == Blamed(kValue, 1));
  CHECK(run([](auto& boxes) { boxes[0].srcAccessOrder = {}; }, stream) == Blamed(kValue, 0));
  CHECK(run([](auto& boxes) { boxes[0].dst.type = Numbered<CUmemcpy3DOperandType>(9); }, stream) ==
        Blamed(kValue, 0));
  CHECK(run([](auto& boxes) { boxes[0].flags = 2; }, stream) == Blamed(kValue, 0));
}
#endif

TEST_CASE("a card's answers: memory of the host, and its flags") {
  const Device device;
  std::vector<char> host(8192);
  void* pinned = nullptr;
  void* plain = nullptr;
  Must(cuMemHostAlloc(&pinned, 4096, 0));
  Must(cuMemAllocHost_v2(&plain, 4096));
  auto* const managed = reinterpret_cast<void*>(AllocateManaged(4096));
  const auto is_refused = [&](unsigned flags) {
    return cuMemHostRegister_v2(host.data(), host.size(), flags);
  };
  CheckAnswers({
      {"register with flag 0x10", kValue, [&] { return is_refused(0x10); }},
      {"register to read only", kUnserved,
       [&] { return is_refused(CU_MEMHOSTREGISTER_READ_ONLY); }},
      {"register pinned memory", kValue, [&] { return cuMemHostRegister_v2(pinned, 4096, 0); }},
      {"register managed memory", kValue, [&] { return cuMemHostRegister_v2(managed, 4096, 0); }},
      {"register", kFine, [&] { return is_refused(CU_MEMHOSTREGISTER_PORTABLE); }},
      {"register again", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, [&] { return is_refused(0); }},
      {"end what never was registered", kValue, [&] { return cuMemHostUnregister(pinned); }},
  });
  const auto flags_of = [](void* address) {
    unsigned flags = 99;
    CHECK(cuMemHostGetFlags(&flags, address) == CUDA_SUCCESS);
    return flags;
  };
  CHECK(flags_of(host.data()) == 3);
  CHECK(flags_of(host.data() + 100) == 3);
  CHECK(flags_of(pinned) == 2);
  CHECK(flags_of(plain) == 2);
  CHECK(flags_of(managed) == 2);
  Must(cuMemHostUnregister(host.data()));
}

TEST_CASE("a card's answers: sets of rows, and to which stream memory is attached") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  const CUdeviceptr managed = AllocateManaged(400);
  const CUstream stream = NewStream();
  const auto attach = [&](CUdeviceptr address, std::size_t bytes, unsigned flags) {
    return cuStreamAttachMemAsync(stream, address, bytes, flags);
  };
  CheckAnswers({
      {"rows that overlap", kValue, [&] { return cuMemsetD2D8_v2(memory, 8, 1, 10, 3); }},
      {"rows on each other", kValue, [&] { return cuMemsetD2D8_v2(memory, 0, 1, 10, 2); }},
      {"one row", kFine, [&] { return cuMemsetD2D8_v2(memory, 0, 1, 10, 1); }},
      {"a pitch of 11 for 2", kValue, [&] { return cuMemsetD2D16_v2(memory, 11, 1, 5, 2); }},
      {"a pitch of 12 for 2", kFine, [&] { return cuMemsetD2D16_v2(memory, 12, 1, 5, 2); }},
      {"a pitch of 14 for 4", kValue, [&] { return cuMemsetD2D32_v2(memory, 14, 1, 3, 2); }},
      {"attach all", kFine, [&] { return attach(managed, 0, CU_MEM_ATTACH_SINGLE); }},
      {"attach all, by its size", kFine, [&] { return attach(managed, 400, 1); }},
      {"attach half", kValue, [&] { return attach(managed, 200, 1); }},
      {"attach from within", kValue, [&] { return attach(managed + 64, 0, 1); }},
      {"attach a device's", kValue, [&] { return attach(memory, 0, 1); }},
      {"attach to all kinds", kValue, [&] { return attach(managed, 0, 7); }},
  });
}

TEST_CASE("a card's answers: shapes of arrays, and how many levels they have") {
  const Device device;
  const auto create = [](std::size_t width, std::size_t height, std::size_t depth,
                         unsigned flags = 0, int format = CU_AD_FORMAT_FLOAT) {
    const CUDA_ARRAY3D_DESCRIPTOR shape{width, height, depth, Numbered<CUarray_format>(format),
                                        1,     flags};
    CUarray array = nullptr;
    return cuArray3DCreate_v2(&array, &shape);
  };
  constexpr unsigned kLayered = CUDA_ARRAY3D_LAYERED;
  constexpr unsigned kCube = CUDA_ARRAY3D_CUBEMAP;
  CheckAnswers({
      {"layers of rows", kFine, [&] { return create(10, 0, 20, kLayered); }},
      {"depth without height", kValue, [&] { return create(10, 0, 20); }},
      {"a cube", kFine, [&] { return create(4, 4, 6, kCube); }},
      {"a cube of oblong faces", kValue, [&] { return create(2, 3, 6, kCube); }},
      {"a cube of five faces", kValue, [&] { return create(4, 4, 5, kCube); }},
      {"layers of cubes", kFine, [&] { return create(4, 4, 24, kCube | kLayered); }},
      {"cubes and a half", kValue, [&] { return create(4, 4, 10, kCube | kLayered); }},
      {"no layers", kValue, [&] { return create(4, 4, 0, kLayered); }},
      {"format 0x55", kValue, [&] { return create(1, 2, 3, 0, 0x55); }},
      {"flag 0x80000", kValue, [&] { return create(4, 4, 6, 0x80000); }},
  });
  const CUDA_ARRAY3D_DESCRIPTOR shape{64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  const auto has_levels = [&](unsigned asked, unsigned made) {
    CUmipmappedArray array = nullptr;
    CUarray level = nullptr;
    Must(cuMipmappedArrayCreate(&array, &shape, asked));
    return cuMipmappedArrayGetLevel(&level, array, made - 1) == kFine &&
           cuMipmappedArrayGetLevel(&level, array, made) == kValue;
  };
  CHECK(has_levels(0, 1));
  CHECK(has_levels(4, 4));
  CHECK(has_levels(100, 7));
}
