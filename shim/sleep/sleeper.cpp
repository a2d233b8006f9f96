#include "shim/sleep/sleeper.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "arena/stats.h"
#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/loader/no_cancellation.h"
#include "shim/patience.h"
#include "shim/sleep/reach.h"
#include "shim/sleep/threads_in_calls.h"
#include "shim/source/memory_sources.h"
#include "shim/source/search.h"
#include "shim/source/unused_memory.h"
#include "shim/tell/format.h"
#include "shim/tell/log.h"
#include "shim/tell/program.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {
namespace {

using Clock = std::chrono::steady_clock;

// No page is smaller: the least granularity of physical memory that a driver has.
constexpr std::uint64_t kSmallestPage = 64 << 10;

// So short that a string of it takes no memory.
constexpr const char* kNoMemory = "no host memory";

// Whether this thread is in sleep() or wake().
constinit thread_local bool is_mover = false;

// Runs of pages side by side: calls what(first page, count) for each. `is_wanted`: for which pages.
template <typename Pages, typename IsWanted, typename What>
void for_each_run(Pages& pages, std::uint64_t page_bytes, IsWanted is_wanted, What what) {
  for (std::size_t first = 0; first < pages.size();) {
    if (!is_wanted(pages[first])) {
      ++first;
      continue;
    }
    std::size_t end = first + 1;
    while (end < pages.size() && is_wanted(pages[end]) &&
           pages[end].address == pages[end - 1].address + page_bytes) {
      ++end;
    }
    what(first, end - first);
    first = end;
  }
}

}  // namespace

Sleeper::Sleeper(const DriverFunctions& driver, const config::Policy& policy, bool is_wanted,
                 Parts parts)
    : driver_(driver),
      its_(parts),
      is_wanted_(is_wanted),
      folder_(policy.sleep_host.value ? absolute_path(expanded_path(*policy.sleep_host.value))
                                      : "") {
  if (is_wanted_) {
    gates::set_keeper(this);
    its_.contexts.add_listener(*this);
  }
}

std::uint64_t Sleeper::Part::bytes_away() const {
  return memory->page_size() *
         static_cast<std::uint64_t>(std::count_if(pages.begin(), pages.end(),
                                                  [](const Page& page) { return page.is_away; }));
}

// ---- the program's calls

// Called on the program's thread, for a call at a stopped gate. The thread's cell counts the call;
// while the call waits here, the cell must not, because sleep() waits for calls under way.
CUresult Sleeper::at_gate(const gates::Call& call) {
  was_called_.store(true);
  gates::Cell& cell = gates::own_cell();
  // In a child the driver refuses the call. A call from inside another call: that one's memory is
  // there, or it would not have passed. A call from inside sleep() or wake(): a tool that hooks the
  // driver has made it.
  if (mark_.is_in_child() || cell.calls > 1 || is_mover) {
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

// Which argument is the address is different for each function, so each is looked at. Where the
// function takes bytes, they follow the address; what is no size then only keeps more where it is.
void Sleeper::note_handed_out(const gates::Call& call) noexcept try {
  if (call.function == "cuEGLStreamProducerPresentFrame") {  // addresses are in a structure
    hands_out_frames_.store(true);
  }
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const CUdeviceptr address = call.arguments[i];
    const Context* const context = its_.contexts.owner_of_region(address);
    if (context == nullptr) {
      continue;
    }
    const std::uint64_t id = context->id.load(std::memory_order_acquire);
    const std::lock_guard lock(mutex_);
    handed_out_.emplace(id, address);
    const std::uint64_t bytes = i + 1 < call.arguments.size() ? call.arguments[i + 1] : 0;
    if (bytes > 0 && its_.contexts.owner_of_region(address + bytes - 1) == context) {
      for (std::uint64_t at = 0; at < bytes; at += kSmallestPage) {
        handed_out_.emplace(id, address + at);
      }
      handed_out_.emplace(id, address + bytes - 1);
    }
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
    return {true, format("it is asleep already: {} of GPU memory are given back",
                         bytes_text(bytes_away_))};
  }
  std::string refused;
  try {
    refused = fall_asleep();
  } catch (const std::bad_alloc&) {
    // Nothing is away: after the first page was taken away, nothing needs host memory.
  }
  const std::uint64_t away = bytes_away_;
  const std::uint64_t kept = store_.bytes();
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
  std::uint64_t outside = 0;  // what the program has of its devices outside of arenas
  its_.contexts.devices().for_each([&](Device& device) { outside += device.use.beside_arenas(); });
  std::string text =
      format("{} of GPU memory given back; {} lie in {} meanwhile{}", bytes_text(away),
             bytes_text(kept), folder_.empty() ? "the host's memory" : "a file in " + folder_,
             outside == 0 ? "" : format("; {} stay, outside of the arena", bytes_text(outside)));
  log::info("asleep: {}", text);
  return {true, text};
} catch (...) {
  return {is_asleep(), kNoMemory};
}

// Returns an empty string when the memory is away; else why not, and then it is where it was, but
// the pages may be held, and the gates stopped.
std::string Sleeper::fall_asleep() {
  const auto until = Clock::now() + patience::kForSleep;
  if (const std::string who = who_needs_no_gate(); !who.empty()) {
    return "it " + who;
  }
  if (std::string reason = why_not_now(); !reason.empty()) {
    return reason;
  }
  for (;;) {
    if (std::string reason = wait_until_idle(until); !reason.empty()) {
      return reason;
    }
    if (std::string reason = stop_program(until); !reason.empty()) {
      return reason;
    }
    if (std::string reason = why_not_now(); !reason.empty()) {  // once more: it stays so now
      return reason;
    }
    if (is_idle()) {
      break;
    }
    gates::open();  // work was submitted before the gates were stopped
  }
  its_.unused.trim(true);
  if (std::string reason = hold_pages(); !reason.empty()) {
    return reason;
  }
  if (std::string reason = store_.allocate(plan(), folder_); !reason.empty()) {
    return reason;
  }
  if (std::string reason = copy_out(); !reason.empty()) {
    return reason;
  }
  take_away();
  return bytes_away_ > 0 ? "" : "the driver has taken back none of its memory";
}

// Why the program's memory cannot be taken away at this moment; empty if it can. Calls nothing that
// takes a lock of the dynamic linker's: a thread at a stopped gate may hold it.
std::string Sleeper::why_not_now() const {
  if (driver_.cuCtxRecordEvent == nullptr) {
    return "the driver is older than 12.5, and cannot say whether all work is done";
  }
  if (its_.captures.any_open()) {
    return "one of its streams is being captured";
  }
  if (device_launches_.load()) {
    return "it has a graph that kernels can launch, so work may begin by itself";
  }
  if (hands_out_frames_.load()) {
    return "it has given frames to an EGL stream, and others may read them";
  }
  if (its_.contexts.greens().any()) {
    return "it has green contexts, of which the driver does not say whether their work is done";
  }
  bool any = false;
  for (Context* context = its_.contexts.first(); context != nullptr; context = context->next) {
    any = any || (context->alive() && context->memory->movable() != nullptr &&
                  context->arena.stats().pool_bytes > 0);
  }
  return any ? "" : "it has no memory of an arena under CUBFC_ALLOCATOR=vmm";
}

// Who has called while the program was to be put to sleep.
std::string Sleeper::why_given_up() const {
  if (process_ends_.load()) {
    return "it is about to end";
  }
  const char* const function = stopped_function_.load();
  return format("it is not idle: it has called {} meanwhile",
                function == nullptr ? "the driver" : function);
}

bool Sleeper::is_idle() const {
  for (Context* context = its_.contexts.first(); context != nullptr; context = context->next) {
    const WaitPermit permit(its_.captures);
    if (context->alive() && !(permit.given() && its_.waiting.fences().is_idle(*context, permit))) {
      return false;
    }
  }
  return true;
}

std::string Sleeper::wait_until_idle(Clock::time_point until) {
  while (!is_idle()) {
    if (gives_up()) {
      return why_given_up();
    }
    if (Clock::now() >= until) {
      return format("its work on the GPU has not ended within {} s", patience::kForSleep.count());
    }
    std::this_thread::sleep_for(patience::kLongestPause);
  }
  return "";
}

// Stops the gates, and waits until no thread is in a call.
std::string Sleeper::stop_program(Clock::time_point until) {
  if (!gates::stop()) {
    return "this kernel has no membarrier(2), without which its threads cannot be stopped";
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  const ThreadsInCalls threads = wait_for_threads(left, [this] { return gives_up(); });
  if (gives_up()) {
    return why_given_up();
  }
  switch (threads.found) {
    case ThreadsInCalls::Found::kNone:
      return "";
    case ThreadsInCalls::Found::kSome:
      return format("its thread {} has been in a call of the driver's for {} s", threads.thread,
                    patience::kForSleep.count());
    case ThreadsInCalls::Found::kUnknown:
      break;
  }
  return format("it cannot be seen whether its thread {} is in a call of the driver's",
                threads.thread);
}

// Makes `parts_`, without pages, of all contexts whose arenas can do without their memory.
std::string Sleeper::hold_pages() {
  for (Context* context = its_.contexts.first(); context != nullptr; context = context->next) {
    const std::uint64_t id = context->id.load(std::memory_order_acquire);
    MovablePages* const memory = context->memory->movable();
    if (id == 0 || memory == nullptr) {
      continue;
    }
    parts_.reserve(parts_.size() + 1);
    if (!memory->hold()) {
      return "one of its threads has been waiting for the driver to give it memory for 2 s";
    }
    if (context->id.load(std::memory_order_acquire) != id) {  // it has ended meanwhile
      memory->let_go();
      continue;
    }
    parts_.push_back({context, id, memory, {}});
  }
  return "";
}

void Sleeper::let_pages_go() noexcept {
  for (const Part& part : parts_) {
    if (part.context->id.load(std::memory_order_acquire) == part.id) {
      part.memory->let_go();
    }
  }
  parts_.clear();
  store_.free();
  bytes_away_ = 0;
}

// Notes which pages are to go, which bytes of theirs, and where in the store these are to lie.
// Returns how many they are. A page in which a block lies that others may reach stays.
std::uint64_t Sleeper::plan() {
  std::uint64_t bytes = 0;
  for (Part& part : parts_) {
    const std::uint64_t page_bytes = part.memory->page_size();
    std::set<arena::Address> staying;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, address] : handed_out_) {
        if (id != part.id) {
          continue;
        }
        staying.insert(address / page_bytes * page_bytes);
        if (const auto block = part.context->arena.find_containing(address)) {
          for (arena::Address at = block->address / page_bytes * page_bytes;
               at < block->address + block->block_bytes; at += page_bytes) {
            staying.insert(at);
          }
        }
      }
    }
    for (const arena::Address address : part.memory->mapped_pages()) {
      if (!staying.contains(address)) {
        part.pages.push_back({address, {}});
      }
    }
    for (const arena::BlockSnapshot& block : part.context->arena.snapshot()) {
      if (block.state != arena::BlockState::kLive) {
        continue;
      }
      const arena::Address end = block.address + block.bytes;
      auto page = std::upper_bound(
          part.pages.begin(), part.pages.end(), block.address,
          [&](arena::Address at, const Page& each) { return at < each.address + page_bytes; });
      for (; page != part.pages.end() && page->address < end; ++page) {
        const arena::Address from = std::max(block.address, page->address);
        page->live.push_back({from, std::min(end, page->address + page_bytes) - from, 0});
      }
    }
    for (Page& page : part.pages) {
      std::sort(page.live.begin(), page.live.end(),
                [](const auto& one, const auto& other) { return one.address < other.address; });
      for (Page::Piece& piece : page.live) {
        piece.place = std::exchange(bytes, bytes + piece.bytes);
      }
    }
  }
  return bytes;
}

// A buffer as large as a page; nullptr if the host has no memory for one. Precondition: a context
// is current.
char* Sleeper::stage() {
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) {
    bytes = std::max(bytes, part.memory->page_size());
  }
  const bool is_alive = std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.id == stage_.context_id && part.context->id.load() == part.id;
  });
  if (stage_.memory != nullptr && is_alive && stage_.bytes >= bytes) {
    return stage_.memory;
  }
  unsigned long long id = 0;
  void* memory = nullptr;
  stage_ = {};
  if (driver_.cuMemHostAlloc != nullptr && driver_.cuCtxGetId(nullptr, &id) == CUDA_SUCCESS &&
      driver_.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS) {
    stage_ = {static_cast<char*>(memory), bytes, id};
  }
  return stage_.memory;
}

// Calls copy(first address, bytes, their place in a buffer) for the bytes of the page from the
// first live one to the last: one driver call, also where other blocks lie between.
template <typename Copy>
CUresult Sleeper::copy_page(const Page& page, Copy copy) {
  const arena::Address first = page.live.front().address;
  const arena::Address end = page.live.back().address + page.live.back().bytes;
  char* const buffer = stage();
  return buffer == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : copy(first, end - first, buffer);
}

std::string Sleeper::copy_out() {
  for (const Part& part : parts_) {
    const ContextUse use(its_.contexts, *part.context);
    const RelaxedCapture relaxed(driver_);
    const PushedContext inside(driver_, part.context->handle);
    for (const Page& page : part.pages) {
      if (gives_up()) {
        return why_given_up();
      }
      if (page.live.empty()) {
        continue;
      }
      const CUresult result =
          !use.allowed() || !inside.pushed() || part.context->id.load() != part.id
              ? CUDA_ERROR_CONTEXT_IS_DESTROYED
              : copy_page(page, [&](arena::Address first, std::uint64_t bytes, char* buffer) {
                  const CUresult copied = driver_.cuMemcpyDtoH_v2_ptds(buffer, first, bytes);
                  for (const Page::Piece& piece : page.live) {
                    std::memcpy(store_.data() + piece.place, buffer + (piece.address - first),
                                piece.bytes);
                  }
                  return copied;
                });
      if (result != CUDA_SUCCESS) {
        part.context->note(result);
        return format("its bytes could not be copied to the host: driver says {}",
                      name_of(driver_, result));
      }
    }
  }
  return "";
}

// What the driver does not unmap stays where it is.
void Sleeper::take_away() {
  for (Part& part : parts_) {
    const ContextUse use(its_.contexts, *part.context);
    const PushedContext inside(driver_, part.context->handle);
    const std::uint64_t page_bytes = part.memory->page_size();
    for_each_run(
        part.pages, page_bytes, [](const Page&) { return true; },
        [&](std::size_t first, std::size_t count) {
          if (!use.allowed() ||
              part.memory->take_away(part.pages[first].address, count) != CUDA_SUCCESS) {
            return;
          }
          for (std::size_t i = first; i < first + count; ++i) {
            part.pages[i].is_away = true;
            part.pages[i].lacks_bytes = true;
          }
          bytes_away_ += count * page_bytes;
        });
    part.context->device.use.fell_asleep(part.bytes_away());
  }
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
  return {false, kNoMemory};
}

// Waits until nobody moves memory, and wakes the program if it is asleep then. CUDA_SUCCESS: it is
// awake.
CUresult Sleeper::bring_back() noexcept {
  if (!begin(State::kAsleep, State::kWaking)) {
    return CUDA_SUCCESS;
  }
  const auto began = Clock::now();
  const std::uint64_t away = bytes_away_;
  CUresult result = CUDA_SUCCESS;
  try {
    forget_ended();
    for (Part& part : parts_) {
      result = result == CUDA_SUCCESS ? get_memory(part) : result;
    }
    for (Part& part : parts_) {
      result = result == CUDA_SUCCESS ? put_back(part) : result;
    }
  } catch (const std::bad_alloc&) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) {
    let_pages_go();
    end(State::kAwake);
    tell_awake(away, Clock::now() - began);
    return CUDA_SUCCESS;
  }
  for (const Part& part : parts_) {
    part.memory->drop_memory();
  }
  const bool is_told = std::exchange(has_told_failure_, true);
  end(State::kAsleep);
  log::at(is_told ? log::Level::kDebug : log::Level::kWarn,
          "the memory of the sleeping program could not be brought back: driver says {}; the call "
          "fails, and the next one tries again",
          name_of(driver_, result));
  return result;
}

void Sleeper::tell_awake(std::uint64_t bytes, Clock::duration time) noexcept try {
  log::info("awake: {} of GPU memory are back after {} ms", log::bytes(bytes),
            std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
} catch (const std::bad_alloc&) {  // nobody is told
}

// Contexts may end while their program sleeps: their memory is gone then. If a thread is in wake(),
// that thread forgets it, or the next wake() does.
void Sleeper::context_ended(std::uint64_t /*id*/) {
  const std::lock_guard lock(mutex_);
  if (state_.load() == State::kAsleep) {
    forget_ended();
  }
}

void Sleeper::forget_ended() {
  std::erase_if(parts_, [](const Part& part) {
    const bool has_ended = part.context->id.load() != part.id;
    if (has_ended) {
      part.context->device.use.awoke(part.bytes_away());
    }
    return has_ended;
  });
}

// Gets memory for all pages of the context. While there is too little, looks for more as any
// request does: other processes are asked, and those that end are waited for.
CUresult Sleeper::get_memory(Part& part) {
  const ContextUse use(its_.contexts, *part.context);
  if (!use.allowed()) {
    return CUDA_ERROR_NOT_READY;  // it may be about to end
  }
  const PushedContext inside(driver_, part.context->handle);
  if (!inside.pushed()) {
    return inside.result();
  }
  Search search(its_.sources, part.context->device, {.bytes = part.bytes_away(), .counted = true});
  CUresult result = CUDA_SUCCESS;
  do {
    result = part.memory->get_memory();
  } while (result == CUDA_ERROR_OUT_OF_MEMORY && search.finds_more());
  return result;
}

CUresult Sleeper::put_back(Part& part) {
  const ContextUse use(its_.contexts, *part.context);
  if (!use.allowed()) {
    return CUDA_ERROR_NOT_READY;
  }
  const PushedContext inside(driver_, part.context->handle);
  const std::uint64_t bytes_before = part.bytes_away();
  CUresult result = inside.result();
  for_each_run(
      part.pages, part.memory->page_size(), [](const Page& page) { return page.is_away; },
      [&](std::size_t first, std::size_t count) {
        if (result == CUDA_SUCCESS) {
          result = part.memory->put_back(part.pages[first].address, count);
        }
        for (std::size_t i = first; i < first + count && result == CUDA_SUCCESS; ++i) {
          part.pages[i].is_away = false;
        }
      });
  const RelaxedCapture relaxed(driver_);
  for (Page& page : part.pages) {
    if (result == CUDA_SUCCESS && page.lacks_bytes && !page.live.empty()) {
      result = copy_page(page, [&](arena::Address first, std::uint64_t bytes, char* buffer) {
        for (const Page::Piece& piece : page.live) {
          std::memcpy(buffer + (piece.address - first), store_.data() + piece.place, piece.bytes);
        }
        return driver_.cuMemcpyHtoD_v2_ptds(first, buffer, bytes);
      });
    }
    page.lacks_bytes = page.lacks_bytes && result != CUDA_SUCCESS;
  }
  part.context->note(result);
  part.context->device.use.awoke(bytes_before - part.bytes_away());
  return result;
}

}  // namespace cubfc
