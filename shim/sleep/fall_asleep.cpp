// How a program falls asleep: it is stopped, the bytes of its live blocks are copied to the host,
// and their pages are taken away.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "arena/stats.h"
#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/patience.h"
#include "shim/sleep/reach.h"
#include "shim/sleep/sleeper.h"
#include "shim/sleep/threads_in_calls.h"
#include "shim/source/unused_memory.h"
#include "shim/tell/format.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {

// Returns an empty string when the memory is away; else why not, and then it is where it was, but
// the pages may be held, and the gates stopped.
std::string Sleeper::fall_asleep() {
  const auto until = std::chrono::steady_clock::now() + patience::kForSleep;
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
    // Once more: while the program is stopped, the answers stay what they are.
    if (std::string reason = why_not_now(); !reason.empty()) {
      return reason;
    }
    if (const std::string who = who_needs_no_gate_by_now(); !who.empty()) {
      return "it " + who;
    }
    if (is_idle()) {
      break;
    }
    gates::open();  // work was submitted before the gates were stopped
  }
  // Before trim(): if the host has no room, the program stays awake and keeps its unused memory.
  if (std::string reason = store_.allocate(bytes_in_use(), folder_); !reason.empty()) {
    return reason;
  }
  its_.unused.trim(true);
  if (std::string reason = hold_pages(); !reason.empty()) {
    return reason;
  }
  bytes_kept_ = plan();
  if (bytes_kept_ > store_.bytes()) {  // a context has come meanwhile
    if (std::string reason = store_.allocate(bytes_kept_, folder_); !reason.empty()) {
      return reason;
    }
  }
  if (std::string reason = copy_out(); !reason.empty()) {
    return reason;
  }
  take_away();
  tell_away();
  return bytes_away_ > 0
             ? ""
             : "none of its memory can be given back: the driver keeps it, or others may "
               "reach all of it";
}

// Of all arenas that can do without their memory.
std::uint64_t Sleeper::bytes_in_use() const {
  std::uint64_t bytes = 0;
  for (Context* context = its_.contexts.first(); context != nullptr; context = context->next) {
    if (context->alive() && context->memory->movable() != nullptr) {
      bytes += context->arena.stats().bytes_in_use;
    }
  }
  return bytes;
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

// Each look records an event in each context, behind the work that is under way, and few should
// stand there at once: so the pauses between the looks grow.
std::string Sleeper::wait_until_idle(std::chrono::steady_clock::time_point until) {
  std::chrono::milliseconds pause{1};
  while (!is_idle()) {
    const auto next_look = std::chrono::steady_clock::now() + pause;
    pause = std::min(2 * pause, patience::kLongestPauseForSleep);
    while (std::chrono::steady_clock::now() < next_look) {
      if (gives_up()) {
        return why_given_up();
      }
      std::this_thread::sleep_for(patience::kLongestPause);
    }
    if (std::chrono::steady_clock::now() >= until) {
      return format("its work on the GPU has not ended within {} s", patience::kForSleep.count());
    }
  }
  return "";
}

// Stops the gates, and waits until no thread is in a call.
std::string Sleeper::stop_program(std::chrono::steady_clock::time_point until) {
  if (!gates::stop()) {
    return "this kernel has no membarrier(2), without which its threads cannot be stopped";
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      until - std::chrono::steady_clock::now());
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
  page_bytes_ = 0;
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
    parts_.push_back({context, id, memory});
    page_bytes_ = std::max(page_bytes_, memory->page_size());
  }
  return "";
}

// What of the part's arena others may reach: with each address that was handed out, all of the
// block in which it lies.
std::vector<Sleeper::HandedOut> Sleeper::handed_out_of(const SleepingPart& part) {
  std::vector<HandedOut> ranges;
  const std::lock_guard lock(mutex_);
  for (const HandedOut& each : handed_out_) {
    if (each.context_id != part.id) {
      continue;
    }
    ranges.push_back(each);
    for (arena::Address at = each.begin; at < each.end;) {
      const auto block = part.context->arena.find_live_from(at);
      if (!block || block->address >= each.end) {
        break;
      }
      at = block->address + block->block_bytes;
      ranges.push_back({part.id, block->address, at});
    }
  }
  return ranges;
}

// Notes which pages are to go, which bytes of theirs, and where in the store these are to lie.
// Returns how many bytes these are. A page in which a block lies that others may reach stays.
std::uint64_t Sleeper::plan() {
  std::uint64_t bytes = 0;
  for (SleepingPart& part : parts_) {
    const std::uint64_t page_bytes = part.memory->page_size();
    const std::vector<arena::BlockSnapshot> blocks = part.context->arena.snapshot();
    const std::vector<HandedOut> handed_out = handed_out_of(part);
    const auto stays = [&](arena::Address page) {
      return std::any_of(handed_out.begin(), handed_out.end(), [&](const HandedOut& each) {
        return each.begin < page + page_bytes && page < each.end;
      });
    };
    for (const arena::Address address : part.memory->mapped_pages()) {
      if (!stays(address)) {
        part.pages.push_back({address, {}});
      }
    }
    for (const arena::BlockSnapshot& block : blocks) {
      if (block.state != arena::BlockState::kLive) {
        continue;
      }
      const arena::Address end = block.address + block.bytes;
      auto page = std::upper_bound(part.pages.begin(), part.pages.end(), block.address,
                                   [&](arena::Address at, const SleepingPage& each) {
                                     return at < each.address + page_bytes;
                                   });
      for (; page != part.pages.end() && page->address < end; ++page) {
        const arena::Address from = std::max(block.address, page->address);
        page->live.push_back({from, std::min(end, page->address + page_bytes) - from, 0});
      }
    }
    for (SleepingPage& page : part.pages) {
      std::sort(page.live.begin(), page.live.end(),
                [](const auto& one, const auto& other) { return one.address < other.address; });
      for (SleepingPage::Piece& piece : page.live) {
        piece.place = std::exchange(bytes, bytes + piece.bytes);
      }
    }
  }
  return bytes;
}

std::string Sleeper::copy_out() {
  for (const SleepingPart& part : parts_) {
    const ContextUse use(its_.contexts, *part.context);
    const RelaxedCapture relaxed(driver_);
    const PushedContext inside(driver_, part.context->handle);
    char* buffer = nullptr;  // of the first page that has live bytes on
    for (const SleepingPage& page : part.pages) {
      if (gives_up()) {
        return why_given_up();
      }
      if (page.live.empty()) {
        continue;
      }
      const CUresult result = !use.allowed() || !inside.pushed() || part.has_ended()
                                  ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                  : copy_out(page, buffer);
      if (result != CUDA_SUCCESS) {
        part.context->note(result);
        return format("its bytes could not be copied to the host: driver says {}",
                      name_of(driver_, result));
      }
    }
  }
  return "";
}

CUresult Sleeper::copy_out(const SleepingPage& page, char*& buffer) {
  const arena::Address first = page.first_live();
  buffer = buffer == nullptr ? buffer_.of_bytes(page_bytes_) : buffer;
  if (buffer == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = driver_.cuMemcpyDtoH_v2_ptds(buffer, first, page.live_span());
  for (const SleepingPage::Piece& piece : page.live) {
    std::memcpy(store_.data() + piece.place, buffer + (piece.address - first), piece.bytes);
  }
  return result;
}

// What the driver does not unmap stays where it is.
void Sleeper::take_away() noexcept {
  for (SleepingPart& part : parts_) {
    const ContextUse use(its_.contexts, *part.context);
    const PushedContext inside(driver_, part.context->handle);
    part.for_each_run(/*is_away=*/false, [&](std::size_t first, std::size_t count) {
      const arena::Address address = part.pages[first].address;
      if (use.allowed() && !part.has_ended() &&
          part.memory->take_away(address, count) == CUDA_SUCCESS) {
        part.context->arena.memory_is_away(address, count * part.memory->page_size());
        for (std::size_t i = first; i < first + count; ++i) {
          part.pages[i].is_away = true;
          part.pages[i].lacks_bytes = true;
        }
      }
    });
  }
}

}  // namespace cubfc
