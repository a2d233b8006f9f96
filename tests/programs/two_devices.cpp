// Two devices: copies that one device's stream makes from and to the other's blocks, the host's
// bytes included; and a device that works near its edge while the other one captures. Prints what
// the driver answers, and no address. Ends with status 77 where there is one device.
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "driver.h"
#include "pattern.h"

namespace {

using programs::Driver;
using programs::must;
using programs::print_result;
using programs::print_truth;

constexpr std::size_t kBytes = 300000;

CUcontext context_of(const Driver& driver, int ordinal) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  must(driver, "cuDeviceGet", driver.cuDeviceGet(&device, ordinal));
  must(driver, "cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&context, device));
  return context;
}

CUdeviceptr allocate(const Driver& driver, CUcontext context, std::uint32_t seed) {
  CUdeviceptr block = 0;
  must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(context));
  must(driver, "cuMemAlloc", driver.cuMemAlloc(&block, kBytes));
  programs::write_pattern(driver, block, kBytes, seed);
  return block;
}

// Prints the answer to a copy, and whether it has made these bytes of `block`.
void print_copied(const Driver& driver, const char* what, CUresult result, CUcontext owner,
                  CUdeviceptr block, std::uint32_t seed) {
  print_result(driver, what, result);
  if (result == CUDA_SUCCESS) {
    CUcontext before = nullptr;
    must(driver, "cuCtxGetCurrent", driver.cuCtxGetCurrent(&before));
    must(driver, "cuCtxSynchronize", driver.cuCtxSynchronize());
    must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(owner));
    print_truth(std::string(what) + ", the bytes are there",
                programs::count_mismatches(driver, block, kBytes, seed) == 0);
    must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(before));
  }
}

CUDA_MEMCPY2D rows_of(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY2D rows{};
  rows.dstMemoryType = rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = to;
  rows.srcDevice = from;
  rows.WidthInBytes = rows.dstPitch = rows.srcPitch = 1000;
  rows.Height = kBytes / 1000;
  return rows;
}

// All by the second device's streams.
void copies(const Driver& driver, CUcontext first, CUcontext second) {
  const CUdeviceptr far = allocate(driver, first, 1);
  const CUdeviceptr near = allocate(driver, second, 2);
  CUstream stream = nullptr;
  must(driver, "cuStreamCreate", driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  print_copied(driver, "copy from the other device", driver.cuMemcpyDtoD(near, far, kBytes), second,
               near, 1);
  programs::write_pattern(driver, near, kBytes, 3);
  print_copied(driver, "copy to the other device, in a stream",
               driver.cuMemcpyDtoDAsync(far, near, kBytes, stream), first, far, 3);
  programs::write_pattern(driver, near, kBytes, 4);
  const CUDA_MEMCPY2D to_far = rows_of(far, near);
  print_copied(driver, "copy rows to the other device", driver.cuMemcpy2D(&to_far), first, far, 4);
  const CUDA_MEMCPY2D to_near = rows_of(near, far);
  programs::write_pattern(driver, near, kBytes, 5);
  print_copied(driver, "copy rows from the other device, in a stream",
               driver.cuMemcpy2DAsync(&to_near, stream), second, near, 4);

  std::vector<unsigned char> host(kBytes);
  must(driver, "cuMemcpyDtoH", driver.cuMemcpyDtoH(host.data(), near, kBytes));
  programs::write_pattern(driver, near, kBytes, 6);
  print_copied(driver, "copy from the host to the other device",
               driver.cuMemcpyHtoD(far, host.data(), kBytes), first, far, 4);
  std::vector<unsigned char> back(kBytes);
  const CUresult result = driver.cuMemcpyDtoH(back.data(), far, kBytes);
  print_result(driver, "copy from the other device to the host", result);
  print_truth("the host has the bytes", result != CUDA_SUCCESS || back == host);
  must(driver, "cuStreamSynchronize", driver.cuStreamSynchronize(stream));
  must(driver, "cuStreamDestroy", driver.cuStreamDestroy(stream));
  print_result(driver, "free the other device's block", driver.cuMemFree(far));
  print_result(driver, "free", driver.cuMemFree(near));
}

// More than half of the device again and again, freed while a stream still writes to it.
CUresult work_near_the_edge(const Driver& driver, CUcontext context) {
  CUresult worst = driver.cuCtxSetCurrent(context);
  const auto note = [&](CUresult result) { worst = worst == CUDA_SUCCESS ? result : worst; };
  CUstream stream = nullptr;
  std::size_t available = 0;
  std::size_t total = 0;
  note(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  note(driver.cuMemGetInfo(&available, &total));
  const std::size_t most = total / 8 * 5;
  for (int round = 0; round < 8 && worst == CUDA_SUCCESS; ++round) {
    CUdeviceptr block = 0;
    note(driver.cuMemAlloc(&block, most));
    if (worst == CUDA_SUCCESS) {
      note(driver.cuMemsetD8Async(block, 1, 4096, stream));
      note(driver.cuMemFree(block));
    }
  }
  note(driver.cuStreamSynchronize(stream));
  note(driver.cuStreamDestroy(stream));
  return worst;
}

void capture_beside(const Driver& driver, CUcontext first, CUcontext second,
                    CUstreamCaptureMode mode, const char* name) {
  const CUdeviceptr block = allocate(driver, first, 1);
  CUstream stream = nullptr;
  must(driver, "cuStreamCreate", driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(driver, "cuStreamBeginCapture", driver.cuStreamBeginCapture(stream, mode));
  must(driver, "cuMemsetD8Async", driver.cuMemsetD8Async(block, 1, kBytes, stream));
  CUresult worked = CUDA_SUCCESS;
  std::thread([&] { worked = work_near_the_edge(driver, second); }).join();
  print_result(driver, std::string("work beside a capture of the other device, ") + name, worked);
  CUgraph graph = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(stream, &graph);
  print_result(driver, std::string("the end of that capture, ") + name, ended);
  if (graph != nullptr) {
    must(driver, "cuGraphDestroy", driver.cuGraphDestroy(graph));
  }
  must(driver, "cuStreamDestroy", driver.cuStreamDestroy(stream));
  print_result(driver, "free", driver.cuMemFree(block));
}

}  // namespace

int main(int argc, char** argv) {
  const Driver driver = programs::open_driver(programs::take_via(argc, argv));
  must(driver, "cuInit", driver.cuInit(0));
  int devices = 0;
  must(driver, "cuDeviceGetCount", driver.cuDeviceGetCount(&devices));
  if (devices < 2) {
    std::fprintf(stderr, "needs two devices\n");
    return 77;
  }
  const CUcontext first = context_of(driver, 0);
  const CUcontext second = context_of(driver, 1);
  copies(driver, first, second);
  capture_beside(driver, first, second, CU_STREAM_CAPTURE_MODE_GLOBAL, "global");
  capture_beside(driver, first, second, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread-local");
  capture_beside(driver, first, second, CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed");
  return 0;
}
