// How a context ends. The driver's call that ends a context, or gives up a reference to one, is
// made while a ContextEnd lives. Before the call the ContextEnd tells the ContextListeners and
// keeps our own threads out of the contexts that may end. After the call it finds out which
// contexts have ended, and tells the listeners.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace cubfc {

class ContextEnd;
class Contexts;
struct Context;
struct Device;

// Which contexts a call may end: the one of this handle if it is not nullptr, else those of this
// device, else any.
struct WhichContexts {
  CUcontext handle = nullptr;
  std::optional<CUdevice> device = std::nullopt;
};

// Implemented by objects that keep something for contexts. They are told in the order of
// Contexts::add_listener(), under no lock, on the thread that makes the driver's call. They are not
// told when a reference is given up that is not the last.
class ContextListener {
 public:
  virtual ~ContextListener() = default;
  // Called before the driver's call, by which one or more contexts may end. May wait for work on a
  // device.
  virtual void context_may_end(const WhichContexts& /*which*/) noexcept {}
  // Called next, but only if the call is to end one context that is known here: cuCtxDestroy, or a
  // reset of the primary context. The call may still fail.
  virtual void context_will_end(Context& /*context*/) noexcept {}
  // Called after the call that has ended the context of this id (cuCtxGetId), or after a later call
  // that finds the context gone. Its arena has been emptied. May throw std::bad_alloc: the
  // listeners after this one are not told then.
  virtual void context_ended(std::uint64_t /*id*/) {}
};

// Memory that the driver does not free with a context: pages, a pool's blocks. The destructor gives
// it back to the driver, so it must not run under a lock. The object is made before the context
// ends, because nothing may fail when the context ends.
struct Leftovers {
  std::shared_ptr<void> memory;
  CUdevice device = 0;
  // The number of the newest ContextEnd when the context was found gone. The object is kept until
  // all ContextEnds up to that number that concern the device are over: their driver calls may
  // still wait for work that uses the memory.
  std::uint64_t end = 0;
  std::unique_ptr<Leftovers> next = nullptr;
};

// Counts the references to a context that the program was seen to take: the driver does not tell
// how many there are. If the program took one that was not seen, the count is too low, and cubfc
// believes too early that the last reference is given up. That only costs a wait.
struct References {
  int held = 0;
  int leaving = 0;  // driver calls under way that give one up, none of them the last
};

// Which of our threads use which context, and which driver calls under way may end it. Thread-safe;
// its lock is never held across a driver call.
class ContextUses {
 private:
  friend class ContextUse;
  friend class ContextEnd;
  friend class Contexts;

  void wait_for_ends(std::unique_lock<std::mutex>& lock, const Context& context);
  void taken(References& references);
  void forgotten(References& references);
  std::unique_ptr<Leftovers> keep(std::unique_ptr<Leftovers> leftovers, CUdevice device) noexcept;
  std::unique_ptr<Leftovers> take_unneeded() noexcept;

  std::mutex mutex_;  // guards all below, each Context's `users` and `ends`, and all References
  std::condition_variable changed_;
  std::uint64_t last_end_ = 0;
  ContextEnd* ends_ = nullptr;  // under way, the oldest first
  std::unique_ptr<Leftovers> leftovers_;
};

// Made before and destroyed after a driver call that may end contexts, on the program's thread
// (hook/context.cpp). As long as it lives, our own threads are kept out of the contexts that may
// end.
class ContextEnd {
 public:
  using Which = WhichContexts;
  enum class Call : bool { kEndsIt, kGivesUpReference };

  // Tells the listeners, and waits up to 2 seconds until our threads have left the contexts that
  // may end. If the call gives up a reference that is not the last, only counts that.
  ContextEnd(Contexts& contexts, const Which& which, Call call);
  // Called once, with the driver's answer: drops the contexts that have ended and tells the
  // listeners.
  void answered(CUresult result) noexcept;
  ~ContextEnd();
  ContextEnd(const ContextEnd&) = delete;
  ContextEnd& operator=(const ContextEnd&) = delete;

 private:
  friend class ContextUses;

  bool is_not_last();
  void keep_others_out();
  bool concerns(const Context& context) const;
  void find_what_ends();

  Contexts& contexts_;
  const Which which_;
  const Call call_;
  References* references_ = nullptr;  // the call gives up one of these
  bool last_ = true;                  // false: other references are left
  // Our threads are kept out of each context in this range of the list of contexts (`end_` is not
  // in the range) for which concerns() is true.
  Context* first_ = nullptr;
  Context* end_ = nullptr;
  std::uint64_t number_ = 0;    // among all ends
  ContextEnd* next_ = nullptr;  // in the list of ends under way
  // The context that the call will end, if that is known.
  Context* ending_ = nullptr;
  std::uint64_t ending_id_ = 0;
  CUcontext ending_handle_ = nullptr;
};

}  // namespace cubfc
