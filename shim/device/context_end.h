// How a context ends. The driver's call that ends one, or gives up a reference to one, is made
// while a ContextEnd lives. Before the call it keeps our own threads out of what may end and tells
// those who have something there; after the call it finds out what has ended, and tells them.
#pragma once

#include <cuda.h>

#include <atomic>
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

// Who has something in contexts. Told in the order of Contexts::tell(), without any lock, by the
// thread that makes the driver's call.
class ContextListener {
 public:
  virtual ~ContextListener() = default;
  // Before the call: some context may end by it. May wait for work on a device.
  virtual void context_may_end() noexcept {}
  // Then: this one will end, unless the driver fails.
  virtual void context_will_end(Context& /*context*/) noexcept {}
  // After the call: the context of this id has ended, and its arena is dropped.
  virtual void context_ended(std::uint64_t id) = 0;
};

// What does not go with a context. Its destructor gives it back to the driver.
struct Leftovers {
  std::shared_ptr<void> memory;
  CUdevice device = 0;
  std::uint64_t end = 0;  // the last one that had begun when the context was found to be gone
  std::unique_ptr<Leftovers> next = nullptr;
};

// References to a context that the program was seen to take. The driver does not tell how many
// there are; one that was not seen makes us take a reference for the last that is not.
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

// Around the driver's call, made by the program's thread (the wrappers of cuCtxDestroy,
// cuDevicePrimaryCtxRelease and their like).
class ContextEnd {
 public:
  // What the call may end: the context of this handle if it is not nullptr, else contexts of this
  // device, else any.
  struct Which {
    CUcontext handle = nullptr;
    std::optional<CUdevice> device = std::nullopt;
  };
  enum class Call : bool { kEndsIt, kGivesUpReference };

  // Waits for our own threads that use what may end, but not for long. A reference that is not the
  // last ends nothing: then nobody is told and nothing waits.
  ContextEnd(Contexts& contexts, const Which& which, Call call);
  // To be called with the driver's answer.
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
