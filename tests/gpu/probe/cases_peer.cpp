// Copies between two devices, to memory of a pool. They need two devices that can reach each other.
#include <string>
#include <thread>

#include "cases.h"

namespace probe {
namespace {

CUmemAccessDesc full_access_of(CUdevice device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

// Memory of a pool of the second device, and a stream of the first one.
class PeerPool {
 public:
  explicit PeerPool(Session& session) : s_(session) {
    int count = 0;
    int can = 0;
    s_.cu.cuDeviceGetCount(&count);
    if (count < 2 || s_.cu.cuDeviceGet(&device_, 1) != CUDA_SUCCESS ||
        s_.cu.cuDeviceCanAccessPeer(&can, s_.device(), device_) != CUDA_SUCCESS || can == 0) {
      why_ = "needs two devices, of which the first can reach the second";
      return;
    }
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device_;
    CUcontext context = nullptr;
    s_.cu.cuDevicePrimaryCtxRetain(&context, device_);
    s_.cu.cuCtxSetCurrent(context);
    CUstream stream = nullptr;
    s_.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (s_.cu.cuMemPoolCreate(&pool_, &properties) != CUDA_SUCCESS ||
        s_.cu.cuMemAllocFromPoolAsync(&block_, kBytes, pool_, stream) != CUDA_SUCCESS) {
      why_ = "no memory of a pool";
    }
    s_.cu.cuMemsetD8Async(block_, 1, kBytes, stream);
    s_.cu.cuStreamSynchronize(stream);
    s_.cu.cuStreamDestroy(stream);
    s_.cu.cuCtxSetCurrent(s_.context());
    context_ = context;
  }
  PeerPool(const PeerPool&) = delete;
  PeerPool& operator=(const PeerPool&) = delete;
  ~PeerPool() {
    if (block_ != 0) {
      s_.cu.cuMemFree(block_);
    }
    if (pool_ != nullptr) {
      s_.cu.cuMemPoolDestroy(pool_);
    }
    if (context_ != nullptr) {
      s_.cu.cuDevicePrimaryCtxRelease(device_);
    }
  }

  static constexpr std::size_t kBytes = 4096;
  [[nodiscard]] const std::string& why_not() const { return why_; }
  [[nodiscard]] CUdeviceptr block() const { return block_; }
  [[nodiscard]] CUcontext context() const { return context_; }
  [[nodiscard]] CUdevice device() const { return device_; }
  CUresult give_access() {
    const CUmemAccessDesc access = full_access_of(s_.device());
    return s_.cu.cuMemPoolSetAccess(pool_, &access, 1);
  }

 private:
  Session& s_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  CUdeviceptr block_ = 0;
  std::string why_;
};

Answer copy_without_access(Session& s) {
  const PeerPool peer(s);
  if (!peer.why_not().empty()) {
    return unanswered(peer.why_not());
  }
  const HeldStream stream(s.cu);
  const CUdeviceptr own = s.block(PeerPool::kBytes);
  const CUresult result = s.cu.cuMemcpyDtoDAsync(own, peer.block(), PeerPool::kBytes, stream.get());
  s.cu.cuStreamSynchronize(stream.get());
  s.cu.cuMemFree(own);
  return answer(result);
}

Answer pool_access_of_peer(Session& s) {
  PeerPool peer(s);
  return peer.why_not().empty() ? answer(peer.give_access()) : unanswered(peer.why_not());
}

// Memory of the second device, mapped, for the first one: nothing is enabled between contexts.
Answer mapped_access_of_peer(Session& s) {
  const PeerPool peer(s);
  if (!peer.why_not().empty()) {
    return unanswered(peer.why_not());
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, peer.device()};
  std::size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  if (s.cu.cuMemGetAllocationGranularity(&bytes, &properties,
                                         CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS ||
      s.cu.cuMemCreate(&handle, bytes, &properties, 0) != CUDA_SUCCESS) {
    return unanswered("no physical memory");
  }
  CUresult result = s.cu.cuMemAddressReserve(&address, bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    result = s.cu.cuMemMap(address, bytes, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
      const CUmemAccessDesc access = full_access_of(s.device());
      result = s.cu.cuMemSetAccess(address, bytes, &access, 1);
      s.cu.cuMemUnmap(address, bytes);
    }
    s.cu.cuMemAddressFree(address, bytes);
  }
  s.cu.cuMemRelease(handle);
  return answer(result);
}

Answer host_copy_without_access(Session& s) {
  const PeerPool peer(s);
  if (!peer.why_not().empty()) {
    return unanswered(peer.why_not());
  }
  unsigned char byte = 0;
  const CUresult result = s.cu.cuMemcpyDtoH(&byte, peer.block(), 1);
  return answer_json(result == CUDA_SUCCESS ? "false" : "true");
}

// Another thread allocates, copies and waits on the second device meanwhile.
Answer capture_beside_other_device(Session& s) {
  const PeerPool peer(s);
  if (!peer.why_not().empty()) {
    return unanswered(peer.why_not());
  }
  CUresult worst = CUDA_SUCCESS;
  const HeldStream stream(s.cu);
  if (const CUresult error =
          s.cu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL)) {
    return unanswered("cuStreamBeginCapture: " + name_of(s.cu, error));
  }
  std::thread([&] {
    const auto note = [&](CUresult result) { worst = worst == CUDA_SUCCESS ? result : worst; };
    CUdeviceptr block = 0;
    unsigned char byte = 0;
    note(s.cu.cuCtxSetCurrent(peer.context()));
    note(s.cu.cuMemAlloc(&block, PeerPool::kBytes));
    note(s.cu.cuMemcpyDtoH(&byte, block, 1));
    note(s.cu.cuCtxSynchronize());
    note(s.cu.cuMemFree(block));
  }).join();
  CUgraph graph = nullptr;
  const CUresult end = s.cu.cuStreamEndCapture(stream.get(), &graph);
  if (graph != nullptr) {
    s.cu.cuGraphDestroy(graph);
  }
  return answer_json(worst == CUDA_SUCCESS && end == CUDA_SUCCESS ? "false" : "true");
}

Answer peer_copy_writes(Session& s) {
  PeerPool peer(s);
  if (!peer.why_not().empty()) {
    return unanswered(peer.why_not());
  }
  if (const CUresult error = peer.give_access()) {
    return unanswered("cuMemPoolSetAccess: " + name_of(s.cu, error));
  }
  const HeldStream stream(s.cu);
  const CUdeviceptr own = s.block(PeerPool::kBytes);
  s.cu.cuMemsetD8(own, 2, PeerPool::kBytes);
  s.cu.cuCtxSynchronize();
  const CUresult result = s.cu.cuMemcpyPeerAsync(peer.block(), peer.context(), own, s.context(),
                                                 PeerPool::kBytes, stream.get());
  s.cu.cuStreamSynchronize(stream.get());
  unsigned char byte = 0;
  s.cu.cuMemcpyDtoH(&byte, peer.block(), 1);
  s.cu.cuMemFree(own);
  return result == CUDA_SUCCESS ? answer_json(byte == 2 ? "true" : "false")
                                : unanswered("cuMemcpyPeerAsync: " + name_of(s.cu, result));
}

}  // namespace

void add_peer_cases(Cases& cases) {
  cases.push_back({"cuMemSetAccess.peer", mapped_access_of_peer, Begins::kInContextAlone});
  cases.push_back({"cuMemPoolSetAccess.peer", pool_access_of_peer, Begins::kInContextAlone});
  cases.push_back({"cuMemcpy.no_peer_access", copy_without_access, Begins::kInContextAlone});
  cases.push_back({"cuMemcpy.host_copy_needs_access", host_copy_without_access,
                   Begins::kInContextAlone, Kind::kValue});
  cases.push_back({"capture.hinders_other_devices", capture_beside_other_device,
                   Begins::kInContextAlone, Kind::kValue});
  cases.push_back({"cuMemcpyPeer.writes_to_shared_pool", peer_copy_writes, Begins::kInContextAlone,
                   Kind::kValue});
}

}  // namespace probe
