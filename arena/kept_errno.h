// Keeps errno as it was: to whoever called the program's allocation, ours is none of its business.
#pragma once

#include <cerrno>

namespace cubfc {

// While it lives, system calls leave no trace in errno.
class KeptErrno {
 public:
  KeptErrno() = default;
  ~KeptErrno() { errno = kept_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  int kept_ = errno;
};

}  // namespace cubfc
