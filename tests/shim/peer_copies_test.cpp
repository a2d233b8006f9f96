// Copies between devices: as with memory of cuMemAlloc, whatever the blocks are made of, and
// whether the hardware lets the devices reach each other or not (STANDIN_PEERS).
#include <cuda.h>

#include <functional>
#include <memory>
#include <vector>

#include "test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kBytes = 100000;

// A block of a device, full of one byte.
struct Block {
  Block(const TestContext& of, unsigned char byte) : context(of) {
    must(cuCtxSetCurrent(context.handle));
    address = allocate(kBytes);
    fill(byte);
  }
  void fill(unsigned char byte) const {
    must(cuCtxSetCurrent(context.handle));
    must(cuMemsetD8(address, byte, kBytes));
    must(cuCtxSynchronize());
  }
  bool is_full_of(unsigned char byte) const {
    must(cuCtxSetCurrent(context.handle));
    std::vector<unsigned char> bytes(kBytes);
    must(cuMemcpyDtoH(bytes.data(), address, kBytes));
    return bytes == std::vector<unsigned char>(kBytes, byte);
  }
  const TestContext& context;
  CUdeviceptr address = 0;
};

using Copy = std::function<CUresult(const Block& to, const Block& from, CUstream stream)>;

// Each way to copy, in a stream; the synchronous ones in the current context's own.
const std::vector<Copy> kCopies = {
    [](const Block& to, const Block& from, CUstream) {
      return cuMemcpy(to.address, from.address, kBytes);
    },
    [](const Block& to, const Block& from, CUstream) {
      return cuMemcpyDtoD(to.address, from.address, kBytes);
    },
    [](const Block& to, const Block& from, CUstream) {
      return cuMemcpyPeer(to.address, to.context.handle, from.address, from.context.handle, kBytes);
    },
    [](const Block& to, const Block& from, CUstream stream) {
      return cuMemcpyAsync(to.address, from.address, kBytes, stream);
    },
    [](const Block& to, const Block& from, CUstream stream) {
      return cuMemcpyDtoDAsync(to.address, from.address, kBytes, stream);
    },
    [](const Block& to, const Block& from, CUstream stream) {
      return cuMemcpyPeerAsync(to.address, to.context.handle, from.address, from.context.handle,
                               kBytes, stream);
    },
};

CUstream new_stream_of(const TestContext& context) {
  CUstream stream = nullptr;
  must(cuCtxSetCurrent(context.handle));
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

}  // namespace

TEST_CASE("every copy between two devices is made, by either one's stream and by a third's") {
  const TestContext first(0);
  const Block one(first, 1);  // before anything is known of the other devices
  const TestContext second(1);
  const Block other(second, 2);
  const TestContext third(2);
  unsigned char byte = 10;
  for (const TestContext* context : {&first, &second, &third}) {
    CUstream const stream = new_stream_of(*context);
    for (const Copy& copy : kCopies) {
      for (const auto& [to, from] : {std::pair{&one, &other}, {&other, &one}}) {
        from->fill(++byte);
        to->fill(0);
        must(cuCtxSetCurrent(context->handle));
        must(copy(*to, *from, stream));
        must(cuCtxSynchronize());
        CHECK(to->is_full_of(byte));
      }
    }
    must(cuCtxSetCurrent(context->handle));
    must(cuStreamDestroy_v2(stream));
  }
}

TEST_CASE("memory that comes after the other device is known is copied, too") {
  const TestContext second(1);
  const TestContext first(0);
  const Block there(second, 5);
  std::vector<std::unique_ptr<Block>> blocks;
  for (unsigned char i = 0; i < 40; ++i) {  // more than there was at first
    blocks.push_back(std::make_unique<Block>(first, i));
    must(cuMemcpyDtoD(there.address, blocks.back()->address, kBytes));
    must(cuCtxSynchronize());
    CHECK(there.is_full_of(i));
  }
}

TEST_CASE("a copy between devices is captured and launched") {
  const TestContext first(0);
  const Block one(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  for (std::size_t i = 3; i < kCopies.size(); ++i) {
    CUstream const stream = new_stream_of(second);
    CUgraph graph = nullptr;
    CUgraphExec program = nullptr;
    must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    must(kCopies[i](other, one, stream));
    must(cuStreamEndCapture(stream, &graph));
    must(cuGraphInstantiateWithFlags(&program, graph, 0));
    one.fill(static_cast<unsigned char>(50 + i));
    must(cuCtxSetCurrent(second.handle));
    must(cuGraphLaunch(program, stream));
    must(cuStreamSynchronize(stream));
    CHECK(other.is_full_of(static_cast<unsigned char>(50 + i)));
    must(cuGraphExecDestroy(program));
    must(cuGraphDestroy(graph));
    must(cuStreamDestroy_v2(stream));
  }
}

TEST_CASE("a wrong copy is refused all the same") {
  const TestContext first(0);
  const Block one(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  CHECK(cuMemcpyDtoD(0x1234, one.address, 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoD(other.address, one.address, std::size_t{1} << 40) == CUDA_ERROR_INVALID_VALUE);
  const std::vector<unsigned char> host(kBytes, 9);
  const auto pageable = reinterpret_cast<CUdeviceptr>(host.data());
  for (const CUdeviceptr from : {CUdeviceptr{0x1234}, pageable}) {
    CHECK(cuMemcpyPeer(one.address, first.handle, from, second.handle, 10) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyPeerAsync(one.address, first.handle, from, second.handle, 10, nullptr) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  must(cuCtxSynchronize());
  CHECK(one.is_full_of(1));
  must(cuMemFree(one.address));
  CHECK(cuMemcpyDtoD(other.address, one.address, std::size_t{1} << 40) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("what the copying device has from its own pool is copied to and from another's block") {
  const TestContext second(1);
  const Block there(second, 1);
  const TestContext first(0);
  const Block mine(first, 2);
  CUdeviceptr of_pool = 0;
  must(cuMemAllocAsync(&of_pool, kBytes, nullptr));
  must(cuMemsetD8Async(of_pool, 7, kBytes, nullptr));
  must(cuCtxSynchronize());
  must(cuMemcpyDtoD(there.address, of_pool, kBytes));
  must(cuCtxSynchronize());
  CHECK(there.is_full_of(7));
  there.fill(8);
  must(cuCtxSetCurrent(first.handle));
  must(cuMemcpyDtoD(of_pool, there.address, kBytes));
  must(cuMemcpyDtoD(mine.address, of_pool, kBytes));
  must(cuCtxSynchronize());
  CHECK(mine.is_full_of(8));
  must(cuMemFreeAsync(of_pool, nullptr));
  must(cuCtxSynchronize());
}

TEST_CASE("what the program's own pool may reach stays the program's to say") {
  const TestContext first(0);
  const Block one(first, 1);
  const TestContext second(1);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemoryPool pool = nullptr;
  CUdeviceptr there = 0;
  must(cuMemPoolCreate(&pool, &properties));
  must(cuMemAllocFromPoolAsync(&there, kBytes, pool, nullptr));
  must(cuCtxSynchronize());
  must(cuCtxSetCurrent(first.handle));
  CHECK(cuMemcpyDtoD(one.address, there, kBytes) == CUDA_ERROR_INVALID_VALUE);
  must(cuCtxSetCurrent(second.handle));
  must(cuMemFree(there));
  must(cuMemPoolDestroy(pool));
}

TEST_CASE("the driver's failures are the copy's, and it can be tried again") {
  const TestContext first(0);
  const Block one(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  for (const char* function : {"cuMemcpyDtoD_v2", "cuMemcpyPeer", "cuPointerGetAttribute"}) {
    standin_fail(function, CUDA_ERROR_UNKNOWN, 0, 1);
    const CUresult result = cuMemcpyDtoD(other.address, one.address, kBytes);
    CHECK((result == CUDA_SUCCESS || result == CUDA_ERROR_UNKNOWN));
    standin_fail(function, 0, 0, 0);
    must(cuMemcpyDtoD(other.address, one.address, kBytes));
  }
  CHECK(other.is_full_of(1));
}
