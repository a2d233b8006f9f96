// What the software driver promises of words that streams write and wait for, and of streams'
// attributes.
#include <cuda.h>

#include <array>

#include "catch.h"
#include "test_device.h"

using standin_test::Device;

namespace {

class Stream {
 public:
  Stream() { REQUIRE(cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS); }
  ~Stream() { cuStreamDestroy_v2(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream handle = nullptr;
};

unsigned WordAt(CUdeviceptr address) {
  unsigned word = 0;
  REQUIRE(cuMemcpyDtoH_v2(&word, address, sizeof word) == CUDA_SUCCESS);
  return word;
}

}  // namespace

TEST_CASE("a stream waits for a word that another one writes, in each way of comparing") {
  const Device device;
  const CUdeviceptr word = device.Allocate(8);
  const CUdeviceptr result = device.Allocate(4);
  const Stream waiting;
  const Stream writing;
  struct Case {
    unsigned flags;
    unsigned before;
    unsigned wanted;
    unsigned after;
  };
  for (const Case& one :
       {Case{CU_STREAM_WAIT_VALUE_GEQ, 4, 5, 6},
        Case{CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0U, 2, 3},  // it has wrapped
        Case{CU_STREAM_WAIT_VALUE_EQ, 4, 5, 5}, Case{CU_STREAM_WAIT_VALUE_AND, 4, 3, 1},
        Case{CU_STREAM_WAIT_VALUE_NOR, 0xffffffffU, 0, 7}}) {
    INFO(one.flags);
    REQUIRE(cuMemsetD32_v2(word, one.before, 1) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32_v2(result, 0, 1) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
    REQUIRE(cuStreamWaitValue32_v2(waiting.handle, word, one.wanted, one.flags) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32Async(result, 1, 1, waiting.handle) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(waiting.handle) == CUDA_ERROR_NOT_READY);
    CHECK(WordAt(result) == 0);
    REQUIRE(cuStreamWriteValue32_v2(writing.handle, word, one.after, 0) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(waiting.handle) == CUDA_SUCCESS);
    CHECK(WordAt(result) == 1);
  }
}

TEST_CASE("a batch of words is done in order, and what is no device memory is refused") {
  const Device device;
  const CUdeviceptr words = device.Allocate(16);
  const Stream stream;
  std::array<CUstreamBatchMemOpParams, 2> batch{};
  batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  batch[0].writeValue.address = words;
  batch[0].writeValue.value64 = 0x500000001ULL;
  batch[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  batch[1].waitValue.address = words + 4;
  batch[1].waitValue.value = 5;
  batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  REQUIRE(cuStreamBatchMemOp_v2(stream.handle, 2, batch.data(), 0) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream.handle) == CUDA_SUCCESS);
  CHECK(WordAt(words) == 1);
  CHECK(WordAt(words + 4) == 5);
  CHECK(cuStreamBatchMemOp_v2(stream.handle, 257, batch.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamBatchMemOp_v2(stream.handle, 1, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWriteValue32_v2(stream.handle, words + 2, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWriteValue32_v2(stream.handle, 0x1000, 1, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a stream's attributes are told again, and copied") {
  const Device device;
  const Stream one;
  const Stream other;
  CUstreamAttrValue value{};
  value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
  REQUIRE(cuStreamSetAttribute(one.handle, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value) ==
          CUDA_SUCCESS);
  REQUIRE(cuStreamCopyAttributes(other.handle, one.handle) == CUDA_SUCCESS);
  CUstreamAttrValue read{};
  REQUIRE(cuStreamGetAttribute(other.handle, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &read) ==
          CUDA_SUCCESS);
  CHECK(read.syncPolicy == CU_SYNC_POLICY_BLOCKING_SYNC);
  CHECK(cuStreamGetAttribute(other.handle, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &read) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamGetAttribute(other.handle, CU_LAUNCH_ATTRIBUTE_PRIORITY, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a function without anything behind it is found, and says that it is not served") {
  const Device device;
  void* found = nullptr;
  REQUIRE(cuGetProcAddress_v2("cuMulticastCreate", &found, 13000, 0, nullptr) == CUDA_SUCCESS);
  REQUIRE(found != nullptr);
  CHECK(reinterpret_cast<CUresult (*)(void*, void*)>(found)(nullptr, nullptr) ==
        CUDA_ERROR_NOT_SUPPORTED);
}
