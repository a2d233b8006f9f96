// Green contexts use the memory of their device's primary context.
#include <thread>

#include "shim/test_context.h"

#if CUDA_VERSION >= 12050

using namespace cubfc::test;

namespace {

// Current on this thread while it lives.
class GreenContext {
 public:
  GreenContext() {
    CUdevResource all{};
    must(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CUdevResourceDesc description = nullptr;
    must(cuDevResourceGenerateDesc(&description, &all, 1));
    must(cuGreenCtxCreate(&green_, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    must(cuCtxFromGreenCtx(&handle, green_));
    must(cuCtxPushCurrent(handle));
    must(cuGreenCtxStreamCreate(&stream, green_, CU_STREAM_NON_BLOCKING, 0));
  }
  ~GreenContext() {
    cuCtxPopCurrent(nullptr);
    cuStreamDestroy_v2(stream);
    cuGreenCtxDestroy(green_);
  }
  GreenContext(const GreenContext&) = delete;
  GreenContext& operator=(const GreenContext&) = delete;

  CUcontext handle = nullptr;
  CUstream stream = nullptr;

 private:
  CUgreenCtx green_ = nullptr;
};

// That have an arena, or blocks in their device's own pool.
std::size_t contexts_with_memory() {
  std::size_t count = 0;
  auto* process = cubfc::Process::active();
  for (auto* each = process->contexts().first(); each != nullptr; each = each->next) {
    count += each->alive() && each->headroom().peak_in_use > 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("memory allocated in a green context outlives it, and is the primary context's") {
  const TestContext primary;
  const CUdeviceptr before = allocate(4096);
  CUdeviceptr inside = 0;
  {
    const GreenContext green;
    inside = allocate(4096);
    must(cuMemsetD8(inside, 7, 4096));
    must(cuMemFree(before));
    CHECK(contexts_with_memory() == 1);
  }
  CHECK(read(inside, 4096) == std::vector<unsigned char>(4096, 7));
  must(cuMemFree(inside));
  CHECK(cuMemFree(inside) == CUDA_ERROR_INVALID_VALUE);
  verify_arenas();
}

TEST_CASE("a block that a green context's stream uses is not handed out") {
  const TestContext primary;
  const GreenContext green;
  must(cuCtxPushCurrent(primary.handle));
  const CUdeviceptr block = allocate(4096);
  const CUdeviceptr target = allocate(4096);
  must(cuMemsetD8(block, 1, 4096));
  REQUIRE(standin_hold_stream(green.stream) == 1);
  must(cuCtxPushCurrent(green.handle));
  must(cuMemcpyDtoDAsync(target, block, 4096, green.stream));
  must(cuCtxPopCurrent(nullptr));
  std::thread other([&] {
    must(cuCtxSetCurrent(primary.handle));
    CHECK(cuMemFree(block) == CUDA_SUCCESS);
  });
  for (int i = 0; i < 64; ++i) {
    must(cuMemsetD8Async(allocate(4096), 2, 4096, CU_STREAM_PER_THREAD));
  }
  must(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  standin_release_stream(green.stream);
  other.join();
  must(cuStreamSynchronize(green.stream));
  CHECK(read(target, 4096) == std::vector<unsigned char>(4096, 1));
  must(cuCtxPopCurrent(nullptr));
}

TEST_CASE("the last reference to the primary context may be a green context's") {
  CUdeviceptr block = 0;
  {
    must(cuInit(0));
    const GreenContext green;
    block = allocate(1 << 20);
  }
  const TestContext again;
  CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allocate(1 << 20) != 0);
  verify_arenas();
}

#endif
