#pragma once

#include "shim/driver/driver.h"

namespace cubfc {

// While an object of this class lives, and if result() is a success, the context is current on this
// thread.
class PushedContext {
 public:
  PushedContext(const DriverFunctions& driver, CUcontext context)
      : driver_(driver), result_(driver.cuCtxPushCurrent_v2(context)) {}

  // cuCtxPopCurrent may report an error of earlier work (cuda.h). If it has popped nothing then, it
  // is called once more.
  ~PushedContext() {
    CUcontext popped = nullptr;
    if (pushed() && driver_.cuCtxPopCurrent_v2(&popped) != CUDA_SUCCESS && popped == nullptr) {
      driver_.cuCtxPopCurrent_v2(&popped);
    }
  }
  PushedContext(const PushedContext&) = delete;
  PushedContext& operator=(const PushedContext&) = delete;

  bool pushed() const { return result_ == CUDA_SUCCESS; }
  CUresult result() const { return result_; }

 private:
  const DriverFunctions& driver_;
  const CUresult result_;
};

}  // namespace cubfc
