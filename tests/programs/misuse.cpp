// Every misuse of the allocation functions, and what the driver answers, line by line. A
// sub-allocator between the program and the driver must give the same lines.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "driver.h"

namespace {

using programs::Driver;
using programs::print_result;
using programs::print_truth;

constexpr std::size_t kBytes = 100000;
constexpr std::uintptr_t kGarbage = 0xdeadbeef000;

CUdeviceptr allocate(const Driver& driver, std::size_t bytes) {
  CUdeviceptr block = 0;
  programs::must(driver, "cuMemAlloc", driver.cuMemAlloc(&block, bytes));
  return block;
}

CUdeviceptr address_of(const void* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

void without_context(const Driver& driver, const char* when) {
  const std::string suffix = std::string(" ") + when;
  CUdeviceptr block = 0;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  std::size_t pitch = 0;
  print_result(driver, "cuMemAlloc" + suffix, driver.cuMemAlloc(&block, kBytes));
  print_result(driver, "cuMemAllocPitch" + suffix,
               driver.cuMemAllocPitch(&block, &pitch, 100, 10, 4));
  print_result(driver, "cuMemFree of garbage" + suffix, driver.cuMemFree(kGarbage));
  print_result(driver, "cuMemGetInfo" + suffix, driver.cuMemGetInfo(&free_bytes, &total_bytes));
  print_result(driver, "cuMemGetAddressRange" + suffix,
               driver.cuMemGetAddressRange(&block, &total_bytes, kGarbage));
}

void allocations(const Driver& driver) {
  CUdeviceptr block = 0;
  std::size_t total_bytes = 0;
  programs::must(driver, "cuDeviceTotalMem", driver.cuDeviceTotalMem(&total_bytes, 0));
  print_result(driver, "cuMemAlloc of 0 bytes", driver.cuMemAlloc(&block, 0));
  print_result(driver, "cuMemAlloc above the device", driver.cuMemAlloc(&block, total_bytes + 1));
  print_result(driver, "cuMemAlloc of all addresses", driver.cuMemAlloc(&block, SIZE_MAX));
  print_result(driver, "cuMemAlloc near all addresses", driver.cuMemAlloc(&block, SIZE_MAX - 600));
  print_result(driver, "cuMemAlloc without an output", driver.cuMemAlloc(nullptr, kBytes));
  print_result(driver, "cuMemAlloc after all that", driver.cuMemAlloc(&block, kBytes));
  print_result(driver, "cuMemFree of it", driver.cuMemFree(block));
}

void pitched(const Driver& driver) {
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  for (const std::size_t width : {1UL, 500UL, 513UL, 100000UL}) {
    print_result(driver, "cuMemAllocPitch", driver.cuMemAllocPitch(&block, &pitch, width, 7, 4));
    std::printf("width %zu: pitch %zu, address mod 512 is %llu\n", width, pitch,
                static_cast<unsigned long long>(block % 512));
    print_result(driver, "cuMemFree of it", driver.cuMemFree(block));
  }
  print_result(driver, "cuMemAllocPitch of elements of 3",
               driver.cuMemAllocPitch(&block, &pitch, 100, 7, 3));
  print_result(driver, "cuMemAllocPitch of width 0",
               driver.cuMemAllocPitch(&block, &pitch, 0, 7, 4));
  print_result(driver, "cuMemAllocPitch of height 0",
               driver.cuMemAllocPitch(&block, &pitch, 100, 0, 4));
  print_result(driver, "cuMemAllocPitch above the device",
               driver.cuMemAllocPitch(&block, &pitch, std::size_t{1} << 40U, 1U << 20U, 4));
  print_result(driver, "cuMemAllocPitch without outputs",
               driver.cuMemAllocPitch(nullptr, nullptr, 100, 7, 4));
}

void frees(const Driver& driver) {
  const int on_stack = 0;
  void* pinned = nullptr;
  programs::must(driver, "cuMemAllocHost", driver.cuMemAllocHost(&pinned, kBytes));
  const CUdeviceptr block = allocate(driver, kBytes);
  print_result(driver, "cuMemFree of 0", driver.cuMemFree(0));
  print_result(driver, "cuMemFree of garbage", driver.cuMemFree(kGarbage));
  print_result(driver, "cuMemFree of a host pointer", driver.cuMemFree(address_of(&on_stack)));
  print_result(driver, "cuMemFree of a pinned host pointer", driver.cuMemFree(address_of(pinned)));
  print_result(driver, "cuMemFree one byte in", driver.cuMemFree(block + 1));
  print_result(driver, "cuMemFree in the middle", driver.cuMemFree(block + kBytes / 2));
  print_result(driver, "cuMemFree of the last byte", driver.cuMemFree(block + kBytes - 1));
  print_result(driver, "cuMemFree of the block", driver.cuMemFree(block));
  print_result(driver, "cuMemFree of it once more", driver.cuMemFree(block));
  print_result(driver, "cuMemFreeHost", driver.cuMemFreeHost(pinned));
}

void address_range(const Driver& driver, const char* what, CUdeviceptr asked, CUdeviceptr block) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUresult result = driver.cuMemGetAddressRange(&base, &bytes, asked);
  print_result(driver, std::string("range of ") + what, result);
  if (result == CUDA_SUCCESS) {
    print_truth("  the base is the block's", base == block);
    std::printf("  size %zu\n", bytes);
  }
}

void address_ranges(const Driver& driver) {
  const int on_stack = 0;
  const CUdeviceptr block = allocate(driver, kBytes);
  const CUdeviceptr next = allocate(driver, kBytes);
  address_range(driver, "a block", block, block);
  address_range(driver, "an interior pointer", block + kBytes / 2, block);
  address_range(driver, "a last byte", block + kBytes - 1, block);
  address_range(driver, "the next block", next, next);
  address_range(driver, "a host pointer", address_of(&on_stack), 0);
  address_range(driver, "garbage", kGarbage, 0);
  print_result(driver, "range without outputs",
               driver.cuMemGetAddressRange(nullptr, nullptr, block));
  programs::must(driver, "cuMemFree", driver.cuMemFree(block));
  address_range(driver, "a freed block", block, 0);
  address_range(driver, "a freed block's interior", block + kBytes / 2, 0);
  programs::must(driver, "cuMemFree", driver.cuMemFree(next));
}

void attributes(const Driver& driver, const char* what, CUdeviceptr asked, CUdeviceptr block) {
  CUmemorytype type{};
  print_result(driver, std::string("memory type of ") + what,
               driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, asked));
  CUdeviceptr start = 0;
  const CUresult result =
      driver.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, asked);
  print_result(driver, "  start", result);
  std::size_t bytes = 0;
  print_result(driver, "  size",
               driver.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, asked));
  if (result == CUDA_SUCCESS && block != 0) {
    std::printf("  type %u, size %zu\n", static_cast<unsigned>(type), bytes);
    print_truth("  the start is the block's", start == block);
    CUdeviceptr device_pointer = 0;
    print_result(
        driver, "  device pointer",
        driver.cuPointerGetAttribute(&device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, asked));
    print_truth("  the device pointer is what was asked for", device_pointer == asked);
    CUcontext owner = nullptr;
    CUcontext current = nullptr;
    driver.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, asked);
    driver.cuCtxGetCurrent(&current);
    // Memory that is mapped, which cubfc may serve, is no context's to the driver.
    print_truth("  the context is the current one, or none", owner == current || owner == nullptr);
    int ordinal = -1;
    driver.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, asked);
    unsigned managed = 7;
    driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, asked);
    std::printf("  device %d, managed %u\n", ordinal, managed & 0xffU);
  }
}

void attributes_at_once(const Driver& driver, const char* what, CUdeviceptr asked) {
  CUmemorytype type{};
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  std::array wanted{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                    CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 3> outputs{&type, &start, &bytes};
  print_result(driver, std::string("attributes at once of ") + what,
               driver.cuPointerGetAttributes(static_cast<unsigned>(wanted.size()), wanted.data(),
                                             outputs.data(), asked));
  std::printf("  type %u, start known: %s, size %zu\n", static_cast<unsigned>(type),
              start != 0 ? "yes" : "no", bytes);
}

void pointer_attributes(const Driver& driver) {
  const int on_stack = 0;
  const CUdeviceptr block = allocate(driver, kBytes);
  const CUdeviceptr next = allocate(driver, kBytes);
  attributes(driver, "a block", block, block);
  attributes(driver, "an interior pointer", block + kBytes / 2, block);
  attributes(driver, "a host pointer", address_of(&on_stack), 0);
  attributes(driver, "garbage", kGarbage, 0);
  attributes_at_once(driver, "a block", block);
  attributes_at_once(driver, "a host pointer", address_of(&on_stack));
  unsigned long long id = 0;
  unsigned long long interior_id = 0;
  unsigned long long next_id = 0;
  driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block);
  driver.cuPointerGetAttribute(&interior_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block + 1);
  driver.cuPointerGetAttribute(&next_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, next);
  print_truth("one buffer id for a block", id == interior_id);
  print_truth("two buffer ids for two blocks", id != next_id);
  programs::must(driver, "cuMemFree", driver.cuMemFree(block));
  attributes(driver, "a freed block", block, 0);
  attributes_at_once(driver, "a freed block", block);
  const CUdeviceptr again = allocate(driver, kBytes);
  unsigned long long again_id = 0;
  driver.cuPointerGetAttribute(&again_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, again);
  print_truth("a new buffer id for memory that is used again",
              again_id != id && again_id != next_id);
  programs::must(driver, "cuMemFree", driver.cuMemFree(again));
  programs::must(driver, "cuMemFree", driver.cuMemFree(next));
}

void memory_info(const Driver& driver) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  print_result(driver, "cuMemGetInfo without free", driver.cuMemGetInfo(nullptr, &total_bytes));
  print_result(driver, "cuMemGetInfo without total", driver.cuMemGetInfo(&free_bytes, nullptr));
  print_result(driver, "cuMemGetInfo without outputs", driver.cuMemGetInfo(nullptr, nullptr));
  print_truth("free is within the total", free_bytes <= total_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const Driver driver = programs::open_driver(programs::take_via(argc, argv));
  without_context(driver, "before cuInit");
  programs::must(driver, "cuInit", driver.cuInit(0));
  without_context(driver, "without a context");
  programs::use_device(driver, 0);
  allocations(driver);
  pitched(driver);
  frees(driver);
  address_ranges(driver);
  pointer_attributes(driver);
  memory_info(driver);
  return 0;
}
