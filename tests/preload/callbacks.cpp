// A tool calls the driver back from inside every call of the driver, as a CUPTI callback may: it
// asks for memory, looks at it and frees it, while three threads do the same with larger blocks.
#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "standin.h"

namespace {

constexpr unsigned kSeconds = 100;  // who waits for itself is ended
constexpr int kThreads = 3;
constexpr int kRounds = 60;

thread_local bool called_back = false;
std::atomic<int> calls_back{0};
std::atomic<int> wrong{0};

void expect(bool holds, int line = __builtin_LINE()) {
  if (!holds) {
    ++wrong;
    std::fprintf(stderr, "callbacks.cpp:%d\n", line);
  }
}

void call_back(const standin_call* /*call*/) {
  if (called_back) {
    return;
  }
  called_back = true;
  ++calls_back;
  std::size_t bytes = 0;
  CUdeviceptr block = 0;
  CUdeviceptr base = 0;
  // Not in every call is a context current.
  if (cuMemGetInfo(&bytes, nullptr) == CUDA_SUCCESS && cuMemAlloc(&block, 3000) == CUDA_SUCCESS) {
    expect(cuMemGetAddressRange(&base, &bytes, block) == CUDA_SUCCESS);
    expect(base == block && bytes == 3000);
    expect(cuMemFree(block) == CUDA_SUCCESS);
  }
  called_back = false;
}

void work(CUcontext context) {
  CUstream stream = nullptr;
  expect(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  expect(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  for (int i = 0; i < kRounds; ++i) {
    const std::size_t bytes = i % 7 == 0 ? 20U << 20U : 5000U + 100U * static_cast<unsigned>(i);
    CUdeviceptr block = 0;
    expect(cuMemAlloc(&block, bytes) == CUDA_SUCCESS);
    expect(cuMemsetD8Async(block, 1, 5000, stream) == CUDA_SUCCESS);
    expect((i % 3 == 0 ? cuMemFreeAsync(block, stream) : cuMemFree(block)) == CUDA_SUCCESS);
    if (i % 10 == 0) {
      expect(cuMemAllocAsync(&block, 4096, stream) == CUDA_SUCCESS);
      expect(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
    }
  }
  expect(cuStreamDestroy(stream) == CUDA_SUCCESS);
}

}  // namespace

int main() {
  alarm(kSeconds);
  CUcontext context = nullptr;
  expect(cuInit(0) == CUDA_SUCCESS);
  expect(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  expect(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  standin_watch(&call_back);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(work, context);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  standin_watch(nullptr);
  expect(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  std::printf("%s, %d wrong\n", calls_back > kRounds ? "called back" : "not called back",
              wrong.load());
  return wrong == 0 ? 0 : 1;
}
