// Memory that the driver gives by other functions than cuMemAlloc: counted, limited where there is
// a limit, and served from what the arena has and does not use.
#include <functional>
#include <utility>

#include "shim/ask/arrays.h"
#include "shim/device/devices.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kDevice = 256 * kMiB;  // as the tests are run

CUDA_ARRAY3D_DESCRIPTOR shape(std::size_t width, std::size_t height, std::size_t depth) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = width;
  shape.Height = height;
  shape.Depth = depth;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  return shape;
}

cubfc::Device& device(int ordinal) {
  return *cubfc::Process::active()->contexts().devices().get(ordinal);
}

std::uint64_t held(cubfc::Memory memory, int ordinal = 0) {
  return std::as_const(device(ordinal)).limit.held(memory);
}

}  // namespace

TEST_CASE(
    "nearly all of the device can be had by each function, before and after the arena is there",
    "[outside]") {
  constexpr std::size_t kNearlyAll = kDevice / 100 * 98;
  for (const bool with_arena : {false, true}) {
    INFO("with an arena: " << with_arena);
    const TestContext context;
    if (with_arena) {
      must(cuMemFree(allocate(1000)));
    }
    CUdeviceptr address = 0;
    must(cuMemAlloc(&address, kNearlyAll));
    must(cuMemFree(address));
    must(cuMemAllocAsync(&address, kNearlyAll, nullptr));
    must(cuMemFreeAsync(address, nullptr));
    must(cuCtxSynchronize());
    must(cuMemFree(allocate(1000)));
    must(cuMemAllocManaged(&address, kNearlyAll, CU_MEM_ATTACH_GLOBAL));
    must(cuMemFree(address));
    CUmemGenericAllocationHandle handle = 0;
    must(create_physical(kNearlyAll / (2 * kMiB) * 2 * kMiB, &handle));
    must(cuMemRelease(handle));
    must(cuMemFree(allocate(1000)));
    CUarray array = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR large = shape(1024, 1024, kNearlyAll / kMiB / 16);
    must(cuArray3DCreate(&array, &large));
    must(cuArrayDestroy(array));
    verify_arenas();
  }
}

TEST_CASE("physical memory counts as long as somebody has its handle or it is mapped",
          "[outside]") {
  const TestContext context;
  const std::uint64_t before = held(cubfc::Memory::kMapped);
  const auto now = [&] { return held(cubfc::Memory::kMapped) - before; };
  CUmemGenericAllocationHandle handle = 0;
  must(create_physical(4 * kMiB, &handle));
  CHECK(now() == 4 * kMiB);
  CUdeviceptr range = 0;
  must(cuMemAddressReserve(&range, 16 * kMiB, 0, 0, 0));
  must(cuMemMap(range, 4 * kMiB, 0, handle, 0));
  must(cuMemMap(range + 8 * kMiB, 4 * kMiB, 0, handle, 0));
  must(cuMemRelease(handle));
  CHECK(now() == 4 * kMiB);
  CHECK(cuMemRelease(handle) != CUDA_SUCCESS);  // and changes nothing
  CHECK(now() == 4 * kMiB);
  must(cuMemUnmap(range, 4 * kMiB));
  CHECK(now() == 4 * kMiB);
  CHECK(cuMemUnmap(range, 4 * kMiB) == CUDA_SUCCESS);  // nothing is mapped there
  CHECK(now() == 4 * kMiB);
  CHECK(cuMemUnmap(range + 8 * kMiB, 2 * kMiB) != CUDA_SUCCESS);  // half of what is mapped
  CHECK(now() == 4 * kMiB);
  CUmemGenericAllocationHandle again = 0;
  must(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range + 9 * kMiB)));
  must(cuMemUnmap(range + 4 * kMiB, 12 * kMiB));  // and more, where nothing is mapped
  CHECK(now() == 4 * kMiB);
  must(cuMemRelease(again));
  CHECK(now() == 0);
  must(cuMemAddressFree(range, 16 * kMiB));
}

TEST_CASE("an unmapping that fails leaves everything mapped and counted", "[outside]") {
  const TestContext context;
  const std::uint64_t before = held(cubfc::Memory::kMapped);
  CUmemGenericAllocationHandle handle = 0;
  must(create_physical(2 * kMiB, &handle));
  CUdeviceptr range = 0;
  must(cuMemAddressReserve(&range, 4 * kMiB, 0, 0, 0));
  must(cuMemMap(range, 2 * kMiB, 0, handle, 0));
  must(cuMemMap(range + 2 * kMiB, 2 * kMiB, 0, handle, 0));
  must(cuMemRelease(handle));
  REQUIRE(standin_fail("cuMemUnmap", CUDA_ERROR_UNKNOWN, 0, 1) == 1);
  CHECK(cuMemUnmap(range, 4 * kMiB) == CUDA_ERROR_UNKNOWN);
  CHECK(held(cubfc::Memory::kMapped) == before + 2 * kMiB);
  must(cuMemUnmap(range, 4 * kMiB));
  CHECK(held(cubfc::Memory::kMapped) == before);
  must(cuMemAddressFree(range, 4 * kMiB));
}

TEST_CASE("an array counts until it is destroyed, or its context is", "[outside]") {
  const TestContext context;
  CUcontext other = nullptr;
  must(cuCtxCreate_v2(&other, 0, 0));
  const std::uint64_t before = held(cubfc::Memory::kArray);
  const auto now = [&] { return held(cubfc::Memory::kArray) - before; };
  CUarray flat = nullptr;
  const CUDA_ARRAY_DESCRIPTOR plain{1000, 100, CU_AD_FORMAT_UNSIGNED_INT8, 2};
  must(cuArrayCreate(&flat, &plain));
  CHECK(now() == 200'000);
  CUmipmappedArray mipmapped = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR cube = shape(4, 4, 4);
  must(cuMipmappedArrayCreate(&mipmapped, &cube, 3));
  CHECK(now() == 200'000 + 16 * (64 + 8 + 1));
  must(cuMipmappedArrayDestroy(mipmapped));
  CHECK(cuMipmappedArrayDestroy(mipmapped) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  must(cuArrayDestroy(flat));
  CHECK(now() == 0);
  must(cuArrayCreate(&flat, &plain));
  must(cuCtxDestroy_v2(other));
  CHECK(now() == 0);
  must(cuCtxSetCurrent(context.handle));
  CHECK(cuArrayCreate(nullptr, &plain) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuArrayCreate(&flat, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuArrayDestroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("what an array takes is told by its shape", "[outside]") {
  CUDA_ARRAY3D_DESCRIPTOR layered = shape(8, 2, 6);
  layered.Flags = CUDA_ARRAY3D_LAYERED;
  CHECK(cubfc::array_bytes(layered, 1) == 16UL * 96);
  CHECK(cubfc::array_bytes(layered, 9) == 16UL * (96 + 24 + 12 + 6));  // no more than there are
  layered.Flags = CUDA_ARRAY3D_SPARSE;
  CHECK(cubfc::array_bytes(layered, 1) == 0);
  const std::size_t most = ~std::size_t{0};
  CHECK(cubfc::array_bytes(shape(most, most, most), 1) > std::uint64_t{1} << 50);
  CHECK(cubfc::array_bytes(shape(0, 0, 0), 1) == 0);
  CUDA_ARRAY3D_DESCRIPTOR no_such = shape(most, most, 0);  // refused as the driver refuses it
  no_such.NumChannels = 3;
  CHECK(cubfc::array_bytes(no_such, 1) == 0);
  CUDA_ARRAY3D_DESCRIPTOR packed = shape(4096, 4096, 0);
  packed.Format = CU_AD_FORMAT_BC7_UNORM;
  CHECK(cubfc::array_bytes(packed, 1) == 16 * kMiB);
  packed.Format = CU_AD_FORMAT_BC1_UNORM;
  CHECK(cubfc::array_bytes(packed, 1) == 8 * kMiB);
  packed.Format = CU_AD_FORMAT_SNORM_INT8X4;
  CHECK(cubfc::array_bytes(packed, 1) == 64 * kMiB);
}

TEST_CASE("memory counts on the device that it is of", "[outside]") {
  const TestContext first(0);
  const TestContext second(1);
  const std::uint64_t before = held(cubfc::Memory::kMapped, 0);
  CUmemGenericAllocationHandle handle = 0;
  must(create_physical(2 * kMiB, &handle, 0));  // the second device is current
  CHECK(held(cubfc::Memory::kMapped, 0) == before + 2 * kMiB);
  must(cuMemRelease(handle));
  CHECK(held(cubfc::Memory::kMapped, 0) == before);
  CHECK(create_physical(2 * kMiB, &handle, 99) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(create_physical(2 * kMiB, &handle, -1) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(create_physical(0, &handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(create_physical(2 * kMiB, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemCreate(&handle, 2 * kMiB, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(create_physical(std::size_t{1} << 50, &handle) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("managed memory counts until it is freed, by whichever function", "[outside]") {
  const TestContext context;
  const std::uint64_t before = held(cubfc::Memory::kManaged);
  CUdeviceptr address = 0;
  must(cuMemAllocManaged(&address, kMiB, CU_MEM_ATTACH_GLOBAL));
  CHECK(held(cubfc::Memory::kManaged) == before + kMiB);
  must(cuMemFree(address));
  CHECK(held(cubfc::Memory::kManaged) == before);
  CHECK(cuMemAllocManaged(&address, kMiB, 77) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocManaged(nullptr, kMiB, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(held(cubfc::Memory::kManaged) == before);
}

TEST_CASE("what the driver takes by the way, it gets from what nobody uses", "[outside]") {
  const TestContext context;
  must(cuMemFree(allocate(200 * kMiB)));
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cuStreamEndCapture(stream, &graph));
  CUcontext other = nullptr;
  CUmodule module = nullptr;
  CUgraphExec program = nullptr;
  CUstream another = nullptr;
  CUevent event = nullptr;
  CUfunction kernel = nullptr;
  must(cuModuleLoadData(&module, "an image"));
  must(cuModuleGetFunction(&kernel, module, "a_kernel"));
  const std::pair<const char*, std::function<CUresult()>> calls[] = {
      {"cuModuleLoadData", [&] { return cuModuleLoadData(&module, "an image"); }},
      {"cuCtxSetLimit", [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 65536); }},
      {"cuGraphInstantiateWithFlags",
       [&] { return cuGraphInstantiateWithFlags(&program, graph, 0); }},
      {"cuGraphLaunch", [&] { return cuGraphLaunch(program, stream); }},
      {"cuStreamCreate", [&] { return cuStreamCreate(&another, CU_STREAM_NON_BLOCKING); }},
      {"cuEventCreate", [&] { return cuEventCreate(&event, CU_EVENT_DEFAULT); }},
      {"cuLaunchKernel",
       [&] { return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr); }},
      {"cuCtxCreate_v2", [&] { return cuCtxCreate_v2(&other, 0, 0); }}};
  for (const auto& [function, call] : calls) {
    INFO(function);
    must(cuMemFree(allocate(200 * kMiB)));
    REQUIRE(standin_fail(function, CUDA_ERROR_OUT_OF_MEMORY, 0, 1) == 1);
    standin_reset_calls();
    CHECK(call() == CUDA_SUCCESS);
    CHECK(standin_calls(function) >= 2);  // what is given back may take a stream of ours
    CHECK(standin_calls(function) <= 3);
    standin_fail(function, CUDA_ERROR_OUT_OF_MEMORY, 0, UINT64_MAX);
    CHECK(call() == CUDA_ERROR_OUT_OF_MEMORY);  // and does not try for ever
    standin_fail(function, 0, 0, 0);
  }
  must(cuCtxDestroy_v2(other));
}

TEST_CASE("what is given back when no context is current is not lost", "[outside]") {
  const TestContext context;
  must(cuMemFree(allocate(200 * kMiB)));
  must(cuCtxSynchronize());
  std::size_t before = 0;
  must(cuMemGetInfo(&before, nullptr));
  must(cuCtxSetCurrent(nullptr));
  CUcontext other = nullptr;
  standin_fail("cuCtxCreate_v2", CUDA_ERROR_OUT_OF_MEMORY, 0, UINT64_MAX);
  CHECK(cuCtxCreate_v2(&other, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  standin_fail("cuCtxCreate_v2", 0, 0, 0);
  must(cuCtxSetCurrent(context.handle));
  std::size_t after = 0;
  must(cuMemGetInfo(&after, nullptr));
  CHECK(after + 8 * kMiB >= before);
  must(cuMemFree(allocate(200 * kMiB)));
}

TEST_CASE("a device keeps what it has ahead when another one lacks memory", "[outside]") {
  const TestContext first(0);
  must(cuMemFree(allocate(100 * kMiB)));
  must(cuCtxSynchronize());
  const std::uint64_t of_first = standin_live_bytes(0);
  const TestContext second(1);
  must(cuMemFree(allocate(100 * kMiB)));
  standin_fail("cuCtxSetLimit", CUDA_ERROR_OUT_OF_MEMORY, 0, UINT64_MAX);
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 65536) == CUDA_ERROR_OUT_OF_MEMORY);
  standin_fail("cuCtxSetLimit", 0, 0, 0);
  CHECK(standin_live_bytes(0) == of_first);
}

TEST_CASE("a graph gets the memory that nobody uses", "[outside]") {
  const TestContext context;
  must(cuMemFree(allocate(200 * kMiB)));
  must(cuCtxSynchronize());
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec program = nullptr;
  CUdeviceptr address = 0;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemAllocAsync(&address, 150 * kMiB, stream) == CUDA_SUCCESS);
  must(cuMemFreeAsync(address, stream));
  must(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiateWithFlags(&program, graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(program, stream) == CUDA_SUCCESS);
  must(cuStreamSynchronize(stream));
  must(cuGraphExecDestroy(program));
  must(cuGraphDestroy(graph));
}

TEST_CASE("a context sees as free what another one of the device does not use", "[outside]") {
  const TestContext context;
  std::size_t before = 0;
  std::size_t beside = 0;
  must(cuMemFree(allocate(4 * kMiB)));
  must(cuCtxSynchronize());
  must(cuMemGetInfo(&before, nullptr));
  CUcontext other = nullptr;
  must(cuCtxCreate_v2(&other, 0, 0));
  must(cuMemGetInfo(&beside, nullptr));
  CHECK(beside + 8 * kMiB >= before);
  const CUdeviceptr most = allocate(beside / 10 * 9);
  must(cuMemFree(most));
  must(cuCtxDestroy_v2(other));
}
