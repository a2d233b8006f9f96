// Several contexts, devices and threads: where memory belongs, who may free it, and what goes with
// a context that is destroyed or reset. Prints what the driver answers, and no address.
#include <cstdio>
#include <string>
#include <thread>

#include "driver.h"
#include "pattern.h"

namespace {

using programs::Driver;
using programs::must;
using programs::print_result;
using programs::print_truth;

constexpr std::size_t kBytes = 3000000;

CUdeviceptr allocate(const Driver& driver, std::uint32_t seed) {
  CUdeviceptr block = 0;
  must(driver, "cuMemAlloc", driver.cuMemAlloc(&block, kBytes));
  programs::write_pattern(driver, block, kBytes, seed);
  return block;
}

void verify(const Driver& driver, CUdeviceptr block, std::uint32_t seed) {
  std::printf("wrong bytes: %zu\n", programs::count_mismatches(driver, block, kBytes, seed));
}

// Memory that is mapped, which cubfc may serve, is no context's to the driver.
bool is_of(const Driver& driver, CUcontext context, CUdeviceptr block) {
  CUcontext owner = nullptr;
  must(driver, "cuPointerGetAttribute",
       driver.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block));
  return owner == context || owner == nullptr;
}

void two_contexts(const Driver& driver, CUcontext primary) {
  CUcontext second = nullptr;
  must(driver, "cuCtxCreate", driver.create_context(&second, 0, 0));
  const CUdeviceptr of_second = allocate(driver, 1);
  must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(primary));
  const CUdeviceptr of_primary = allocate(driver, 2);
  print_truth("each block belongs to the context that was current",
              is_of(driver, second, of_second) && is_of(driver, primary, of_primary));
  verify(driver, of_primary, 2);
  verify(driver, of_second, 1);
  print_result(driver, "free from another context", driver.cuMemFree(of_second));
  print_result(driver, "and once more", driver.cuMemFree(of_second));
  print_result(driver, "free from its own", driver.cuMemFree(of_primary));

  must(driver, "cuCtxPushCurrent", driver.cuCtxPushCurrent(second));
  const CUdeviceptr left = allocate(driver, 3);
  CUcontext popped = nullptr;
  must(driver, "cuCtxPopCurrent", driver.cuCtxPopCurrent(&popped));
  print_truth("the stack of contexts is in order", popped == second);
  print_result(driver, "destroy of a context with a live block", driver.cuCtxDestroy(second));
  CUdeviceptr start = 0;
  print_result(driver, "attribute of its block",
               driver.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, left));
  print_result(driver, "free of its block", driver.cuMemFree(left));
}

void other_thread(const Driver& driver, CUcontext primary) {
  const CUdeviceptr first = allocate(driver, 4);
  const CUdeviceptr second = allocate(driver, 5);
  std::thread([&] {
    print_result(driver, "free from a thread with the context",
                 (driver.cuCtxSetCurrent(primary), driver.cuMemFree(first)));
  }).join();
  std::thread([&] {
    const CUresult result = driver.cuMemFree(second);
    print_result(driver, "free from a thread without a context", result);
    if (result != CUDA_SUCCESS) {
      must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(primary));
      print_result(driver, "and with one", driver.cuMemFree(second));
    }
  }).join();
}

void reset(const Driver& driver, CUdevice device) {
  const CUdeviceptr block = allocate(driver, 6);
  print_result(driver, "reset of the primary context", driver.cuDevicePrimaryCtxReset(device));
  unsigned flags = 0;
  int active = 7;
  must(driver, "cuDevicePrimaryCtxGetState",
       driver.cuDevicePrimaryCtxGetState(device, &flags, &active));
  std::printf("active after the reset: %d\n", active);
  must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(nullptr));
  CUcontext context = nullptr;
  must(driver, "cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&context, device));
  must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(context));
  CUdeviceptr start = 0;
  print_result(driver, "attribute of a block from before",
               driver.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block));
  print_result(driver, "free of a block from before", driver.cuMemFree(block));
  const CUdeviceptr fresh = allocate(driver, 7);
  verify(driver, fresh, 7);
  print_result(driver, "free after the reset", driver.cuMemFree(fresh));
}

void released_and_retained(const Driver& driver, CUdevice device) {
  for (std::uint32_t round = 0; round < 3; ++round) {
    const CUdeviceptr block = allocate(driver, 20 + round);
    verify(driver, block, 20 + round);
    // The block is not freed: it goes with the context.
    unsigned flags = 0;
    int active = 1;
    int releases = 0;
    while (active != 0) {
      must(driver, "cuDevicePrimaryCtxRelease", driver.cuDevicePrimaryCtxRelease(device));
      must(driver, "cuDevicePrimaryCtxGetState",
           driver.cuDevicePrimaryCtxGetState(device, &flags, &active));
      ++releases;
    }
    std::printf("inactive after %d release%s\n", releases, releases == 1 ? "" : "s");
    must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(nullptr));
    CUcontext context = nullptr;
    must(driver, "cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&context, device));
    must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(context));
  }
}

void second_device(const Driver& driver, CUcontext first) {
  int devices = 0;
  must(driver, "cuDeviceGetCount", driver.cuDeviceGetCount(&devices));
  print_truth("there is a second device", devices > 1);
  if (devices < 2) {
    return;
  }
  const CUdeviceptr here = allocate(driver, 8);
  programs::use_device(driver, 1);
  const CUdeviceptr there = allocate(driver, 9);
  int ordinal = -1;
  must(driver, "cuPointerGetAttribute",
       driver.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
  std::printf("device of a block on the second one: %d\n", ordinal);
  verify(driver, here, 8);
  verify(driver, there, 9);
  print_result(driver, "free of the first device's block from the second", driver.cuMemFree(here));
  must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(first));
  print_result(driver, "free of the second device's block from the first", driver.cuMemFree(there));
}

}  // namespace

int main(int argc, char** argv) {
  const Driver driver = programs::open_driver(programs::take_via(argc, argv));
  CUcontext const primary = programs::use_device(driver, 0);
  two_contexts(driver, primary);
  other_thread(driver, primary);
  second_device(driver, primary);
  reset(driver, 0);
  released_and_retained(driver, 0);
  return 0;
}
