// Many threads through the wrappers at once. Run under ThreadSanitizer it proves more than it
// asserts.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <random>
#include <thread>

#include "shim/test_context.h"

using namespace cubfc::test;

TEST_CASE("eight threads allocate, write, check and free without disturbing each other") {
  const TestContext context;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      cuCtxSetCurrent(context.handle);
      CUstream stream = nullptr;
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      std::minstd_rand random(static_cast<unsigned>(number) + 1);
      for (int i = 0; i < 60; ++i) {
        const std::size_t bytes = 1 + random() % 100000;
        const auto value = static_cast<unsigned char>(number * 31 + i);
        CUdeviceptr block = 0;
        if (cuMemAlloc(&block, bytes) != CUDA_SUCCESS) {
          ++wrong;
          continue;
        }
        cuMemsetD8Async(block, value, bytes, stream);
        std::vector<unsigned char> data(bytes);
        cuMemcpyDtoHAsync(data.data(), block, bytes, stream);
        cuStreamSynchronize(stream);
        wrong += data != std::vector<unsigned char>(bytes, value);
        CUdeviceptr base = 0;
        wrong += cuMemGetAddressRange(&base, nullptr, block + bytes / 2) != CUDA_SUCCESS;
        wrong += base != block;
        wrong += cuMemFree(block) != CUDA_SUCCESS;
      }
      cuStreamDestroy_v2(stream);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  verify_arenas();
}

TEST_CASE("a block has one handle for other processes, whichever thread asks first", "[ipc]") {
  constexpr int kRounds = 100;
  constexpr int kThreads = 4;
  const TestContext context;
  CUdeviceptr block = 0;
  std::array<CUipcMemHandle, kThreads> handles{};
  std::atomic<int> wrong{0};
  std::barrier together(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      wrong += cuCtxSetCurrent(context.handle) != CUDA_SUCCESS;
      for (int round = 0; round < kRounds; ++round) {
        if (number == 0) {
          wrong += cuMemAlloc(&block, 4096) != CUDA_SUCCESS;
        }
        together.arrive_and_wait();
        wrong += cuIpcGetMemHandle(&handles[number], block) != CUDA_SUCCESS;
        together.arrive_and_wait();
        wrong += std::memcmp(&handles[number], handles.data(), sizeof(CUipcMemHandle)) != 0;
        together.arrive_and_wait();
        if (number == 0) {
          wrong += cuMemFree(block) != CUDA_SUCCESS;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
}

TEST_CASE("while one context is destroyed, the memory that another one left serves a third") {
  constexpr std::size_t kMost = std::size_t{150} << 20;
  const TestContext context;
  CUcontext idle = nullptr;
  must(cuCtxCreate_v2(&idle, 0, 0));
  must(cuMemFree(allocate(kMost)));
  CUcontext destroyed = nullptr;
  must(cuCtxCreate_v2(&destroyed, 0, 0));
  must(cuCtxSetCurrent(context.handle));
  std::thread other;
  {
    const HeldCalls held("cuCtxDestroy_v2");
    other = std::thread([&] { CHECK(cuCtxDestroy_v2(destroyed) == CUDA_SUCCESS); });
    held.wait();
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, kMost) == CUDA_SUCCESS);
  }
  other.join();
  must(cuCtxDestroy_v2(idle));
}

TEST_CASE("a context is not destroyed while a free on another thread waits for its work") {
  const TestContext context;
  const CUdeviceptr block = allocate(1 << 20);
  CUcontext destroyed = nullptr;
  must(cuCtxCreate_v2(&destroyed, 0, 0));
  allocate(4096);
  const HeldStream held;
  must(cuMemsetD8Async(block, 1, 1 << 20, held.stream));
  std::atomic<bool> over{false};
  std::thread freeing([&] {
    CHECK(cuCtxSetCurrent(context.handle) == CUDA_SUCCESS);
    CHECK(cuMemFree(block) == CUDA_SUCCESS);
    over = true;
  });
  wait_until_a_call_waits(over);
  std::atomic<pid_t> destroying_thread{0};
  std::thread destroying([&] {
    destroying_thread = gettid();
    CHECK(cuCtxDestroy_v2(destroyed) == CUDA_SUCCESS);
  });
  wait_until_asleep(destroying_thread);
  standin_release_stream(held.stream);
  freeing.join();
  destroying.join();
  must(cuCtxSetCurrent(context.handle));
  must(cuMemFree(allocate(1 << 20)));
  verify_arenas();
}
