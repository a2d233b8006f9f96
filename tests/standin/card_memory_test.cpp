// What a card answers about memory: the order of copies between contexts.
#include <cuda.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "reported_test.h"

using namespace standin_test;

namespace {

unsigned char FirstByteOf(CUdeviceptr memory) {
  unsigned char byte = 0;
  Must(cuMemcpyDtoH_v2(&byte, memory, 1));
  return byte;
}

// Memory of each of two devices; the first one's context is current.
struct Pair {
  Device second{1};
  CUdeviceptr from = second.Allocate(512);
  Device first{0};
  CUdeviceptr to = first.Allocate(512);

  Pair() {
    InSecond([&] {
      Must(cuMemsetD8_v2(from, 5, 512));
      Must(cuCtxSynchronize());
    });
  }
  template <typename Work>
  void InSecond(Work work) const {
    Must(cuCtxPushCurrent_v2(second.context()));
    work();
    Must(cuCtxPopCurrent_v2(nullptr));
  }
  CUresult Copy() const { return cuMemcpyPeer(to, first.context(), from, second.context(), 512); }
  CUresult CopyBox() const {
    CUDA_MEMCPY3D_PEER box{};
    box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = from;
    box.srcContext = second.context();
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = to;
    box.dstContext = first.context();
    box.WidthInBytes = 512;
    box.Height = 1;
    box.Depth = 1;
    return cuMemcpy3DPeer(&box);
  }
};

using Copy = CUresult (Pair::*)() const;
constexpr Copy kPeerCopies[] = {&Pair::Copy, &Pair::CopyBox};

}  // namespace

TEST_CASE("a copy between contexts comes after the work that the source's context has") {
  for (const Copy copy : kPeerCopies) {
    const Pair pair;
    std::optional<HeldWork> work;
    pair.InSecond([&] { work.emplace(pair.from); });
    CHECK(work->IsWaitedForBy(pair.first.context(), [&] {
      const CUresult result = (pair.*copy)();
      return result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
    }));
    CHECK(FirstByteOf(pair.to) == 1);
  }
}

TEST_CASE("a copy between contexts comes before the work that the source's context gets later") {
  for (const Copy copy : kPeerCopies) {
    const Pair pair;
    standin_hold_stream(nullptr);
    CHECK((pair.*copy)() == CUDA_SUCCESS);
    std::atomic<bool> done{false};
    std::thread later([&] {
      cuCtxSetCurrent(pair.second.context());
      CUstream stream = nullptr;  // that there was not yet when the copy was asked for
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      cuMemsetD8Async(pair.from, 9, 512, stream);
      cuStreamSynchronize(stream);
      done = true;
    });
    while (!done && standin_waiting_calls() == 0) std::this_thread::yield();
    standin_release_stream(nullptr);
    later.join();
    Must(cuCtxSynchronize());
    CHECK(FirstByteOf(pair.to) == 5);
    pair.InSecond([&] { CHECK(FirstByteOf(pair.from) == 9); });
  }
}

TEST_CASE("who waits for the source's context waits for a copy from it, too") {
  const Pair pair;
  standin_hold_stream(nullptr);
  REQUIRE(pair.Copy() == CUDA_SUCCESS);
  pair.InSecond([] { CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY); });
  standin_release_stream(nullptr);
  pair.InSecond([] { CHECK(cuCtxSynchronize() == CUDA_SUCCESS); });
  CHECK(FirstByteOf(pair.to) == 5);
}
