#include "shim/loader/fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace cubfc {

ForkMark::ForkMark() noexcept : page_(nullptr), pid_(getpid()) {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return;
  }
  if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, bytes);
    return;
  }
  page_ = static_cast<char*>(page);
  *page_ = 1;
}

bool ForkMark::is_in_child() const noexcept {
  return page_ != nullptr ? *page_ == 0 : pid_ != getpid();
}

}  // namespace cubfc
