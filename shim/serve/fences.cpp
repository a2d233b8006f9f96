#include "shim/serve/fences.h"

#include <algorithm>
#include <new>

#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/driver/pushed_context.h"

namespace cubfc {

Fences::Fences(const DriverFunctions& driver, Contexts& contexts)
    : driver_(driver), contexts_(contexts) {
  contexts.add_listener(*this);
}

bool Fences::can_record() const noexcept {
  return driver_.cuCtxRecordEvent != nullptr;
}

void Fences::record(Fence& fence) noexcept try {
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    const ContextUse use(contexts_, *context, ContextUse::Waits::kNo);
    if (!use.allowed()) {
      if (context->alive()) {
        return;  // it may end, or may not
      }
      continue;
    }
    const std::uint64_t id = context->id.load(std::memory_order_acquire);
    fence.marks.reserve(fence.marks.size() + 1);
    const CUcontext handle = context->handle;
    const CUevent event = event_for(*context, id, handle);
    const CUresult result =
        event == nullptr ? CUDA_ERROR_INVALID_CONTEXT : driver_.cuCtxRecordEvent(handle, event);
    if (event != nullptr) {
      fence.marks.push_back({context, id, event});
    }
    if (result != CUDA_SUCCESS && context->id.load(std::memory_order_acquire) == id) {
      return;  // incomplete: it is tried again, or the contexts are synchronised
    }
  }
  fence.complete = true;
} catch (const std::bad_alloc&) {
}

// An event of the context, or nullptr.
CUevent Fences::event_for(const Context& context, std::uint64_t id, CUcontext handle) {
  {
    const std::lock_guard lock(mutex_);
    for (Fence::Mark& mark : spare_) {
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
CUresult Fences::ask(const Fence::Mark& mark, Question question) {
  const bool waits = question == driver_.cuEventSynchronize;
  const ContextUse use(contexts_, *mark.context,
                       waits ? ContextUse::Waits::kYes : ContextUse::Waits::kNo);
  if (mark.context->id.load(std::memory_order_acquire) != mark.id) {
    return CUDA_SUCCESS;
  }
  return use.allowed() ? question(mark.event) : CUDA_ERROR_NOT_READY;
}

bool Fences::is_passed(const Fence& fence) {
  return std::all_of(fence.marks.begin(), fence.marks.end(), [&](const Fence::Mark& mark) {
    return ask(mark, driver_.cuEventQuery) == CUDA_SUCCESS;
  });
}

bool Fences::wait_for(const Fence& fence) {
  return std::all_of(fence.marks.begin(), fence.marks.end(), [&](const Fence::Mark& mark) {
    return ask(mark, driver_.cuEventSynchronize) == CUDA_SUCCESS;
  });
}

void Fences::give_back(Fence& fence) noexcept try {
  const std::lock_guard lock(mutex_);
  while (!fence.marks.empty()) {
    const Fence::Mark& mark = fence.marks.back();
    if (mark.context->id.load(std::memory_order_acquire) == mark.id) {
      spare_.push_back(mark);
    }
    fence.marks.pop_back();
  }
} catch (const std::bad_alloc&) {
  fence.marks.clear();  // an event or two are lost
}

void Fences::context_ended(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(spare_, [id](const Fence::Mark& mark) { return mark.id == id; });
}

}  // namespace cubfc
