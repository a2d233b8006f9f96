// cuCtx*: contexts and the stack of current ones.
#include "contexts.h"

#include "allocate.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "settings.h"
#include "vmm.h"
#include "work.h"

#if CUDA_VERSION < 12050
struct CUctxCreateParams;
#endif

namespace standin {

std::shared_ptr<Context> NewContext(int device, unsigned flags, CUcontext handle) {
  if (!state().devices[static_cast<std::size_t>(device)]->memory.Count(settings().context_bytes)) {
    return nullptr;
  }
  auto context = std::make_shared<Context>();
  context->handle = handle ? handle : reinterpret_cast<CUcontext>(context.get());
  context->id = ++state().last_context_id;
  context->device = device;
  context->flags = flags;
  context->primary = handle != nullptr;
  context->legacy = NewStream(*context, CU_STREAM_DEFAULT, 0);
  context->legacy->legacy = true;
  state().contexts[context->handle] = context;
  state().destroyed.erase(context->handle);
  return context;
}

namespace {

template <typename Handle, typename Object, typename Predicate>
void ForgetIf(const Registry<Handle, Object>& registry, Predicate goes) {
  std::vector<Handle> gone;
  for (const auto& [handle, object] : registry) {
    if (goes(*object)) gone.push_back(handle);
  }
  for (const Handle handle : gone) Forget(handle);
}

}  // namespace

bool AreContextFlags(unsigned flags) {
  const unsigned scheduling = flags & CU_CTX_SCHED_MASK;
  const bool one_way = (scheduling & (scheduling - 1)) == 0;
  return one_way && (flags & ~unsigned{CU_CTX_FLAGS_MASK}) == 0;
}

void DestroyContext(Lock& lock, std::shared_ptr<Context> context) {
  state().contexts.erase(context->handle);  // no new work
  state().destroyed.insert(context->handle);
  Drain(lock, *context);
  for (const StreamPtr& stream : context->streams) {
    if (stream->capture) LeaveCapture(stream->capture);
  }
  ForgetIf(state().streams, [](const Stream& stream) { return !stream.context; });
  ForgetIf(state().events, [&](const Event& event) { return event.context == context.get(); });
  ReleaseAllOf(*context);
  if (BehaviourFlag("cuCtxDestroy.unmaps")) UnmapAllOf(*context);
  state().devices[static_cast<std::size_t>(context->device)]->memory.Discount(
      settings().context_bytes);
  context->streams.clear();
}

namespace {

CUresult Create(CUcontext* out, unsigned flags, CUdevice ordinal) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!out || !AreContextFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  const auto context = NewContext(ordinal, flags, nullptr);
  if (!context) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = context->handle;
  thread_state().contexts.push_back(*out);
  return CUDA_SUCCESS;
}

// A part of a device's multiprocessors is had by green contexts only
// (cuDeviceGetExecAffinitySupport).
CUresult CheckAffinity(const CUexecAffinityParam* parameters, int count) {
  if (!parameters && count == 0) return CUDA_SUCCESS;
  return parameters && count > 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_ERROR_INVALID_VALUE;
}

// A context that there is, or was: some drivers take that, too, and refuse what is called then.
CUresult CheckCanBeCurrent(CUcontext handle, const char* destroyed) {
  if (state().contexts.contains(handle)) return CUDA_SUCCESS;
  return Behaviour(state().destroyed.contains(handle) ? destroyed : "any.no_context");
}

CUresult Synchronize(CUcontext handle) {
  Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = ContextOrCurrent(handle, context)) return error;
  if (const CUresult error = CheckAllowedDuringCapture("cuCtxSynchronize", context)) return error;
  WaitFor(lock, PendingOf(*context));
  return CUDA_SUCCESS;
}

// Finds the event and the context of cuCtxRecordEvent and cuCtxWaitEvent.
CUresult FindBoth(CUcontext handle, CUevent event_handle, Context*& context,
                  std::shared_ptr<Event>& event) {
  if (!handle) return Behaviour("any.no_context");  // not the current one
  if (const CUresult error = FindContext(handle, context)) return error;
  return FindEvent(event_handle, event);
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuCtxCreate, (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device)) {
  (void)out, (void)flags, (void)device;
  return Behaviour("any.legacy_32_bit_form");
}

ENTRY(cuCtxCreate_v2, (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device)) {
  return Create(out, flags, device);
}

ENTRY(cuCtxCreate_v3,
      (CUcontext * out, CUexecAffinityParam* affinity, int count, unsigned flags, CUdevice device),
      (out, affinity, count, flags, device)) {
  if (const CUresult error = CheckAffinity(affinity, count)) return error;
  return Create(out, flags, device);
}

ENTRY(cuCtxCreate_v4,
      (CUcontext * out, CUctxCreateParams* parameters, unsigned flags, CUdevice device),
      (out, parameters, flags, device)) {
#if CUDA_VERSION >= 12050
  if (parameters) {
    if (const CUresult error =
            CheckAffinity(parameters->execAffinityParams, parameters->numExecAffinityParams)) {
      return error;
    }
  }
#else
  (void)parameters;
#endif
  return Create(out, flags, device);
}

ENTRY(cuCtxDestroy_v2, (CUcontext handle), (handle)) {
  Lock lock(state().mutex);
  if (!handle) return Behaviour("cuCtxDestroy.null");
  const auto found = state().contexts.find(handle);
  if (found == state().contexts.end() || found->second->primary) {
    return Behaviour("cuCtxDestroy.destroyed");
  }
  // cuda.h, cuCtxDestroy: popped from the caller's stack only where it is on its top.
  auto& stack = thread_state().contexts;
  if (!stack.empty() && stack.back() == handle) stack.pop_back();
  DestroyContext(lock, found->second);
  return CUDA_SUCCESS;
}

ENTRY(cuCtxAttach, (CUcontext * out, unsigned flags), (out, flags)) {
  const Lock lock(state().mutex);
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  ++context->references;
  *out = context->handle;
  return CUDA_SUCCESS;
}

ENTRY(cuCtxDetach, (CUcontext handle), (handle)) {
  Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = FindContext(handle, context)) return error;
  if (--context->references > 0) return CUDA_SUCCESS;
  auto& stack = thread_state().contexts;
  if (!stack.empty() && stack.back() == handle) stack.pop_back();
  DestroyContext(lock, state().contexts.at(handle));
  return CUDA_SUCCESS;
}

ENTRY(cuCtxPushCurrent_v2, (CUcontext handle), (handle)) {
  const Lock lock(state().mutex);
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckCanBeCurrent(handle, "cuCtxPushCurrent.destroyed")) return error;
  thread_state().contexts.push_back(handle);
  return CUDA_SUCCESS;
}

ENTRY(cuCtxPopCurrent_v2, (CUcontext * out), (out)) {
  auto& stack = thread_state().contexts;
  if (stack.empty()) return Behaviour("cuCtxPopCurrent.empty_stack");
  if (out) *out = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

ENTRY(cuCtxSetCurrent, (CUcontext handle), (handle)) {
  const Lock lock(state().mutex);
  auto& stack = thread_state().contexts;
  if (!handle) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  if (const CUresult error = CheckCanBeCurrent(handle, "cuCtxSetCurrent.destroyed")) return error;
  if (stack.empty()) {
    stack.push_back(handle);
  } else {
    stack.back() = handle;
  }
  return CUDA_SUCCESS;
}

ENTRY(cuCtxGetCurrent, (CUcontext * out), (out)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const auto& stack = thread_state().contexts;
  *out = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}

ENTRY(cuCtxGetDevice, (CUdevice * out), (out)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = context->device;
  return CUDA_SUCCESS;
}

ENTRY(cuCtxGetDevice_v2, (CUdevice * out, CUcontext handle), (out, handle)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = ContextOrCurrent(handle, context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = context->device;
  return CUDA_SUCCESS;
}

ENTRY(cuCtxSynchronize, (), ()) {
  return Synchronize(nullptr);
}
ENTRY(cuCtxSynchronize_v2, (CUcontext handle), (handle)) {
  return Synchronize(handle);
}

ENTRY(cuCtxGetId, (CUcontext handle, unsigned long long* out), (handle, out)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = ContextOrCurrent(handle, context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const bool own = !context->primary_of_green || BehaviourFlag("cuCtxGetId.of_green_is_its_own");
  *out = own ? context->id : MemoryOf(*context).id;
  return CUDA_SUCCESS;
}

ENTRY(cuCtxGetApiVersion, (CUcontext handle, unsigned* out), (handle, out)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = ContextOrCurrent(handle, context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = 3020;
  return CUDA_SUCCESS;
}

ENTRY(cuCtxGetFlags, (unsigned* out), (out)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  // All of them map the host's memory; only a primary context says so.
  *out = context->flags | (context->primary ? unsigned{CU_CTX_MAP_HOST} : 0);
  return CUDA_SUCCESS;
}

ENTRY(cuCtxSetFlags, (unsigned flags), (flags)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!AreContextFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags & ~unsigned{CU_CTX_MAP_HOST};
  return CUDA_SUCCESS;
}

ENTRY(cuCtxGetExecAffinity, (CUexecAffinityParam * out, CUexecAffinityType type), (out, type)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  out->type = type;
  out->param.smCount.val = context->primary_of_green
                               ? context->multiprocessors
                               : static_cast<unsigned>(settings().multiprocessors);
  return CUDA_SUCCESS;
}

ENTRY(cuCtxGetStreamPriorityRange, (int* least, int* greatest), (least, greatest)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

ENTRY(cuCtxEnablePeerAccess, (CUcontext peer_handle, unsigned flags), (peer_handle, flags)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  Context* peer = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!peer_handle) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindContext(peer_handle, peer)) return error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (peer->device == context->device) return Behaviour("cuCtxEnablePeerAccess.same_device");
  if (!ArePeers(context->device, peer->device)) {
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  const bool added = context->peers.insert(peer_handle).second;
  return added ? CUDA_SUCCESS : Behaviour("cuCtxEnablePeerAccess.twice");
}

ENTRY(cuCtxDisablePeerAccess, (CUcontext peer), (peer)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!peer) return CUDA_ERROR_INVALID_VALUE;
  const bool removed = context->peers.erase(peer) > 0;
  return removed ? CUDA_SUCCESS : Behaviour("cuCtxDisablePeerAccess.not_enabled");
}

ENTRY(cuCtxRecordEvent, (CUcontext handle, CUevent event_handle), (handle, event_handle)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  std::shared_ptr<Event> event;
  if (const CUresult error = FindBoth(handle, event_handle, context, event)) return error;
  if (&MemoryOf(*event->context) != &MemoryOf(*context)) {
    return Behaviour("cuCtxRecordEvent.other_context");
  }
  if (const CUresult error = CheckAllowedDuringCapture("cuCtxRecordEvent", context)) return error;
  event->fences = PendingOf(*context);
  event->recorded = true;
  event->capture = nullptr;
  return CUDA_SUCCESS;
}

ENTRY(cuCtxWaitEvent, (CUcontext handle, CUevent event_handle), (handle, event_handle)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  std::shared_ptr<Event> event;
  if (const CUresult error = FindBoth(handle, event_handle, context, event)) return error;
  if (const CUresult error = CheckAllowedDuringCapture("cuCtxWaitEvent", context)) return error;
  for (const StreamPtr& stream : context->streams) {
    if (!stream->closing) Enqueue(*stream, nullptr, event->fences);
  }
  return CUDA_SUCCESS;
}
