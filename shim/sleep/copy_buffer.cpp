#include "shim/sleep/copy_buffer.h"

#include <sys/mman.h>

#include "shim/device/contexts.h"

namespace cubfc {

char* CopyBuffer::of_bytes(std::uint64_t bytes) noexcept {
  if (bytes > bytes_) {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return nullptr;
    }
    madvise(memory, bytes, MADV_DONTFORK);
    madvise(memory, bytes, MADV_DONTDUMP);
    memory_ = static_cast<char*>(memory);  // a smaller one that was there stays pinned
    bytes_ = bytes;
    pinned_by_ = 0;
  }
  bool is_pinned = false;
  for (const Context* each = contexts_.first(); each != nullptr; each = each->next) {
    is_pinned = is_pinned || (pinned_by_ != 0 && each->id.load() == pinned_by_);
  }
  unsigned long long id = 0;
  if (!is_pinned && driver_.cuMemHostRegister_v2 != nullptr &&
      driver_.cuCtxGetId(nullptr, &id) == CUDA_SUCCESS &&
      driver_.cuMemHostRegister_v2(memory_, bytes_, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS) {
    pinned_by_ = id;
  }
  return memory_;
}

}  // namespace cubfc
