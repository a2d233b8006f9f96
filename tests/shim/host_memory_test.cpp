// The host has no memory left, at every place in turn: the program gets an error and no more, what
// was not freed can be freed again, and nothing is handed out twice.
#include "shim/host_allocations.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

// How many more allocations of this thread succeed.
thread_local long left = 0;

bool one_less() {
  left = left > 0 ? left - 1 : -1;  // all that follow fail, too
  return left >= 0;
}

// Makes a call with so many allocations to spare. The second: it needed more.
std::pair<CUresult, bool> call_with(long spare, const auto& call) {
  left = spare;
  may_allocate = one_less;
  const CUresult result = call();
  may_allocate = nullptr;
  return {result, left < 0};
}

// Calls with 0, 1, 2 … allocations to spare, until one needs no more. True if some call failed.
template <typename Call>
bool with_too_little_memory(Call call) {
  bool failed = false;
  for (long spare = 0; spare < 200; ++spare) {
    const auto [result, ran_out] = call_with(spare, call);
    CHECK((result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY));
    failed = failed || result != CUDA_SUCCESS;
    if (!ran_out) {
      return failed;
    }
  }
  FAIL("it never had enough");
  return failed;
}

}  // namespace

TEST_CASE("an allocation for which the host has no memory fails, or does without") {
  const TestContext context;
  std::vector<CUdeviceptr> blocks;
  blocks.reserve(10'000);
  for (const std::size_t bytes : {std::size_t{700}, std::size_t{5} << 20}) {
    with_too_little_memory([&] {
      CUdeviceptr block = 0;
      const CUresult result = cuMemAlloc(&block, bytes);
      if (result == CUDA_SUCCESS) {
        blocks.push_back(block);
      } else {
        CHECK(block == 0);
      }
      return result;
    });
  }
  for (const CUdeviceptr block : blocks) {
    must(cuMemFree(block));
  }
  verify_arenas();
}

TEST_CASE("a free for which the host has no memory has happened, or can be tried again",
          "[stream_ordered]") {
  const TestContext context;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (const bool ordered_allocation : {false, true}) {
    for (const bool ordered_free : {false, true}) {
      INFO("stream-ordered: allocation " << ordered_allocation << ", free " << ordered_free);
      // Many, so that the lists of what waits must grow.
      std::vector<CUdeviceptr> blocks(300);
      for (CUdeviceptr& block : blocks) {
        must(ordered_allocation ? cuMemAllocAsync(&block, 4096, stream) : cuMemAlloc(&block, 4096));
      }
      const auto free = [&](CUdeviceptr block) {
        return ordered_free ? cuMemFreeAsync(block, stream) : cuMemFree(block);
      };
      for (const CUdeviceptr block : blocks) {
        const auto [result, ran_out] =
            call_with(static_cast<long>(block / 512 % 3), [&] { return free(block); });
        CHECK((result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY));
        CHECK((free(block) == CUDA_SUCCESS) == (result != CUDA_SUCCESS));
      }
      verify_arenas();
    }
  }
}

TEST_CASE("every other call for which the host has no memory fails cleanly") {
  const TestContext context;
  const CUdeviceptr block = allocate(4096);
  with_too_little_memory([&] {
    CUdeviceptr base = 0;
    return cuMemGetAddressRange(&base, nullptr, block);
  });
  with_too_little_memory([&] {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    return cuMemGetInfo(&free_bytes, &total_bytes);
  });
  with_too_little_memory([&] {
    CUcontext other = nullptr;
    const CUresult created = cuCtxCreate_v2(&other, 0, 0);
    if (created != CUDA_SUCCESS) {
      return created;
    }
    CUdeviceptr of_other = 0;
    const CUresult result = cuMemAlloc(&of_other, 4096);
    CHECK(cuCtxDestroy_v2(other) == CUDA_SUCCESS);
    return result;
  });
  must(cuCtxSetCurrent(context.handle));
  must(cuMemFree(block));
  verify_arenas();
}

TEST_CASE("a handle for other processes for which the host has no memory is none", "[ipc]") {
  const TestContext context;
  const CUdeviceptr block = allocate(4096);
  with_too_little_memory([&] {
    CUipcMemHandle handle{};
    return cuIpcGetMemHandle(&handle, block);
  });
  must(cuMemFree(block));
}
