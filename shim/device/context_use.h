// Keeps a context from ending while a thread of ours works in it.
#pragma once

namespace cubfc {

class ContextUses;
class Contexts;
struct Context;

// While an object lives for which allowed() is true, no driver call that ends the context is made:
// a ContextEnd waits for the object's end, 2 seconds at most. Whoever calls into a context must see
// to it that the context does not end meanwhile (cuda.h, cuCtxDestroy). While a driver call that
// ends the context is under way, allowed() is false; but with Waits::kYes the constructor first
// waits up to 2 seconds for that call to return. It waits no longer, because a hook of another
// library may have called us on the thread that makes that call. Use it in one scope, around driver
// calls.
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
