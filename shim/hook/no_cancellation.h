// While it lives, a pthread_cancel of this thread has to wait. Cancellation unwinds the stack, and
// what is left in the middle of our work would be left undone; besides, it cannot pass a frame of
// ours that has something to clean up, because the unwinder that the C library uses is not the one
// that is linked into this library. So a wrapper either holds nothing while it calls the driver's
// function, which is then cancelled as without us, or has one of these.
#pragma once

#include <pthread.h>

namespace cubfc {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  // A thread that may be cancelled at any time is cancelled here.
  ~NoCancellation() noexcept(false) { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace cubfc
