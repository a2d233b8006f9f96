// Keeps a context from ending while a thread of ours works in it.
#pragma once

#include <mutex>

#include "shim/device/contexts.h"

namespace cubfc {

// If allowed(), no driver call that ends the context is made while this lives (a ContextEnd waits
// for it, 2 seconds at most): cuda.h (cuCtxDestroy) makes that the duty of whoever calls into a
// context. If such a call is under way already: with Waits::kNo it is not allowed; with kYes it
// waits up to 2 seconds first, no longer, because a hook of the program's may have called us on
// that call's own thread. Use it in one scope, around driver calls.
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
