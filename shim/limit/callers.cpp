#include "shim/limit/callers.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "arena/kept_errno.h"
#include "shim/loader/mapped_file.h"
#include "shim/record/trace_recorder.h"

namespace cubfc {

Callers::Callers(figures::ProcessFigures& process, TraceRecorder* trace, bool told) noexcept
    : process_(process), trace_(trace), told_(told) {
  process_.callers[0].set("unknown");
  process_.num_callers.store(1, std::memory_order_release);
}

// Called by find() on the first call from an address, and after another address has taken its slot
// of the cache. The program's call may be a point at which the thread can be cancelled; in here
// cancellation is off.
[[gnu::noinline]] arena::Caller Callers::look_up(std::uintptr_t address) {
  const KeptErrno kept;
  int cancellation = PTHREAD_CANCEL_ENABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
  arena::Caller caller = 0;
  try {
    const std::lock_guard lock(mutex_);
    if (const auto number = told_ ? find_object(address) : std::optional(arena::Caller{0})) {
      caller = *number;
      known_[slot_of(address)].store(std::uint64_t{address} << 8 | caller,
                                     std::memory_order_relaxed);
    }
  } catch (const std::bad_alloc&) {  // not known this time
  }
  pthread_setcancelstate(cancellation, nullptr);
  return caller;
}

// The number of the object that the address lies in. Nothing when the kernel does not tell. If an
// object is loaded at the address of an unloaded one, the answer is the number of the unloaded one.
std::optional<arena::Caller> Callers::find_object(std::uintptr_t address) {
  for (const Object& each : objects_) {
    if (address - each.start < each.end - each.start) {
      return each.number;
    }
  }
  const std::optional<MappedFile> file = mapped_file_at(address);
  if (!file) {
    return std::nullopt;
  }
  const std::string name = file->path.substr(file->path.rfind('/') + 1);
  const std::uint32_t known = process_.num_callers.load(std::memory_order_relaxed);
  const arena::Caller number = number_of(name.empty() ? "generated code" : name);
  if (trace_ != nullptr && number >= known) {
    trace_->record({.kind = trace::Kind::kCaller, .caller = number}, file->path);
  }
  objects_.push_back({file->start, file->end, number});
  return number;
}

arena::Caller Callers::number_of(const std::string& name) {
  const std::uint32_t count = process_.num_callers.load(std::memory_order_relaxed);
  for (std::uint32_t i = 1; i < count; ++i) {
    if (process_.callers[i].get() == name.substr(0, process_.callers[i].characters.size() - 1)) {
      return static_cast<arena::Caller>(i);
    }
  }
  if (count == arena::kCallers) {
    return arena::kCallers - 1;
  }
  process_.callers[count].set(count + 1 == arena::kCallers ? "all others" : name);
  process_.num_callers.store(count + 1, std::memory_order_release);
  return static_cast<arena::Caller>(count);
}

}  // namespace cubfc
