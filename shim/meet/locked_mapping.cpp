#include "shim/meet/locked_mapping.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace cubfc {

// A file that a thread is working on, which a child that is forked meanwhile inherits.
struct InHand {
  std::atomic<bool> used{false};
  std::atomic<int> file{-1};
  std::atomic<void*> data{nullptr};
  std::atomic<std::size_t> bytes{0};
};

namespace {

constexpr std::size_t kThreads = 8;
std::array<InHand, kThreads> in_hand;

InHand* take_in_hand() noexcept {
  for (InHand& each : in_hand) {
    if (!each.used.exchange(true)) {
      return &each;
    }
  }
  return nullptr;
}

void leave(InHand& mine) noexcept {
  mine.data = nullptr;
  mine.file = -1;
  mine.used = false;
}

// Locks the file; waits 5 s at most. Another process may have it locked for a moment, to see
// whether anybody has it; on a machine with much to do that may take long.
bool is_locked_soon(int file, Lock lock) {
  for (int attempt = 0; attempt < 5000; ++attempt) {
    if (flock(file, (lock == Lock::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) {
      return true;
    }
    if (errno != EWOULDBLOCK) {
      return false;
    }
    usleep(1000);
  }
  return false;
}

bool is_still_there(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) {
    return false;
  }
  errno = ESTALE;
  return status.st_nlink > 0;
}

}  // namespace

void* map_locked(Descriptor file, std::size_t bytes, Lock lock,
                 const std::function<bool(int file, void* data)>& then) {
  InHand* const mine = take_in_hand();
  if (mine == nullptr) {
    errno = EAGAIN;
    return nullptr;
  }
  mine->bytes = bytes;
  mine->file = file.get();
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data != MAP_FAILED) {
    mine->data = data;
    const bool done = madvise(data, bytes, MADV_DONTFORK) == 0 &&
                      is_locked_soon(file.get(), lock) && is_still_there(file.get()) &&
                      (!then || then(file.get(), data));
    if (!done) {
      const int error = errno;
      munmap(data, bytes);
      errno = error;
      data = nullptr;
    }
  } else {
    data = nullptr;
  }
  const int error = errno;
  mine->data = nullptr;
  file = Descriptor();
  leave(*mine);
  errno = error;
  return data;
}

bool lock_byte(int file, std::size_t byte, short type) noexcept {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(byte);
  range.l_len = 1;
  return fcntl(file, F_OFD_SETLK, &range) == 0;
}

bool is_byte_locked(int file, std::size_t byte) noexcept {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(byte);
  range.l_len = 1;
  return fcntl(file, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

LockedForMoment::LockedForMoment(const Descriptor& file) noexcept : mine_(take_in_hand()) {
  if (mine_ != nullptr) {
    mine_->file = file.get();
  }
}

LockedForMoment::~LockedForMoment() {
  if (mine_ != nullptr) {
    leave(*mine_);
  }
}

void locked_mappings_forked_in_child() noexcept {
  for (InHand& each : in_hand) {
    if (const int file = each.file.exchange(-1); file >= 0) {
      close(file);
    }
    // After madvise(MADV_DONTFORK) the child has no such mapping, and this does nothing.
    if (void* const data = each.data.exchange(nullptr); data != nullptr) {
      munmap(data, each.bytes);
    }
    each.used = false;
  }
}

}  // namespace cubfc
