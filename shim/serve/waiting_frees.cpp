#include "shim/serve/waiting_frees.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "arena/epoch.h"
#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"

namespace cubfc {
namespace {

// More do not wait: a program may free faster than its GPU works for as long as it likes.
constexpr std::size_t kMostWaiting = 65'536;

// What another thread has in hand comes back when the driver has answered it.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

WaitingFrees::WaitingFrees(const DriverFunctions& driver, Contexts& contexts, Captures& captures)
    : driver_(driver), contexts_(contexts), captures_(captures) {
  contexts.tell(*this);
}

bool WaitingFrees::add(Context& context, CUdeviceptr address, const StreamId* order) {
  const std::lock_guard lock(mutex_);
  // What needs memory comes before any change.
  if (open_.empty()) {
    open_.emplace_back();
  }
  Epoch& open = open_.front();
  Block& block = open.blocks.emplace_back();
  Ordered* ordered = nullptr;
  Ordered::iterator place{};
  try {
    ordered = order == nullptr ? nullptr : &ordered_[{&context, *order}];
    place = ordered == nullptr ? place : ordered->emplace(0, &block);
  } catch (const std::bad_alloc&) {
    open.blocks.pop_back();
    throw;
  }
  block.context = &context;
  if (!context.device.server->retire(context, address, block.retired)) {
    if (ordered != nullptr) {
      ordered->erase(place);
    }
    open.blocks.pop_back();
    return false;
  }
  if (ordered != nullptr) {
    auto node = ordered->extract(place);
    node.key() = block.retired.block.bytes;
    block.ordered = ordered;
    block.place = ordered->insert(std::move(node));
  }
  open.bytes += block.retired.block.bytes;
  ++waiting_;
  any_.store(true, std::memory_order_release);
  due_.store(waiting_ > kMostWaiting ||
                 arena::is_epoch_full(open.blocks.size(), open.bytes, context.room()),
             std::memory_order_release);
  return true;
}

void WaitingFrees::reclaim(const Block& block) noexcept {
  if (!block.taken) {
    block.context->device.server->reclaim(*block.context, block.retired);
  }
}

CUdeviceptr WaitingFrees::take_back(Context& context, const StreamId& order, std::uint64_t bytes) {
  if (!any()) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  const auto of_stream = ordered_.find({&context, order});
  if (of_stream == ordered_.end()) {
    return 0;
  }
  const auto found = of_stream->second.lower_bound(bytes);
  if (found == of_stream->second.end()) {
    return 0;
  }
  Block& block = *found->second;
  const CUdeviceptr address = context.arena.revive(block.retired.block, bytes);
  if (address != 0) {
    forget_order(block);
    block.taken = true;
  }
  return address;
}

void WaitingFrees::forget_order(Block& block) noexcept {
  if (block.ordered != nullptr) {
    block.ordered->erase(block.place);
    block.ordered = nullptr;
  }
}

void WaitingFrees::stream_will_end(CUstream stream) {
  const StreamId gone = stream_id(stream, false);
  if (gone.is_default() || !any()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  for (auto each = ordered_.begin(); each != ordered_.end();) {
    if (each->first.stream == gone) {
      for (const auto& [bytes, block] : each->second) {
        block->ordered = nullptr;
      }
      each = ordered_.erase(each);
    } else {
      ++each;
    }
  }
}

// Another thread may have seen to it, or have freed more since.
void WaitingFrees::close_when_due(const Context& context) noexcept {
  if (!due_.load(std::memory_order_acquire)) {
    return;
  }
  bool full = false;
  bool too_many = false;
  {
    const arena::Room room = context.room();
    const std::lock_guard lock(mutex_);
    full = !open_.empty() &&
           arena::is_epoch_full(open_.front().blocks.size(), open_.front().bytes, room);
    too_many = waiting_ > kMostWaiting;
  }
  if (full) {
    close();
  }
  if (too_many) {
    wait_for_oldest();
  }
}

// While a stream captures, the open epoch stays open.
void WaitingFrees::close() {
  const DeviceWait wait(captures_);
  if (!wait.allowed()) {
    return;
  }
  if (Epochs closing = take_open(); !closing.empty()) {
    record_fence(closing.front());
    put_back(closing, Place::kLast);
  }
}

// Marks where each context's work has come to; not now when one may be ending. Precondition: a
// DeviceWait that is allowed.
void WaitingFrees::record_fence(Epoch& epoch) noexcept try {
  if (epoch.blocks.empty()) {
    epoch.fenced = true;
    return;
  }
  if (driver_.cuCtxRecordEvent == nullptr) {
    epoch.fenced = contexts_.synchronize(*epoch.blocks.front().context) == CUDA_SUCCESS;
    return;
  }
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    const ContextUse use(contexts_, *context, ContextUse::Waits::kNo);
    if (!use.allowed()) {
      if (context->alive()) {
        return;  // it may end, or may not
      }
      continue;
    }
    const std::uint64_t id = context->id.load(std::memory_order_acquire);
    epoch.fence.reserve(epoch.fence.size() + 1);
    const CUcontext handle = context->handle;
    const CUevent event = event_for(*context, id, handle);
    const CUresult result =
        event == nullptr ? CUDA_ERROR_INVALID_CONTEXT : driver_.cuCtxRecordEvent(handle, event);
    if (event != nullptr) {
      epoch.fence.push_back({context, id, event});
    }
    if (result != CUDA_SUCCESS && context->id.load(std::memory_order_acquire) == id) {
      return;  // without a fence: it is tried again, or waited for otherwise
    }
  }
  epoch.fenced = true;
} catch (const std::bad_alloc&) {
}

// An event of the context, or nullptr.
CUevent WaitingFrees::event_for(const Context& context, std::uint64_t id, CUcontext handle) {
  {
    const std::lock_guard lock(mutex_);
    for (Mark& mark : spare_) {
      if (mark.context == &context && mark.id == id) {
        const CUevent event = mark.event;
        mark = spare_.back();
        spare_.pop_back();
        return event;
      }
    }
  }
  CUevent event = nullptr;
  const PushedContext inside(driver_, handle);
  const bool made =
      inside.pushed() && driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
  return made ? event : nullptr;
}

// Asks the driver whether, or waits until, the marked work is done. With a context its work ends.
CUresult WaitingFrees::ask(const Mark& mark, CUresult (*question)(CUevent)) {
  const bool waits = question == driver_.cuEventSynchronize;
  const ContextUse use(contexts_, *mark.context,
                       waits ? ContextUse::Waits::kYes : ContextUse::Waits::kNo);
  if (mark.context->id.load(std::memory_order_acquire) != mark.id) {
    return CUDA_SUCCESS;
  }
  return use.allowed() ? question(mark.event) : CUDA_ERROR_NOT_READY;
}

// As a free under CUBFC_FREE=sync: another context's error is not the owner's.
bool WaitingFrees::synchronize_owners(const Epoch& epoch) {
  const Context* done = nullptr;
  for (const Block& block : epoch.blocks) {
    if (block.context != done && contexts_.synchronize(*block.context) != CUDA_SUCCESS) {
      return false;
    }
    done = block.context;
  }
  return true;
}

bool WaitingFrees::is_done(const Epoch& epoch, CUresult (*question)(CUevent)) {
  if (!epoch.fenced) {
    return false;
  }
  for (const Mark& mark : epoch.fence) {
    if (ask(mark, question) != CUDA_SUCCESS) {
      return false;
    }
  }
  return true;
}

void WaitingFrees::collect() noexcept {
  if (!any_closed_.load(std::memory_order_acquire)) {
    return;
  }
  const DeviceWait wait(captures_);
  if (!wait.allowed()) {
    return;
  }
  for (Epochs one = take_oldest(); !one.empty(); one = take_oldest()) {
    if (!one.front().fenced) {
      give_back_marks(one.front());
      record_fence(one.front());
    }
    if (!is_done(one.front(), driver_.cuEventQuery)) {
      put_back(one, Place::kFirst);
      return;
    }
    reclaim(one);
  }
}

void WaitingFrees::close_and_collect() noexcept {
  if (driver_.cuCtxRecordEvent != nullptr) {
    close();  // without it, that would wait
  }
  collect();
}

bool WaitingFrees::wait_for_oldest() noexcept {
  const DeviceWait wait(captures_);
  if (!wait.allowed()) {
    return false;
  }
  Epochs one = take_oldest();
  if (one.empty()) {
    one = take_open();
  }
  if (one.empty()) {
    std::unique_lock lock(mutex_);
    const auto is_back = [&] { return in_hand_ == 0 || !closed_.empty(); };
    return in_hand_ > 0 && put_back_.wait_for(lock, kPatience, is_back);
  }
  const Epoch& epoch = one.front();
  if (!is_done(epoch, driver_.cuEventSynchronize) && !synchronize_owners(epoch)) {
    put_back(one, Place::kFirst);
    return false;
  }
  reclaim(one);
  return true;
}

CUresult WaitingFrees::wait_for_all(const Context& owner) {
  // Taken before the wait: what is freed while it goes on may be used by later work.
  Epochs all;
  if (any()) {
    const std::lock_guard lock(mutex_);
    all.splice(all.end(), closed_);
    all.splice(all.end(), open_);
    in_hand_ += static_cast<int>(all.size());
    any_closed_.store(false, std::memory_order_release);
  }
  const CUresult result = contexts_.synchronize(owner);
  if (result == CUDA_SUCCESS) {
    reclaim(all);
  } else {
    put_back(all, Place::kFirst);
  }
  return result;
}

// The open epoch, if something is in it: in hand until it is put back or reclaimed.
WaitingFrees::Epochs WaitingFrees::take_open() noexcept {
  const std::lock_guard lock(mutex_);
  Epochs open;
  if (!open_.empty() && !open_.front().blocks.empty()) {
    open.splice(open.begin(), open_);
    ++in_hand_;
  }
  return open;
}

// The epoch that has been closed for longest, if there is one; in hand likewise.
WaitingFrees::Epochs WaitingFrees::take_oldest() noexcept {
  const std::lock_guard lock(mutex_);
  Epochs oldest;
  if (!closed_.empty()) {
    oldest.splice(oldest.begin(), closed_, closed_.begin());
    ++in_hand_;
    any_closed_.store(!closed_.empty(), std::memory_order_release);
  }
  return oldest;
}

void WaitingFrees::put_back(Epochs& epochs, Place place) noexcept {
  if (epochs.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  in_hand_ -= static_cast<int>(epochs.size());
  closed_.splice(place == Place::kFirst ? closed_.begin() : closed_.end(), epochs);
  any_closed_.store(true, std::memory_order_release);
  put_back_.notify_all();
}

// Their work is done.
void WaitingFrees::reclaim(Epochs& epochs) noexcept {
  if (epochs.empty()) {
    return;
  }
  std::size_t blocks = 0;
  {
    const std::lock_guard lock(mutex_);  // from here on no stream takes one of them back
    for (Epoch& epoch : epochs) {
      std::for_each(epoch.blocks.begin(), epoch.blocks.end(), forget_order);
    }
  }
  for (Epoch& epoch : epochs) {
    for (const Block& block : epoch.blocks) {
      reclaim(block);
    }
    blocks += epoch.blocks.size();
    give_back_marks(epoch);
  }
  const std::lock_guard lock(mutex_);
  in_hand_ -= static_cast<int>(epochs.size());
  waiting_ -= blocks;
  any_.store(waiting_ > 0, std::memory_order_release);
  epochs.clear();
  put_back_.notify_all();
}

// Its events can mark something else.
void WaitingFrees::give_back_marks(Epoch& epoch) noexcept try {
  const std::lock_guard lock(mutex_);
  while (!epoch.fence.empty()) {
    const Mark& mark = epoch.fence.back();
    if (mark.context->id.load(std::memory_order_acquire) == mark.id) {
      spare_.push_back(mark);
    }
    epoch.fence.pop_back();
  }
} catch (const std::bad_alloc&) {
  epoch.fence.clear();  // an event or two are lost
}

void WaitingFrees::context_ended(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(spare_, [id](const Mark& mark) { return mark.id == id; });
}

}  // namespace cubfc
