#include "shim/captures.h"

#include <algorithm>

namespace cubfc {

Captures::Open Captures::describe(CUstream stream, bool per_thread) const {
  CUcontext context = nullptr;
  driver_.cuCtxGetCurrent(&context);
  const bool own_of_thread = stream == CU_STREAM_PER_THREAD || (per_thread && stream == nullptr);
  return {context, own_of_thread ? CU_STREAM_PER_THREAD : stream,
          own_of_thread ? std::this_thread::get_id() : std::thread::id{}};
}

template <typename Predicate>
void Captures::erase(Predicate predicate) {
  const std::lock_guard lock(mutex_);
  const auto gone = std::remove_if(captures_.begin(), captures_.end(), predicate);
  captures_.erase(gone, captures_.end());
  open_.store(static_cast<int>(captures_.size()), std::memory_order_release);
}

void Captures::begun(CUstream stream, bool per_thread) {
  const Open capture = describe(stream, per_thread);
  const std::lock_guard lock(mutex_);
  if (std::find(captures_.begin(), captures_.end(), capture) == captures_.end()) {
    captures_.push_back(capture);
  }
  open_.store(static_cast<int>(captures_.size()), std::memory_order_release);
}

void Captures::maybe_ended(CUstream stream, bool per_thread) {
  const auto is_capturing =
      per_thread ? driver_.cuStreamIsCapturing_ptsz : driver_.cuStreamIsCapturing;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (is_capturing != nullptr && is_capturing(stream, &status) == CUDA_SUCCESS &&
      status != CU_STREAM_CAPTURE_STATUS_NONE) {
    return;
  }
  const Open capture = describe(stream, per_thread);
  erase([&](const Open& open) { return open == capture; });
}

void Captures::stream_destroyed(CUstream stream) {
  erase([&](const Open& open) { return open.stream == stream; });
}

void Captures::context_ended(CUcontext context) {
  erase([&](const Open& open) { return open.context == context; });
}

}  // namespace cubfc
