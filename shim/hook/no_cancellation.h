// While it lives, a pthread_cancel of this thread has to wait: cancellation unwinds the stack,
// which ends at our noexcept entry points with std::terminate.
#pragma once

#include <pthread.h>

namespace cubfc {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace cubfc
