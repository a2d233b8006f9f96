// Keeps errno as it was: a program that calls an allocation function must not see errors of our own
// system calls.
#pragma once

#include <cerrno>

namespace cubfc {

// Saves errno when it is made, and restores it when it is destroyed.
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
