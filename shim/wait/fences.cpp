#include "shim/wait/fences.h"

#include <algorithm>
#include <new>
#include <optional>

#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"

namespace cubfc {

Fences::Fences(const DriverFunctions& driver, Contexts& contexts)
    : driver_(driver), contexts_(contexts) {
  contexts.add_listener(*this);
}

bool Fences::can_record() const noexcept {
  return driver_.cuCtxRecordEvent != nullptr;
}

void Fences::record(Fence& fence, const Device& device,
                    const std::vector<Context*>& others) noexcept try {
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    const bool concerned = context->may_use(device) ||
                           std::find(others.begin(), others.end(), context) != others.end();
    if (concerned && !record(fence, *context)) {
      return;  // incomplete: it is tried again, or the contexts are synchronised
    }
  }
  fence.complete = true;
} catch (const std::bad_alloc&) {
}

// Adds a mark of the context, unless the context has ended. Throws std::bad_alloc.
bool Fences::record(Fence& fence, Context& context) {
  return record(
      fence, context, context.id.load(std::memory_order_acquire),
      [&](CUcontext handle, CUevent event) { return driver_.cuCtxRecordEvent(handle, event); });
}

// Has `call` record an event of the context. Returns true if no mark is missing. A context that has
// ended, or has another id by now, needs no mark. Throws std::bad_alloc.
template <typename Record>
bool Fences::record(Fence& fence, Context& context, std::uint64_t id, Record call) {
  const ContextUse use(contexts_, context, ContextUse::Waits::kNo);
  if (context.id.load(std::memory_order_acquire) != id) {
    return true;
  }
  if (!use.allowed()) {
    return !context.alive();  // an alive one may be about to end
  }
  fence.marks.reserve(fence.marks.size() + 1);
  const CUcontext handle = context.handle;
  const CUevent event = event_for(context, id, handle);
  if (event == nullptr) {
    return context.id.load(std::memory_order_acquire) != id;
  }
  fence.marks.push_back({&context, id, event});
  const CUresult result = call(handle, event);
  context.note(result);
  return result == CUDA_SUCCESS || stays(result) ||
         context.id.load(std::memory_order_acquire) != id;
}

void Fences::record(Fence& fence, Context& context, std::uint64_t id,
                    const StreamId& stream) noexcept try {
  fence.complete = record(fence, context, id, [&](CUcontext handle, CUevent event) {
    const auto call = [&] {
      return driver_.cuEventRecord(event, reinterpret_cast<CUstream>(stream.handle));
    };
    CUcontext current = nullptr;
    if (driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == handle) {
      return call();
    }
    const PushedContext inside(driver_, handle);
    return inside.pushed() ? call() : inside.result();
  });
  if (!fence.complete) {
    give_back(fence);
  }
} catch (const std::bad_alloc&) {
}

bool Fences::is_idle(Context& context, const WaitPermit& permit) noexcept try {
  Fence fence;
  const bool idle =
      can_record() && record(fence, context) && is_passed(fence, permit) == CUDA_SUCCESS;
  give_back(fence);
  return idle;
} catch (const std::bad_alloc&) {
  return false;
}

// An event of the context, or nullptr.
CUevent Fences::event_for(const Context& context, std::uint64_t id, CUcontext handle) {
  {
    const std::lock_guard lock(mutex_);
    // Searched from the end: mostly an event that came back lately fits.
    const auto found = std::find_if(spare_.rbegin(), spare_.rend(), [&](const Fence::Mark& mark) {
      return mark.context == &context && mark.id == id;
    });
    if (found != spare_.rend()) {
      const CUevent event = found->event;
      *found = spare_.back();
      spare_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  const PushedContext inside(driver_, handle);
  const bool made =
      inside.pushed() && driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
  return made ? event : nullptr;
}

// Whether the marked work is done. All work of a context is done when the context has ended.
CUresult Fences::ask(const Fence::Mark& mark) {
  const ContextUse use(contexts_, *mark.context, ContextUse::Waits::kNo);
  if (mark.context->id.load(std::memory_order_acquire) != mark.id) {
    return CUDA_SUCCESS;
  }
  if (!use.allowed()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const CUresult result = driver_.cuEventQuery(mark.event);
  mark.context->note(result);
  return stays(result) ? CUDA_SUCCESS : result;  // no work is left
}

CUresult Fences::is_passed(const Fence& fence, const WaitPermit& permit) {
  std::optional<RelaxedCapture> relaxed;
  if (!permit.given()) {
    relaxed.emplace(driver_);
  }
  for (const Fence::Mark& mark : fence.marks) {
    if (const CUresult result = ask(mark); result != CUDA_SUCCESS) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

CUresult Fences::wait_for(const Fence& fence, const Context* owner) {
  const RelaxedCapture relaxed(driver_);
  CUresult of_owner = CUDA_SUCCESS;
  bool all = true;
  for (const Fence::Mark& mark : fence.marks) {
    const ContextUse use(contexts_, *mark.context);
    if (mark.context->id.load(std::memory_order_acquire) != mark.id) {
      continue;  // the context has ended, and its work with it
    }
    if (!use.allowed()) {
      all = false;
      continue;
    }
    const CUresult result = driver_.cuEventSynchronize(mark.event);
    mark.context->note(result);
    if (mark.context == owner) {
      of_owner = result;
    } else if (result != CUDA_SUCCESS && !stays(result)) {
      all = false;
    }
  }
  return of_owner == CUDA_SUCCESS && !all ? CUDA_ERROR_NOT_READY : of_owner;
}

void Fences::give_back(Fence& fence) noexcept try {
  fence.complete = false;
  if (fence.marks.empty()) {
    return;
  }
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
