// Tells a forked child from its parent, however it was forked: pthread_atfork does not see every
// clone, and in a process namespace of its own a child may have its parent's number.
#pragma once

#include <sys/types.h>

namespace cubfc {

// Belongs to the process that makes it. Thread-safe.
class ForkMark {
 public:
  ForkMark() noexcept;
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  // Whether this is a child of that process, which has inherited the object.
  bool is_in_child() const noexcept;

 private:
  char* page_;  // which the kernel empties in a child; nullptr where it cannot. Never unmapped
  pid_t pid_;
};

}  // namespace cubfc
