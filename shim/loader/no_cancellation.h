// A scope in which a pthread_cancel of this thread has to wait. Cancellation unwinds the stack:
// cubfc's work would stop half done. Nor can cancellation pass a frame of cubfc's that has
// something to clean up, because the C library uses another unwinder than the one that is linked
// into this library. So a wrapper that calls the driver either holds nothing that needs cleaning
// up, and the thread is cancelled as without cubfc; or has a NoCancellation.
#pragma once

#include <pthread.h>

namespace cubfc {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  // If the thread's cancellation is asynchronous and one is pending, the thread is cancelled here.
  ~NoCancellation() noexcept(false) { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace cubfc
