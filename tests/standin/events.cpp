// cuEvent*.
#include <algorithm>

#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "event_sharing.h"
#include "work.h"

namespace standin {
namespace {

CUresult Create(CUevent* out, unsigned flags) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = flags;
  if (flags & CU_EVENT_INTERPROCESS) {
    // cuda.h, cuEventCreate: only together with CU_EVENT_DISABLE_TIMING.
    if (!(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    event->shared = SharedEvent::Make();
    if (!event->shared) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = AddTo(state().events, std::move(event));
  return CUDA_SUCCESS;
}

// The fence of the work before it; a shared event says it to the other processes as well.
FencePtr EnqueueRecording(Stream& stream, const Event& event) {
  if (!event.shared) return Enqueue(stream, nullptr);
  const std::uint64_t recording = event.shared->Record();
  FencePtr end =
      Enqueue(stream, [shared = event.shared, recording] { shared->Complete(recording); });
  Ask({end});  // another process that waits could not
  return end;
}

CUresult Record(CUevent handle, CUstream stream_handle) {
  const Lock lock(state().mutex);
  std::shared_ptr<Event> event;
  StreamPtr stream;
  if (const CUresult error = FindEvent(handle, event)) return error;
  if (const CUresult error = FindStream(stream_handle, stream)) return error;
  if (&MemoryOf(*event->context) != &MemoryOf(*stream->context)) {
    return Behaviour("cuEventRecord.other_context");
  }
  if (stream->capture) {
    if (!stream->capture->valid) return Behaviour("capture.work.invalidated");
    event->capture = stream->capture;
    event->capture_after = stream->capture_after;
    return CUDA_SUCCESS;
  }
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  event->capture = nullptr;
  event->fences = {EnqueueRecording(*stream, *event)};
  event->recorded = true;
  return CUDA_SUCCESS;
}

CUresult Query(CUevent handle) {
  const Lock lock(state().mutex);
  std::shared_ptr<Event> event;
  if (const CUresult error = FindEvent(handle, event)) return error;
  if (event->capture) return FailCapture(*event->capture, "capture.event_query.captured");
  if (const CUresult error = CheckAllowedDuringCapture("cuEventQuery")) return error;
  Ask(event->fences);
  const bool done = event->shared ? event->shared->IsComplete() : AllDone(event->fences);
  return done ? CUDA_SUCCESS : Behaviour("cuEventQuery.busy");
}

CUresult Synchronize(CUevent handle) {
  Lock lock(state().mutex);
  std::shared_ptr<Event> event;
  if (const CUresult error = FindEvent(handle, event)) return error;
  if (event->capture) return FailCapture(*event->capture, "capture.event_synchronize.captured");
  if (const CUresult error = CheckAllowedDuringCapture("cuEventSynchronize")) return error;
  if (const auto shared = event->shared) {
    lock.unlock();
    shared->Wait(shared->last_recording());
    return CUDA_SUCCESS;
  }
  const Fences pending = event->fences;
  WaitFor(lock, pending);
  return CUDA_SUCCESS;
}

Clock::time_point EndOf(const Event& event) {
  Clock::time_point end;
  for (const FencePtr& fence : event.fences) end = std::max(end, fence->when);
  return end;
}

CUresult ElapsedTime(float* out, CUevent start_handle, CUevent end_handle) {
  const Lock lock(state().mutex);
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  if (const CUresult error = FindEvent(start_handle, start)) return error;
  if (const CUresult error = FindEvent(end_handle, end)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) {
    return Behaviour("cuEventElapsedTime.timing_disabled");
  }
  if (!start->recorded || !end->recorded) return Behaviour("cuEventElapsedTime.not_recorded");
  Ask(start->fences);
  Ask(end->fences);
  if (!AllDone(start->fences) || !AllDone(end->fences)) {
    return Behaviour("cuEventElapsedTime.busy");
  }
  *out = std::chrono::duration<float, std::milli>(EndOf(*end) - EndOf(*start)).count();
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuEventCreate, (CUevent * out, unsigned flags), (out, flags)) {
  return Create(out, flags);
}

ENTRY(cuEventDestroy_v2, (CUevent event), (event)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Event> found;
  if (const CUresult error = FindEvent(event, found)) return error;
  Forget(event);
  return CUDA_SUCCESS;
}

STREAM_ENTRY(cuEventRecord, _ptsz, (CUevent event, CUstream stream), (event, stream)) {
  return Record(event, stream);
}

STREAM_ENTRY(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned flags),
             (event, stream, flags)) {
  return flags > CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : Record(event, stream);
}

ENTRY(cuEventQuery, (CUevent event), (event)) {
  return Query(event);
}
ENTRY(cuEventSynchronize, (CUevent event), (event)) {
  return Synchronize(event);
}

ENTRY(cuEventElapsedTime, (float* out, CUevent start, CUevent end), (out, start, end)) {
  return ElapsedTime(out, start, end);
}

ENTRY(cuEventElapsedTime_v2, (float* out, CUevent start, CUevent end), (out, start, end)) {
  return ElapsedTime(out, start, end);
}
