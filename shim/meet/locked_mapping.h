// Maps a file and locks it for as long as the mapping is there. The lock belongs to the open file,
// which the mapping keeps open. So the lock ends with the process, however that ends. No descriptor
// stays that the program could close or reuse. A forked child has neither the mapping nor the lock.
#pragma once

#include <cstddef>
#include <functional>

#include "shim/meet/descriptor.h"

namespace cubfc {

struct InHand;

enum class Lock : bool { kShared, kExclusive };

// Maps `bytes` of the file, locks the file (flock), calls `then` with its descriptor for what else
// is to be locked (fcntl's F_OFD_SETLK), and closes the descriptor. Returns the mapping, which is
// the caller's; nullptr when any of this fails or `then` returns false. errno then says why: ESTALE
// if the file was removed before it could be locked. Thread-safe.
void* map_locked(Descriptor file, std::size_t bytes, Lock lock,
                 const std::function<bool(int file, void* data)>& then = {});

// Locks one byte of a file that is open (F_WRLCK), or lets it go (F_UNLCK); the lock is the open
// file's. False when another has it (errno: EAGAIN or EACCES), or for another reason.
bool lock_byte(int file, std::size_t byte, short type) noexcept;
// Whether the byte is locked, but not by this descriptor.
bool is_byte_locked(int file, std::size_t byte) noexcept;

// Stands for a file that is open for a moment, for locks that must end with this process. As long
// as this object lives, a child that is forked closes its copy of the descriptor at once. But if
// more than 8 threads have such files at that moment, the child may keep its copy. Should this
// process then be killed while the object lives, its locks last until the child ends.
class LockedForMoment {
 public:
  explicit LockedForMoment(const Descriptor& file) noexcept;
  ~LockedForMoment();
  LockedForMoment(const LockedForMoment&) = delete;
  LockedForMoment& operator=(const LockedForMoment&) = delete;

 private:
  InHand* const mine_;
};

// Called in a forked child: closes and unmaps the files that other threads of the parent were
// working on in map_locked(), and closes those of LockedForMoment. Else the child would keep the
// locks after the death of the parent.
void locked_mappings_forked_in_child() noexcept;

}  // namespace cubfc
