// What a card answers about contexts, devices and streams.
#include <cuda.h>

#include "card_test.h"
#include "reported_test.h"

using namespace standin_test;

namespace {

// The card's; set before the first device is asked for.
[[maybe_unused]] const int kIsSuchACard = standin_configure("STANDIN_CAPABILITY", "8.6");

unsigned FlagsOfCurrent() {
  unsigned flags = 99;
  CHECK(cuCtxGetFlags(&flags) == CUDA_SUCCESS);
  return flags;
}

unsigned FlagsOfPrimary() {
  unsigned flags = 99;
  int active = 0;
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
  return flags;
}

std::size_t LimitOf(int limit) {
  std::size_t value = 99;
  CHECK(cuCtxGetLimit(&value, Numbered<CUlimit>(limit)) == CUDA_SUCCESS);
  return value;
}

CUresult SetLimit(int limit, std::size_t value) {
  return cuCtxSetLimit(Numbered<CUlimit>(limit), value);
}

CUresult AskLimit(int limit) {
  std::size_t value = 0;
  return cuCtxGetLimit(&value, Numbered<CUlimit>(limit));
}

int AttributeOf(int attribute) {
  int value = 99;
  CHECK(cuDeviceGetAttribute(&value, Numbered<CUdevice_attribute>(attribute), 0) == CUDA_SUCCESS);
  return value;
}

}  // namespace

TEST_CASE("a card's answers: no context where one must be named") {
  const Device device;
  const CUevent event = NewEvent();
  CUgraph graph = nullptr;
  Must(cuGraphCreate(&graph, 0));
  CheckAnswers({
    {"push", kValue, [] { return cuCtxPushCurrent_v2(nullptr); }},
        {"record an event", kContext, [&] { return cuCtxRecordEvent(nullptr, event); }},
        {"wait for an event", kContext, [&] { return cuCtxWaitEvent(nullptr, event); }},
        {"synchronize", kFine, [] { return cuCtxSynchronize_v2(nullptr); }},
        {"enable peer access", kValue, [] { return cuCtxEnablePeerAccess(nullptr, 0); }},
        {"disable peer access", kValue, [] { return cuCtxDisablePeerAccess(nullptr); }},
#if CUDA_VERSION >= 12030
        {"a condition", kContext, [&] {
           CUgraphConditionalHandle handle = 0;
           return cuGraphConditionalHandleCreate(&handle, graph, nullptr, 0, 0);
         }},
#endif
  });
}

TEST_CASE("a card's answers: flags of contexts") {
  const Device device;
  for (const unsigned flags : {0U, 1U, 2U, 4U, 8U, 9U, 0xcU, 0x10U, 0x80U, 0x98U}) {
    INFO(flags);
    CUcontext made = nullptr;
    REQUIRE(cuCtxCreate_v2(&made, flags, 0) == CUDA_SUCCESS);
    CHECK(FlagsOfCurrent() == flags);
    CHECK(cuCtxDestroy_v2(made) == CUDA_SUCCESS);
  }
  for (const unsigned flags : {3U, 5U, 6U, 7U, 0x100U, 0x2000U, 0xffffU, 0xfeU}) {
    INFO(flags);
    CUcontext made = nullptr;
    CHECK(cuCtxCreate_v2(&made, flags, 0) == CUDA_ERROR_INVALID_VALUE);
  }
  CUcontext made = nullptr;
  Must(cuCtxCreate_v2(&made, 0, 0));
  CHECK(cuCtxSetFlags(CU_CTX_MAP_HOST) == CUDA_SUCCESS);
  CHECK(FlagsOfCurrent() == 0);
  CHECK(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS) == CUDA_SUCCESS);
  CHECK(cuCtxSetFlags(3) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxSetFlags(0x100) == CUDA_ERROR_INVALID_VALUE);
  CHECK(FlagsOfCurrent() == CU_CTX_SYNC_MEMOPS);
  Must(cuCtxDestroy_v2(made));
}

TEST_CASE("a card's answers: flags of primary contexts") {
  const Device device;
  unsigned flags = 0;
  int active = 0;
  CHECK(cuDevicePrimaryCtxGetState(0, nullptr, &active) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, nullptr) == CUDA_ERROR_INVALID_VALUE);
  for (const unsigned good : {0U, 1U, 4U, 0x10U, 0x80U, 0x30U, 0xf0U, 0x90U}) {
    INFO(good);
    CHECK(cuDevicePrimaryCtxSetFlags_v2(0, good) == CUDA_SUCCESS);
    CHECK(FlagsOfPrimary() == good);
    CHECK(FlagsOfCurrent() == (good | CU_CTX_MAP_HOST));
  }
  for (const unsigned bad : {8U, 5U, 0xcU, 0x18U, 3U, 0xffU, 0x100U}) {
    INFO(bad);
    CHECK(cuDevicePrimaryCtxSetFlags_v2(0, bad) == CUDA_ERROR_INVALID_VALUE);
    CHECK(FlagsOfPrimary() == 0x90);
  }
  Must(cuDevicePrimaryCtxReset_v2(0));
  CHECK(FlagsOfPrimary() == 0);
}

TEST_CASE("a card's answers: a part of the multiprocessors") {
  const Device device;
  CUexecAffinityParam part{};
  part.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
  part.param.smCount.val = 8;
  CUcontext made = nullptr;
  CheckAnswers({
    {"a context with 8", CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
     [&] { return cuCtxCreate_v3(&made, &part, 1, 0, 0); }},
        {"parameters, but none", kValue, [&] { return cuCtxCreate_v3(&made, &part, 0, 0, 0); }},
        {"ask nowhere", kValue,
         [] { return cuCtxGetExecAffinity(nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT); }},
        {"ask another kind", CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
         [&] { return cuCtxGetExecAffinity(&part, Numbered<CUexecAffinityType>(9)); }},
        {"ask", kFine, [&] { return cuCtxGetExecAffinity(&part, CU_EXEC_AFFINITY_TYPE_SM_COUNT); }},
#if CUDA_VERSION >= 12050
        {"a context with 8, by its parameters", CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, [&] {
           CUctxCreateParams parameters{};
           parameters.execAffinityParams = &part;
           parameters.numExecAffinityParams = 1;
           return cuCtxCreate_v4(&made, &parameters, 0, 0);
         }},
#endif
  });
  CHECK(part.param.smCount.val ==
        static_cast<unsigned>(AttributeOf(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)));
}

TEST_CASE("a card's answers: limits of a context") {
  const Device device;
  CheckAnswers({
      {"set what can be asked only", CUDA_ERROR_NOT_PERMITTED, [] { return SetLimit(7, 4096); }},
      {"set what can be asked only, too", CUDA_ERROR_NOT_PERMITTED, [] { return SetLimit(8, 1); }},
      {"ask 9", CUDA_ERROR_UNSUPPORTED_LIMIT, [] { return AskLimit(9); }},
      {"set 9", CUDA_ERROR_UNSUPPORTED_LIMIT, [] { return SetLimit(9, 1); }},
      {"ask 10", kValue, [] { return AskLimit(10); }},
      {"set 10", kValue, [] { return SetLimit(10, 1); }},
      {"ask -1", kValue, [] { return AskLimit(-1); }},
      {"a stack of 1 MiB", kValue, [] { return SetLimit(CU_LIMIT_STACK_SIZE, 1 << 20); }},
      {"a granule of 1 KiB", kValue,
       [] { return SetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 1024); }},
      {"100 kernels deep", kValue, [] { return SetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 100); }},
  });
  CHECK(LimitOf(7) > 0);
  CHECK(LimitOf(8) == 0);
  const struct {
    int limit;
    std::size_t set, kept;
  } kept[] = {
      {CU_LIMIT_STACK_SIZE, 100, 112},
      {CU_LIMIT_STACK_SIZE, 4096, 4096},
      {CU_LIMIT_PRINTF_FIFO_SIZE, 1, 393216},
      {CU_LIMIT_MALLOC_HEAP_SIZE, 1, 4 << 20},
      {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 0, 32},
      {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 100, 100},
      {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 3, 3},
  };
  for (const auto& row : kept) {
    INFO(row.limit << ", " << row.set);
    CHECK(SetLimit(row.limit, row.set) == CUDA_SUCCESS);
    CHECK(LimitOf(row.limit) == row.kept);
  }
}

TEST_CASE("a card's answers: devices by their address on the bus") {
  const Device device;
  const struct {
    const char* id;
    CUresult result;
  } rows[] = {
      {"0000:02:00.0", kFine},   {"02:00.0", kFine},          {"0000:02:00", kFine},
      {"02:00", kFine},          {"00000000:02:00.0", kFine}, {"0000:02:00.1", kDevice},
      {"0077:02:00.0", kDevice}, {"0000:02:01.0", kDevice},   {"0000:02:00.0junk", kValue},
      {"0000:02:00.0 ", kValue}, {"garbage", kValue},         {"", kValue},
  };
  for (const auto& row : rows) {
    INFO(row.id);
    CUdevice found = -1;
    CHECK(cuDeviceGetByPCIBusId(&found, row.id) == row.result);
    CHECK((found == 1) == (row.result == CUDA_SUCCESS));
  }
}

TEST_CASE("a card's answers: attributes of devices") {
  const Device device;
  const struct {
    int attribute, value;
  } rows[] = {
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
      {CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 1},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046},
      {122, 1},   // CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
      {123, 1},   // CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR
      {125, 1},   // CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED
      {131, -1},  // CU_DEVICE_ATTRIBUTE_NUMA_ID
      {142, 1},   // CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED
      {144, 1},   // CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED
  };
  for (const auto& row : rows) {
    INFO(row.attribute);
    CHECK(AttributeOf(row.attribute) == row.value);
  }
  CHECK(AttributeOf(126) >= 1);  // CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT
}

TEST_CASE("a card's answers: how a stream is waited for, which nobody has set") {
  const Device device;
  CUstreamAttrValue value{};
  CHECK(cuStreamGetAttribute(NewStream(), CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value) ==
        CUDA_SUCCESS);
  CHECK(static_cast<int>(value.syncPolicy) == -1);
}
