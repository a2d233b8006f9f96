#include "shim/sleep/sleeper.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <utility>

#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/loader/no_cancellation.h"
#include "shim/tell/format.h"
#include "shim/tell/log.h"
#include "shim/tell/program.h"

namespace cubfc {
namespace {

// Told when the host has no memory. So short that a std::string of it needs none.
constexpr const char* kNoMemory = "no host memory";

// Whether this thread moves memory: it is between begin() and end().
constinit thread_local bool is_mover = false;

}  // namespace

Sleeper::Sleeper(const DriverFunctions& driver, const config::Policy& policy, bool is_wanted,
                 Parts parts)
    : driver_(driver),
      its_(parts),
      is_wanted_(is_wanted),
      folder_(policy.sleep_host.value ? absolute_path(expanded_path(*policy.sleep_host.value))
                                      : ""),
      buffer_(driver, parts.contexts) {
  if (is_wanted_) {
    gates::set_keeper(this);
    its_.contexts.add_listener(*this);
  }
}

// ---- the program's calls

// Called on the program's thread, for a call at a stopped gate. The thread's cell counts the call;
// while the call waits here, the cell must not, because sleep() waits for calls under way.
CUresult Sleeper::at_gate(const gates::Call& call) {
  was_called_.store(true);
  gates::Cell& cell = gates::own_cell();
  // Three kinds of calls pass. In a child: the driver refuses them. From inside another call: that
  // one has passed its gate, so the memory is there. By the thread that moves memory: a tool that
  // hooks the driver has made it.
  if (mark_.is_in_child() || cell.calls > 1 || is_mover) {
    return CUDA_SUCCESS;
  }
  if (only_asks_of_others(call)) {
    return CUDA_SUCCESS;
  }
  const NoCancellation no_cancellation;
  while (state_.load(std::memory_order_seq_cst) != State::kAwake) {
    std::atomic_ref(cell.calls).store(0);
    stopped_function_.store(call.function.data());
    stopped_calls_.fetch_add(1);
    const CUresult result = bring_back();
    if (stopped_calls_.fetch_sub(1) == 1) {
      stopped_function_.store(nullptr);
    }
    std::atomic_ref(cell.calls).store(1);  // before the state is looked at once more
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  if (call.hands_out) {
    note_handed_out(call);
  }
  return CUDA_SUCCESS;
}

// Whether the call only asks about addresses that are in no arena. Libraries ask about those of the
// host all the time. Such a call needs no memory of the program's.
bool Sleeper::only_asks_of_others(const gates::Call& call) const noexcept {
  constexpr auto kAsk = std::to_array<std::string_view>(
      {"cuMemGetAddressRange", "cuPointerGetAttribute", "cuPointerGetAttributes"});
  return std::find(kAsk.begin(), kAsk.end(), call.function) != kAsk.end() &&
         std::none_of(call.arguments.begin(), call.arguments.end(), [&](std::uintptr_t argument) {
           return its_.contexts.owner_of_region(argument) != nullptr;
         });
}

// Which argument is handed out differs by function and version. So each argument that is an address
// in an arena is taken for it. A few functions say how many bytes, in the argument after it.
void Sleeper::note_handed_out(const gates::Call& call) noexcept try {
  if (call.function == "cuEGLStreamProducerPresentFrame") {  // addresses are in a structure
    hands_out_frames_.store(true);
  }
  const bool has_bytes = call.function == "cuMemGetHandleForAddressRange" ||
                         call.function == "cuMemSetAccess" ||
                         call.function == "cuMulticastBindAddr";
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const arena::Address address = call.arguments[i];
    const Context* const context = its_.contexts.owner_of_region(address);
    if (context == nullptr) {
      continue;
    }
    const bool is_followed = has_bytes && i + 1 < call.arguments.size();
    const std::uint64_t bytes = is_followed ? std::max<std::uint64_t>(call.arguments[i + 1], 1) : 1;
    const arena::Address end = address + bytes > address ? address + bytes : ~arena::Address{0};
    const std::lock_guard lock(mutex_);
    handed_out_.insert({context->id.load(std::memory_order_acquire), address, end});
  }
} catch (const std::bad_alloc&) {
  hands_out_frames_.store(true);  // nothing may be taken away any more
}

bool Sleeper::was_called() noexcept {
  const bool was = was_called_.exchange(false);
  gates::stop_next_call();
  return was;
}

// ---- one thread at a time moves memory

// Waits until nobody moves memory. Then, if the state is `from`, sets it to `to`, and this thread
// must call end(). Returns whether it was.
bool Sleeper::begin(State from, State to) noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    const State now = state_.load();
    return now == State::kAwake || now == State::kAsleep;
  });
  if (state_.load() != from) {
    return false;
  }
  state_.store(to, std::memory_order_seq_cst);
  is_mover = true;
  return true;
}

void Sleeper::end(State state) noexcept {
  if (state == State::kAwake) {
    gates::open();  // before another thread may begin(), and stop them
  }
  {
    const std::lock_guard lock(mutex_);
    if (state == State::kAsleep) {
      forget_ended();  // what has ended by now; context_ended() forgets what ends later
    }
    state_.store(state, std::memory_order_seq_cst);
  }
  is_mover = false;
  changed_.notify_all();
}

// Why neither sleep() nor wake() can be called here; empty if they can.
std::string Sleeper::why_not_at_all() const {
  if (!is_wanted_) {
    return "it was not started with CUBFC_SLEEP=true (`cubfc run --sleep`)";
  }
  return mark_.is_in_child() || gates::own_cell().calls > 0 ? "it is inside a call of the driver's"
                                                            : "";
}

// ---- to sleep

Sleeper::Outcome Sleeper::sleep() noexcept try {
  if (std::string reason = why_not_at_all(); !reason.empty()) {
    return {false, std::move(reason)};
  }
  if (!begin(State::kAwake, State::kFalling)) {
    return {true, "it is asleep already: " + text_of_sleep()};
  }
  std::string refused;
  try {
    refused = fall_asleep();
  } catch (const std::bad_alloc&) {
    // Nothing is away: after the first page was taken away, nothing needs host memory.
  }
  const std::uint64_t away = bytes_away_;
  if (away == 0) {
    let_pages_go();
  }
  has_told_failure_ = false;
  end(away > 0 ? State::kAsleep : State::kAwake);
  if (away == 0) {
    refused = refused.empty() ? kNoMemory : refused;
    log::info("not put to sleep: {}", refused);
    return {false, refused};
  }
  std::string text = text_of_sleep();
  log::info("asleep: {}", text);
  return {true, text};
} catch (...) {  // the host had no memory for a text; what was done is done
  return is_asleep() ? Outcome{true, "it is asleep"} : Outcome{false, kNoMemory};
}

std::string Sleeper::text_of_sleep() const {
  std::uint64_t outside = 0;  // what the program has of its devices outside of arenas
  its_.contexts.devices().for_each([&](Device& device) { outside += device.use.beside_arenas(); });
  return format("{} of GPU memory given back; {} lie in {} meanwhile{}", bytes_text(bytes_away_),
                bytes_text(bytes_kept_),
                folder_.empty() ? "the host's memory" : "a file in " + folder_,
                outside == 0 ? "" : format("; {} stay, outside of the arena", bytes_text(outside)));
}

// ---- to wake

Sleeper::Outcome Sleeper::wake() noexcept try {
  if (std::string reason = why_not_at_all(); !reason.empty()) {
    return {false, std::move(reason)};
  }
  const std::uint64_t bytes = bytes_away_;
  const bool was_asleep = is_asleep();
  const CUresult result = bring_back();
  if (result != CUDA_SUCCESS) {
    return {false, format("its {} of GPU memory could not be brought back: driver says {}; it "
                          "sleeps on, and the same can be tried again",
                          bytes_text(bytes), name_of(driver_, result))};
  }
  return {true, was_asleep ? format("{} of GPU memory are back", bytes_text(bytes))
                           : std::string("it was awake")};
} catch (...) {
  return is_asleep() ? Outcome{false, kNoMemory} : Outcome{true, "it is awake"};
}

void Sleeper::tell_awake(std::uint64_t bytes, std::chrono::steady_clock::duration time) noexcept
    try {
  log::info("awake: {} of GPU memory are back after {} ms", log::bytes(bytes),
            std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
} catch (const std::bad_alloc&) {  // nobody is told
}

// Contexts may end while their program sleeps: their memory is gone then. If a thread is in
// bring_back(), that thread forgets it, or the next bring_back() does.
void Sleeper::context_ended(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(handed_out_, [id](const HandedOut& each) { return each.context_id == id; });
  if (state_.load() == State::kAsleep) {
    forget_ended();
  }
}

void Sleeper::forget_ended() {
  std::erase_if(parts_, [this](SleepingPart& part) {
    const bool has_ended = part.has_ended();
    if (has_ended) {
      tell_away(part, 0);
    }
    return has_ended;
  });
  if (parts_.empty()) {
    store_.free();
    bytes_kept_ = 0;
  }
}

// ---- what is away

// Enters into the device's figures, and into bytes_away_, how much of each part is away.
void Sleeper::tell_away() noexcept {
  for (SleepingPart& part : parts_) {
    tell_away(part, part.has_ended() || part.is_lost ? 0 : part.bytes_away());
  }
}

void Sleeper::tell_away(SleepingPart& part, std::uint64_t bytes) noexcept {
  bytes_away_ += bytes - part.told_away;
  part.context->device.use.sleeps(part.told_away, bytes);
  part.told_away = bytes;
}

void Sleeper::let_pages_go() noexcept {
  for (const SleepingPart& part : parts_) {
    if (!part.has_ended()) {
      part.memory->let_go();
    }
  }
  parts_.clear();
  store_.free();
}

}  // namespace cubfc
