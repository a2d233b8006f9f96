// How a context ends. The driver's call that ends one, or gives up a reference to one, is made
// while a ContextEnd lives. Before the call it keeps our own threads out of what may end and tells
// those who have something there; after the call it finds out what has ended, and tells them.
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

// Who has something in contexts. Told in the order of Contexts::add_listener(), under no lock, by
// the thread that makes the driver's call. Not told when a reference that is not the last is given
// up.
class ContextListener {
 public:
  virtual ~ContextListener() = default;
  // Before the driver's call: one or more contexts may end by it. May wait for work on a device.
  virtual void context_may_end(const WhichContexts& /*which*/) noexcept {}
  // Then, only if the call is to end one context and it is known here: cuCtxDestroy, or a reset of
  // the primary one. It may still fail.
  virtual void context_will_end(Context& /*context*/) noexcept {}
  // After the call, or a later one that finds it gone: this context (cuCtxGetId) has ended, and its
  // arena is dropped. May throw std::bad_alloc: who comes after it is then not told.
  virtual void context_ended(std::uint64_t /*id*/) {}
};

// What the driver does not free with a context: pages, a pool's blocks. Destroying it gives them
// back to the driver, so not under a lock. Made ahead, because nothing may fail when a context
// ends.
struct Leftovers {
  std::shared_ptr<void> memory;
  CUdevice device = 0;
  // The newest ContextEnd when the context was found to be gone: this is kept until all up to that
  // one which concern the device are over.
  std::uint64_t end = 0;
  std::unique_ptr<Leftovers> next = nullptr;
};

// Counts the references to a context that the program was seen to take; the driver does not tell.
// If one was not seen, a reference is taken for the last too early, which costs a wait only.
struct References {
  int held = 0;
  int leaving = 0;  // driver calls under way that give one up, none of them the last
};

// Who uses which context, against who may end it. Thread-safe; its lock is never held across a
// driver call.
class ContextUses {
 private:
  friend class ContextUse;
  friend class ContextEnd;
  friend class Contexts;

  void wait_for_ends(std::unique_lock<std::mutex>& lock, const Context& context);
  void taken(References& references);
  void forgotten(References& references);
  void keep(std::unique_ptr<Leftovers> leftovers, CUdevice device) noexcept;
  std::unique_ptr<Leftovers> take_unneeded() noexcept;

  std::mutex mutex_;  // guards all below, each Context's `users` and `ends`, and all References
  std::condition_variable changed_;
  std::uint64_t last_end_ = 0;
  ContextEnd* ends_ = nullptr;  // under way, the oldest first
  std::unique_ptr<Leftovers> leftovers_;
};

// Made before and destroyed after a driver call that may end contexts, on the program's thread
// (hook/context.cpp). What may end is kept from our own threads as long as it lives.
class ContextEnd {
 public:
  using Which = WhichContexts;
  enum class Call : bool { kEndsIt, kGivesUpReference };

  // Tells the listeners, and waits up to 2 seconds until our threads have left what may end. For a
  // reference that is not the last: does nothing but count it.
  ContextEnd(Contexts& contexts, const Which& which, Call call);
  // Once, with the driver's answer: drops what has ended and tells the listeners.
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
  References* references_ = nullptr;  // one of which the call gives up
  bool last_ = true;                  // or it ends the context in any case
  // What our threads are kept out of: from `first_` up to `end_` in the list of contexts, those
  // that it concerns.
  Context* first_ = nullptr;
  Context* end_ = nullptr;
  std::uint64_t number_ = 0;    // among all ends
  ContextEnd* next_ = nullptr;  // in the list of those under way
  // What the call will end, if that is known.
  Context* ending_ = nullptr;
  std::uint64_t ending_id_ = 0;
  CUcontext ending_handle_ = nullptr;
};

}  // namespace cubfc
