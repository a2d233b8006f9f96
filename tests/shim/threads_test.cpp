// Many threads through the wrappers at once. Run under ThreadSanitizer it proves more than it
// asserts.
#include <atomic>
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
