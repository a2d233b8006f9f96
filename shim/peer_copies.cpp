#include "shim/peer_copies.h"

#include "shim/device_memory.h"

namespace cubfc {

// Only under these allocators do arenas have other memory than that of cuMemAlloc.
bool PeerCopies::may_concern() const {
  return policy_.allocator.value == config::Allocator::kVmm ||
         policy_.allocator.value == config::Allocator::kCudaAsync;
}

// Memory that the program has mapped, or has from a pool, is no context's: what a copy of that may
// do is for the program to arrange.
PeerCopies::End PeerCopies::end_at(CUdeviceptr address) const {
  const FoundBlock found = find_block(contexts_, address);
  if (found.live) {
    return {found.context->handle, found.context};
  }
  CUcontext context = nullptr;
  const bool told = driver_.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT,
                                                  address) == CUDA_SUCCESS;
  return {told ? context : nullptr, nullptr};
}

std::optional<PeerCopies::Ends> PeerCopies::ends_of_refused(CUdeviceptr to,
                                                            CUdeviceptr from) const {
  if (!may_concern()) {
    return std::nullopt;
  }
  const End target = end_at(to);
  const End source = end_at(from);
  const bool ours = target.of_ours != nullptr || source.of_ours != nullptr;
  const bool on_one_device = target.of_ours != nullptr && source.of_ours != nullptr &&
                             &target.of_ours->device == &source.of_ours->device;
  if (!ours || on_one_device || target.context == nullptr || source.context == nullptr) {
    return std::nullopt;
  }
  return Ends{target.context, source.context};
}

bool PeerCopies::peer_copy_may_be_lost(CUdeviceptr to) const {
  if (policy_.allocator.value != config::Allocator::kCudaAsync) {
    return false;
  }
  const auto block = contexts_.find_in_pool(to);
  return block && block->live && block->context->device.peers.load() != 0;
}

}  // namespace cubfc
