// Tells a forked child from its parent, however it was forked. The handlers of pthread_atfork do
// not run at every clone, and in a pid namespace of its own a child may have its parent's pid.
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
  char* page_;  // the kernel zeroes it in a child; nullptr: no such page. Never unmapped
  pid_t pid_;
};

}  // namespace cubfc
