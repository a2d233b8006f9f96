// What is reported of real drivers about cuMemAlloc, cuMemFree and the memory of the host: sizes,
// addresses, errors, and what waits for what.
#include <cuda.h>

#include <thread>
#include <vector>

#include "reported_test.h"

using namespace standin_test;

TEST_CASE("reported: blocks below 2 MiB lie on multiples of 512, with nothing but 512 between") {
  const Device device;
  const CUdeviceptr first = device.Allocate(1);
  const CUdeviceptr second = device.Allocate(513);
  const CUdeviceptr third = device.Allocate(1);
  CHECK(first % 512 == 0);
  CHECK(second - first == 512);
  CHECK(third - second == 1024);
  CHECK(first >> 16 == third >> 16);  // neighbours share a page of 64 KiB
}

TEST_CASE("reported: from 2 MiB on, blocks lie on multiples of 2 MiB, one behind the other") {
  const Device device;
  device.Allocate(512);
  const CUdeviceptr first = device.Allocate(2 * kMebibyte);
  const CUdeviceptr second = device.Allocate(2 * kMebibyte);
  CHECK(first % (2 * kMebibyte) == 0);
  CHECK(second - first == 2 * kMebibyte);
  CHECK(device.Allocate(kMebibyte) % (2 * kMebibyte) != 0);  // beside the 512 bytes
}

TEST_CASE("reported: what is free goes down and up in steps of 2 MiB") {
  const Device device;
  const std::size_t before = FreeBytes();
  const CUdeviceptr first = device.Allocate(1);
  CHECK(before - FreeBytes() == 2 * kMebibyte);
  const CUdeviceptr second = device.Allocate(64 << 10);
  CHECK(before - FreeBytes() == 2 * kMebibyte);
  Must(cuMemFree_v2(first));
  CHECK(before - FreeBytes() == 2 * kMebibyte);
  Must(cuMemFree_v2(second));
  CHECK(FreeBytes() == before);
}

TEST_CASE("reported: an address range is as it was requested, not as it was rounded") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(1000);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CHECK(cuMemGetAddressRange_v2(&base, &bytes, memory + 7) == CUDA_SUCCESS);
  CHECK(base == memory);
  CHECK(bytes == 1000);
}

TEST_CASE("reported: an address that no allocation holds has no range") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(1000);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CHECK(cuMemGetAddressRange_v2(&base, &bytes, memory + kMebibyte) == CUDA_ERROR_NOT_FOUND);
  CHECK(cuMemGetAddressRange_v2(&base, &bytes, 0) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("reported: cuMemAlloc needs somewhere to write the address") {
  const Device device;
  CHECK(cuMemAlloc_v2(nullptr, 100) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: rows of pitched memory are 512 bytes apart") {
  const Device device;
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  CHECK(cuMemAllocPitch_v2(&memory, &pitch, 1, 2, 4) == CUDA_SUCCESS);
  CHECK(pitch == 512);
  CHECK(cuMemAllocPitch_v2(&memory, &pitch, 513, 2, 4) == CUDA_SUCCESS);
  CHECK(pitch == 1024);
}

TEST_CASE("reported: pitched memory of no rows, of no width, too wide or too high is refused") {
  const Device device;
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  CHECK(cuMemAllocPitch_v2(&memory, &pitch, 0, 2, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch_v2(&memory, &pitch, 2, 0, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch_v2(nullptr, &pitch, 2, 2, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch_v2(&memory, nullptr, 2, 2, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch_v2(&memory, &pitch, SIZE_MAX, 2, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch_v2(&memory, &pitch, 512, SIZE_MAX, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAllocPitch_v2(&memory, &pitch, 512, 2 * kMemory / 512, 4) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE(
    "reported: freeing nothing succeeds, freeing twice and freeing the host's memory do not") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  const std::vector<char> host(4096);
  CHECK(cuMemFree_v2(0) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(AddressOf(host.data())) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(memory) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: cuMemFree takes memory of a pool and managed memory") {
  const Device device;
  const CUdeviceptr of_pool = AllocateOfPool(4096);
  const CUdeviceptr managed = AllocateManaged(4096);
  CHECK(standin_live_bytes(0) == 4096);
  CHECK(cuMemFree_v2(of_pool) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(managed) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(0) == 0);
  CHECK(cuMemFree_v2(managed) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE(
    "reported: a thread without a context can free, and still waits for the memory's context") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  const CUdeviceptr managed = AllocateManaged(4096);
  const HeldWork work(memory);
  CHECK(work.IsWaitedForBy(nullptr, [&] { return cuMemFree_v2(memory); }));
  std::thread([&] { CHECK(cuMemFree_v2(managed) == CUDA_SUCCESS); }).join();
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("reported: what a context's reset has freed is freed") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(512);
  Must(cuDevicePrimaryCtxReset_v2(0));
  CUcontext again = nullptr;
  Must(cuDevicePrimaryCtxRetain(&again, 0));
  CHECK(cuMemFree_v2(memory) == CUDA_ERROR_INVALID_VALUE);
  Must(cuDevicePrimaryCtxRelease_v2(0));
}

TEST_CASE("reported: cuMemFreeAsync takes memory of cuMemAlloc") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  const CUstream stream = NewStream();
  CHECK(cuMemFreeAsync(memory, stream) == CUDA_SUCCESS);
  Must(cuStreamSynchronize(stream));
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE(
    "reported: cuMemAllocAsync gives no bytes if none are asked for, but must be told where") {
  const Device device;
  const CUstream stream = NewStream();
  CUdeviceptr memory = 0;
  CHECK(cuMemAllocAsync(&memory, 0, stream) == CUDA_SUCCESS);
  CHECK(cuMemAllocAsync(nullptr, 100, stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: cuMemAlloc does not wait for work") {
  const Device device;
  const HeldWork work(device.Allocate(512));
  CUdeviceptr memory = 0;
  CHECK(work.IsNotWaitedForBy(device.context(), [&] { return cuMemAlloc_v2(&memory, 512); }));
}

TEST_CASE("reported: cuMemFree waits for its context's streams, also for a small block's sake") {
  const Device device;
  for (const unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    for (const std::size_t bytes : {std::size_t{1}, 4 * kMebibyte}) {
      const CUdeviceptr freed = device.Allocate(bytes);
      const HeldWork work(device.Allocate(1), NewStream(flags));
      CHECK(work.IsWaitedForBy(device.context(), [&] { return cuMemFree_v2(freed); }));
    }
  }
}

TEST_CASE("reported: cuMemFree does not wait for another device's work") {
  const Device other(1);
  const HeldWork work(other.Allocate(512));
  const Device device;
  const CUdeviceptr memory = device.Allocate(512);
  CHECK(work.IsNotWaitedForBy(device.context(), [&] { return cuMemFree_v2(memory); }));
}

TEST_CASE("reported: pinned memory of no bytes succeeds, and its address must go somewhere") {
  const Device device;
  void* memory = nullptr;
  CHECK(cuMemHostAlloc(&memory, 0, 0) == CUDA_SUCCESS);
  CHECK(cuMemHostAlloc(nullptr, 100, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: cuMemFreeHost takes NULL, and else only what is the driver's, once") {
  const Device device;
  std::vector<char> host(4096);
  void* pinned = nullptr;
  Must(cuMemHostAlloc(&pinned, 4096, 0));
  CHECK(cuMemFreeHost(nullptr) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(host.data()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(pinned) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(pinned) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: pinned memory may be freed under work that uses it") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(kMebibyte);
  void* pinned = nullptr;
  Must(cuMemHostAlloc(&pinned, kMebibyte, 0));
  const CUstream stream = NewStream();
  standin_hold_stream(stream);
  Must(cuMemcpyHtoDAsync_v2(memory, pinned, kMebibyte, stream));
  Must(cuMemcpyDtoHAsync_v2(pinned, memory, kMebibyte, stream));
  CHECK(cuMemFreeHost(pinned) == CUDA_SUCCESS);
  standin_release_stream(stream);
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

TEST_CASE("reported: a registration is ended by its first address, not by one within or by NULL") {
  const Device device;
  std::vector<char> host(8192);
  Must(cuMemHostRegister_v2(host.data(), host.size(), 0));
  CHECK(cuMemHostUnregister(host.data() + 4096) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostUnregister(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostUnregister(host.data()) == CUDA_SUCCESS);
}

TEST_CASE("reported: a synchronous memset of pinned or of managed memory is waited for") {
  const Device device;
  void* pinned = nullptr;
  Must(cuMemHostAlloc(&pinned, 512, 0));
  for (const CUdeviceptr memory : {AddressOf(pinned), AllocateManaged(512)}) {
    auto* const bytes = reinterpret_cast<volatile unsigned char*>(memory);
    bytes[511] = 0;
    const HeldWork work(device.Allocate(1), nullptr);
    CHECK(work.IsWaitedForBy(device.context(), [&] { return cuMemsetD8_v2(memory, 7, 512); }));
    CHECK(bytes[511] == 7);
  }
}

TEST_CASE("reported: an array that is destroyed is told from what never was one, its levels, too") {
  const Device device;
  const CUDA_ARRAY3D_DESCRIPTOR shape{64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  CUmipmappedArray array = nullptr;
  CUarray level = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR told{};
  Must(cuMipmappedArrayCreate(&array, &shape, 4));
  Must(cuMipmappedArrayGetLevel(&level, array, 1));
  CHECK(cuArrayDestroy(level) == CUDA_SUCCESS);  // it goes with the array
  CHECK(cuArray3DGetDescriptor_v2(&told, level) == CUDA_SUCCESS);
  Must(cuMipmappedArrayDestroy(array));
  CHECK(cuMipmappedArrayDestroy(array) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuMipmappedArrayGetLevel(&level, array, 0) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuArray3DGetDescriptor_v2(&told, level) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("reported: a memset of memory that is not the driver's is refused") {
  const Device device;
  std::vector<char> host(512);
  CHECK(cuMemsetD8_v2(AddressOf(host.data()), 0, 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8Async(AddressOf(host.data()), 0, 512, NewStream()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8_v2(0, 0, 512) == CUDA_ERROR_INVALID_VALUE);
}
