// cuStream* without capture, and cuLaunchHostFunc.
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "event_sharing.h"
#include "work.h"

namespace standin {
namespace {

CUresult Create(CUstream* out, unsigned flags, int priority) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *out = AddTo(state().streams, NewStream(*context, flags, priority));
  return CUDA_SUCCESS;
}

CUresult Destroy(CUstream handle) {
  const Lock lock(state().mutex);
  if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    return Behaviour("cuStreamDestroy.default_stream");
  }
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  // cuda.h, cuStreamDestroy: returns at once; what is queued is still done.
  if (stream->capture && stream->capture->origin == stream.get()) {
    LeaveCapture(stream->capture);
  } else if (stream->capture) {
    const bool lost =
        !HasJoined(*stream) || !BehaviourFlag("capture.joined_stream_destroyed.survives");
    if (lost) stream->capture->valid = false;
    stream->capture = nullptr;
  }
  Close(*stream);
  Forget(handle);
  return CUDA_SUCCESS;
}

CUresult Synchronize(CUstream handle) {
  Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (stream->capture) {
    return FailCapture(*stream->capture, "capture.stream_synchronize.capturing");
  }
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  if (const CUresult error = CheckAllowedDuringCapture("cuStreamSynchronize")) return error;
  Fences pending = PendingOf(*stream);
  if (stream->legacy) {  // its next work would wait for the blocking streams
    for (const StreamPtr& other : stream->context->streams) {
      if (!other->blocking()) continue;
      const Fences more = PendingOf(*other);
      pending.insert(pending.end(), more.begin(), more.end());
    }
  }
  WaitFor(lock, pending);
  return CUDA_SUCCESS;
}

CUresult Query(CUstream handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (stream->capture) return FailCapture(*stream->capture, "capture.stream_query.capturing");
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  if (const CUresult error = CheckAllowedDuringCapture("cuStreamQuery")) return error;
  const Fences pending = PendingOf(*stream);
  Ask(pending);
  return pending.empty() ? CUDA_SUCCESS : Behaviour("cuStreamQuery.busy");
}

// A captured stream takes over the event's nodes; another stream joins the event's capture.
CUresult WaitCaptured(Stream& stream, Event& event) {
  if (!event.capture) return FailCapture(*stream.capture, "capture.wait_event.uncaptured");
  if (!stream.capture) {
    if (stream.legacy) return FailCapture(*event.capture, "capture.legacy_stream");
    stream.capture = event.capture;
  }
  if (stream.capture != event.capture) {
    return FailCapture(*stream.capture, "capture.wait_event.other_capture");
  }
  stream.capture_after.Add(event.capture_after);
  return CUDA_SUCCESS;
}

CUresult WaitEvent(CUstream handle, CUevent event_handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  std::shared_ptr<Event> event;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (const CUresult error = FindEvent(event_handle, event)) return error;
  if (stream->capture || event->capture) return WaitCaptured(*stream, *event);
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  if (event->shared) {
    if (event->shared->IsComplete()) return CUDA_SUCCESS;
    const std::uint64_t recording = event->shared->last_recording();
    Enqueue(*stream, [shared = event->shared, recording] { shared->Wait(recording); });
  } else if (!AllDone(event->fences)) {
    Enqueue(*stream, nullptr, event->fences);
  }
  return CUDA_SUCCESS;
}

CUresult HostFunction(CUstream handle, CUhostFn function, void* data) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return AddNode(*stream, HostNode{function, data});
  return Submit(*stream, [function, data] { function(data); });
}

// Finds the stream; then `write` fills the output.
template <typename Write>
CUresult Describe(CUstream handle, const void* output, Write write) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!output) return CUDA_ERROR_INVALID_VALUE;
  write(*stream);
  return CUDA_SUCCESS;
}

// Memory is attached whole, and to one kind of stream.
CUresult AttachMemory(CUstream handle, CUdeviceptr address, std::size_t bytes, unsigned flags) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  const Allocation* const found = FindAllocation(address);
  const bool whole = found && IsManaged(found->kind) && found->base == address &&
                     (bytes == 0 || bytes == found->bytes);
  const bool known =
      flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE;
  return whole && known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuStreamCreate, (CUstream * out, unsigned flags), (out, flags)) {
  return Create(out, flags, 0);
}

ENTRY(cuStreamCreateWithPriority, (CUstream * out, unsigned flags, int priority),
      (out, flags, priority)) {
  return Create(out, flags, priority > 0 ? 0 : (priority < -5 ? -5 : priority));
}

ENTRY(cuStreamDestroy_v2, (CUstream stream), (stream)) {
  return Destroy(stream);
}

STREAM_ENTRY(cuStreamSynchronize, _ptsz, (CUstream stream), (stream)) {
  return Synchronize(stream);
}

STREAM_ENTRY(cuStreamQuery, _ptsz, (CUstream stream), (stream)) {
  return Query(stream);
}

STREAM_ENTRY(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned flags),
             (stream, event, flags)) {
  (void)flags;
  return WaitEvent(stream, event);
}

STREAM_ENTRY(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext* out), (stream, out)) {
  return Describe(stream, out, [&](Stream& found) { *out = found.context->handle; });
}

STREAM_ENTRY(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned* out), (stream, out)) {
  return Describe(stream, out, [&](Stream& found) { *out = found.flags; });
}

STREAM_ENTRY(cuStreamGetPriority, _ptsz, (CUstream stream, int* out), (stream, out)) {
  return Describe(stream, out, [&](Stream& found) { *out = found.priority; });
}

STREAM_ENTRY(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long* out), (stream, out)) {
  return Describe(stream, out, [&](Stream& found) { *out = found.id; });
}

STREAM_ENTRY(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice* out), (stream, out)) {
  return Describe(stream, out, [&](Stream& found) { *out = found.context->device; });
}

STREAM_ENTRY(cuStreamAddCallback, _ptsz,
             (CUstream stream, CUstreamCallback callback, void* data, unsigned flags),
             (stream, callback, data, flags)) {
  if (!callback || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  StreamPtr found;
  if (const CUresult error = FindStream(stream, found)) return error;
  // cuda.h, cuStreamAddCallback: not supported in a capture.
  if (found->capture) return FailCapture(*found->capture, "capture.stream_query.capturing");
  return Submit(*found, [=] { callback(stream, CUDA_SUCCESS, data); });
}

STREAM_ENTRY(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void* data),
             (stream, function, data)) {
  return HostFunction(stream, function, data);
}

STREAM_ENTRY(cuStreamAttachMemAsync, _ptsz,
             (CUstream stream, CUdeviceptr address, size_t length, unsigned flags),
             (stream, address, length, flags)) {
  return AttachMemory(stream, address, length, flags);
}
