// A file mapped and locked, for as long as the mapping is there: the lock is the open file's, which
// the mapping keeps open. So it ends with the process, however that ends; no descriptor stays,
// which the program may close, or reuse; and a forked child has neither.
#pragma once

#include <cstddef>
#include <functional>

#include "shim/meet/descriptor.h"

namespace cubfc {

struct InHand;

enum class Lock : bool { kShared, kExclusive };

// Maps `bytes` of the file, locks it (flock), calls `then` with its descriptor for what else is to
// be locked (fcntl's F_OFD_SETLK), and closes it. Returns the mapping, which is the caller's;
// nullptr when something of that fails or `then` returns false, and errno says why: ESTALE when the
// file has been removed by then. Thread-safe.
void* map_locked(Descriptor file, std::size_t bytes, Lock lock,
                 const std::function<bool(int file, void* data)>& then = {});

// Locks one byte of a file that is open (F_WRLCK), or lets it go (F_UNLCK); the lock is the open
// file's. False when another has it (errno: EAGAIN or EACCES), or for another reason.
bool lock_byte(int file, std::size_t byte, short type) noexcept;
// Whether somebody has it for himself, but not by this descriptor.
bool is_byte_locked(int file, std::size_t byte) noexcept;

// A file that is open for a moment, for locks that are to end with this process: as long as this
// lives, a child that is forked closes its copy of the descriptor at once. (With many threads at it
// at the same moment, not; then the locks last until the child ends, if this process is killed in
// that moment.)
class LockedForMoment {
 public:
  explicit LockedForMoment(const Descriptor& file) noexcept;
  ~LockedForMoment();
  LockedForMoment(const LockedForMoment&) = delete;
  LockedForMoment& operator=(const LockedForMoment&) = delete;

 private:
  InHand* const mine_;
};

// In a forked child: closes and unmaps what other threads of the parent had in hand in
// map_locked(), and closes what LockedForMoment stands for. The child would keep the locks when the
// parent is dead.
void locked_mappings_forked_in_child() noexcept;

}  // namespace cubfc
