// Keeps a context from ending while a thread of ours works in it.
#pragma once

namespace cubfc {

class ContextUses;
class Contexts;
struct Context;

// If allowed(), no driver call that ends the context is made while this lives (a ContextEnd waits
// for it, 2 seconds at most): cuda.h (cuCtxDestroy) makes that the duty of whoever calls into a
// context. If such a call is under way already: with Waits::kNo it is not allowed; with kYes it
// waits up to 2 seconds first, no longer, because a hook of the program's may have called us on
// that call's own thread. Use it in one scope, around driver calls.
class ContextUse {
 public:
  enum class Waits : bool { kNo, kYes };
  ContextUse(Contexts& contexts, Context& context, Waits waits = Waits::kYes);
  ~ContextUse();
  ContextUse(const ContextUse&) = delete;
  ContextUse& operator=(const ContextUse&) = delete;
  bool allowed() const { return allowed_; }

 private:
  ContextUses& uses_;
  Context& context_;
  bool allowed_;
};

}  // namespace cubfc
