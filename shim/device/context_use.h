// A thread of ours that uses a context, against who may end it.
#pragma once

#include <mutex>

#include "shim/device/contexts.h"

namespace cubfc {

// While it lives and is allowed(), the context does not end: cuda.h (cuCtxDestroy) makes that the
// duty of whoever calls into it, and what is given back of its memory is still its own. While a
// call that may end it is under way, waits for that if it is to, but not for long: a hook of the
// program's may have called on that call's thread.
class ContextUse {
 public:
  enum class Waits : bool { kNo, kYes };
  ContextUse(Contexts& contexts, Context& context, Waits waits = Waits::kYes)
      : uses_(contexts.uses_), context_(context) {
    std::unique_lock lock(uses_.mutex_);
    if (waits == Waits::kYes && context.ends > 0) {
      uses_.wait_for_ends(lock, context);
    }
    allowed_ = context.ends == 0 && context.alive();
    context_.users += allowed_ ? 1 : 0;
  }
  ~ContextUse() {
    if (!allowed_) {
      return;
    }
    const std::lock_guard lock(uses_.mutex_);
    --context_.users;
    if (context_.ends > 0) {
      uses_.changed_.notify_all();  // who is to end it waits
    }
  }
  ContextUse(const ContextUse&) = delete;
  ContextUse& operator=(const ContextUse&) = delete;
  bool allowed() const { return allowed_; }

 private:
  ContextUses& uses_;
  Context& context_;
  bool allowed_;
};

}  // namespace cubfc
