#include "shim/device/context_end.h"

#include <chrono>
#include <utility>

#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/patience.h"

namespace cubfc {

void ContextUses::taken(References& references) {
  const std::lock_guard lock(mutex_);
  ++references.held;
}

void ContextUses::forgotten(References& references) {
  const std::lock_guard lock(mutex_);
  references.held = 0;
}

// Keeps the memory until the ends that are under way now, and concern the device, are over. Returns
// what no end needs: that memory itself, if none is under way. The caller must destroy it without a
// lock.
std::unique_ptr<Leftovers> ContextUses::keep(std::unique_ptr<Leftovers> leftovers,
                                             CUdevice device) noexcept {
  const std::lock_guard lock(mutex_);
  leftovers->device = device;
  leftovers->end = last_end_;
  leftovers->next = std::move(leftovers_);
  leftovers_ = std::move(leftovers);
  return take_unneeded();
}

// Removes from the list what no end under way needs any more. The caller must destroy that without
// the lock. Precondition: the lock is held.
std::unique_ptr<Leftovers> ContextUses::take_unneeded() noexcept {
  std::unique_ptr<Leftovers> unneeded;
  std::unique_ptr<Leftovers>* place = &leftovers_;
  while (*place != nullptr) {
    bool needed = false;
    for (const ContextEnd* end = ends_; end != nullptr; end = end->next_) {
      needed = needed || (end->number_ <= (*place)->end &&
                          (!end->which_.device || *end->which_.device == (*place)->device));
    }
    if (needed) {
      place = &(*place)->next;
    } else {
      std::unique_ptr<Leftovers> one = std::move(*place);
      *place = std::move(one->next);
      one->next = std::move(unneeded);
      unneeded = std::move(one);
    }
  }
  return unneeded;
}

void ContextUses::wait_for_ends(std::unique_lock<std::mutex>& lock, const Context& context) {
  changed_.wait_for(lock, patience::kForDriverCall,
                    [&] { return context.ends == 0 || !context.alive(); });
}

ContextEnd::ContextEnd(Contexts& contexts, const Which& which, Call call)
    : contexts_(contexts), which_(which), call_(call) {
  if (call == Call::kGivesUpReference && is_not_last()) {
    last_ = false;
    return;
  }
  for (ContextListener* listener : contexts_.listeners_) {
    listener->context_may_end(which_);
  }
  keep_others_out();
  contexts_.forget_handles();
  if (call == Call::kEndsIt) {
    find_what_ends();
  }
  // A primary context is reset, but cannot be destroyed.
  if (ending_ != nullptr && (which_.handle == nullptr || !ending_->primary)) {
    for (ContextListener* listener : contexts_.listeners_) {
      listener->context_will_end(*ending_);
    }
  }
}

// Counts the reference that the call gives up, and returns whether others are left. If two threads
// give up references at once, the one that gives up the last waits until the other's call is over.
// So the call for the last reference is the last one for the driver, too.
bool ContextEnd::is_not_last() {
  references_ = contexts_.references_to(which_.handle, which_.device);
  if (references_ == nullptr) {
    return false;
  }
  ContextUses& uses = contexts_.uses_;
  std::unique_lock lock(uses.mutex_);
  references_->held -= references_->held > 0 ? 1 : 0;
  if (references_->held > 0) {
    ++references_->leaving;
    return true;
  }
  uses.changed_.wait_for(lock, patience::kForDriverCall, [&] { return references_->leaving == 0; });
  return false;
}

void ContextEnd::keep_others_out() {
  first_ = contexts_.first();
  if (which_.handle != nullptr) {
    while (first_ != nullptr && !(first_->alive() && first_->handle == which_.handle)) {
      first_ = first_->next;
    }
    end_ = first_ == nullptr ? nullptr : first_->next;
  }
  ContextUses& uses = contexts_.uses_;
  std::unique_lock lock(uses.mutex_);
  number_ = ++uses.last_end_;
  ContextEnd** place = &uses.ends_;
  while (*place != nullptr) {
    place = &(*place)->next_;
  }
  *place = this;
  for (Context* context = first_; context != end_; context = context->next) {
    context->ends += concerns(*context) ? 1 : 0;
  }
  uses.changed_.wait_for(lock, patience::kForDriverCall, [&] {
    for (const Context* context = first_; context != end_; context = context->next) {
      if (concerns(*context) && context->users > 0) {
        return false;
      }
    }
    return true;
  });
}

// The answer for a Context never changes.
bool ContextEnd::concerns(const Context& context) const {
  return !which_.device || context.device.handle == *which_.device;
}

// Finds the context that the call will end; later its handle may be invalid. From here until the
// driver has answered, Contexts::owner_of_region() passes this context over: the driver may already
// have given its memory to others.
void ContextEnd::find_what_ends() {
  ending_handle_ = which_.device ? contexts_.handle_of_primary(*which_.device) : which_.handle;
  ending_ = contexts_.known_as(ending_handle_, &ending_id_);
  if (ending_ != nullptr) {
    ending_->set(Context::kEnding);
  }
}

void ContextEnd::answered(CUresult result) noexcept try {
  const bool success = result == CUDA_SUCCESS;
  // The driver does not tell whether a call that failed has given the reference up. The reference
  // stays counted as given up: a count that is too low only costs a wait.
  if (!last_) {
    const std::lock_guard lock(contexts_.uses_.mutex_);
    --references_->leaving;
    contexts_.uses_.changed_.notify_all();
  }
  if (call_ == Call::kGivesUpReference) {
    if (success) {
      contexts_.drop_all_gone(which_.handle);
    }
  } else {
    if (which_.device && success) {  // a reset: how many references are left is unknown
      contexts_.forget_references(*which_.device);
    }
    contexts_.ended(ending_, ending_id_, ending_handle_, success);
  }
} catch (const std::bad_alloc&) {  // listeners that were not told keep what they have
}

ContextEnd::~ContextEnd() {
  std::unique_ptr<Leftovers> unneeded;  // given back without the lock
  {
    ContextUses& uses = contexts_.uses_;
    const std::lock_guard lock(uses.mutex_);
    for (Context* context = first_; context != end_; context = context->next) {
      context->ends -= concerns(*context) ? 1 : 0;
    }
    ContextEnd** place = &uses.ends_;
    while (*place != nullptr && *place != this) {
      place = &(*place)->next_;
    }
    *place = *place == nullptr ? nullptr : next_;
    unneeded = uses.take_unneeded();
    uses.changed_.notify_all();
  }
}

ContextUse::ContextUse(Contexts& contexts, Context& context, Waits waits)
    : uses_(contexts.uses_), context_(context) {
  std::unique_lock lock(uses_.mutex_);
  if (waits == Waits::kYes && context.ends > 0) {
    uses_.wait_for_ends(lock, context);
  }
  allowed_ = context.ends == 0 && context.alive();
  context_.users += allowed_ ? 1 : 0;
}

ContextUse::~ContextUse() {
  if (!allowed_) {
    return;
  }
  const std::lock_guard lock(uses_.mutex_);
  --context_.users;
  if (context_.ends > 0) {
    uses_.changed_.notify_all();  // a ContextEnd may wait for it
  }
}

}  // namespace cubfc
