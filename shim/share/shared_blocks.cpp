#include "shim/share/shared_blocks.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "shim/meet/shared_files.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

constexpr std::string_view kKind = "blocks-";

}  // namespace

bool SharedBlocks::start() {
  const auto file = make_shared_file(kKind, kSlots * sizeof(Slot), key_);
  if (file) {
    path_ = file->path;
    slots_ = static_cast<Slot*>(file->data);
  }
  return file.has_value();
}

Ticket SharedBlocks::publish(const SharedBlock& block) noexcept try {
  if (slots_ == nullptr && !start()) {
    const int error = errno;
    if (!std::exchange(said_, true)) {
      log::warn("memory cannot be shared with other processes: {}", why_no_shared_file(error));
    }
    errno = error;
    return {};
  }
  if (free_.empty() && used_ == kSlots) {
    log::warn("cuIpcGetMemHandle: {} blocks of this process are shared already, the most at once",
              kSlots);
    errno = ENOSPC;
    return {};
  }
  free_.reserve(used_ + 1);  // withdraw() must not fail
  std::uint32_t index = used_;
  if (free_.empty()) {
    ++used_;
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[index];
  slot.block = block;
  std::atomic_ref(slot.number).store(++last_number_, std::memory_order_release);
  return {getpid(), index, key_, last_number_};
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return {};
}

void SharedBlocks::withdraw(const Ticket& ticket) noexcept {
  // Before the slot gets another block: find_shared() relies on it.
  std::atomic_ref(slots_[ticket.slot].number).exchange(0, std::memory_order_seq_cst);
  free_.push_back(ticket.slot);
}

void SharedBlocks::leave() noexcept {
  if (slots_ != nullptr) {
    syscall(SYS_unlinkat, AT_FDCWD, path_.c_str(), 0);
  }
}

std::optional<SharedBlock> find_shared(const Ticket& ticket) {
  using Slot = SharedBlocks::Slot;
  const Descriptor file = open_shared_file(name_of_shared_file(kKind, ticket.owner, ticket.key));
  if (!file || ticket.slot >= SharedBlocks::kSlots) {
    return std::nullopt;
  }
  Slot slot{};
  const auto at = static_cast<off_t>(ticket.slot * sizeof(Slot));
  const auto is_there = [&](Slot& read) {
    return pread(file.get(), &read, sizeof(read), at) == sizeof(read) &&
           read.number == ticket.number && ticket.number != 0;
  };
  // The owner may withdraw the block, and publish another one in the slot, while it is read. The
  // number is another one then when it is looked at once more.
  Slot again{};
  return is_there(slot) && is_there(again) ? std::optional(slot.block) : std::nullopt;
}

}  // namespace cubfc
