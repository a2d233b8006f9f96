#include "shim/driver/captures.h"

#include <algorithm>
#include <chrono>

#include "shim/patience.h"

namespace cubfc {

Captures::Open Captures::describe(CUstream stream, bool per_thread) const {
  CUcontext context = nullptr;
  driver_.cuCtxGetCurrent(&context);
  return {context, stream_id(stream, per_thread)};
}

// Precondition: the lock is held.
void Captures::recount() {
  open_.store(static_cast<int>(captures_.size()) + beginning_, std::memory_order_seq_cst);
}

template <typename Predicate>
void Captures::erase(Predicate predicate) {
  const std::lock_guard lock(mutex_);
  const auto gone = std::remove_if(captures_.begin(), captures_.end(), predicate);
  captures_.erase(gone, captures_.end());
  recount();
}

void Captures::will_begin() {
  std::unique_lock lock(mutex_);
  captures_.reserve(captures_.size() + static_cast<std::size_t>(beginning_) + 1);
  ++beginning_;
  has_begun_.store(true, std::memory_order_release);
  recount();
  // Wait until no permit is out, or each permit that is out has been in the same blocking call for
  // kTimeToEnter.
  const auto end = std::chrono::steady_clock::now() + patience::kLongestPermit;
  std::uint64_t before = permits_.load(std::memory_order_seq_cst);
  while (out_of(before) > 0 && std::chrono::steady_clock::now() < end) {
    no_wait_.wait_for(lock, patience::kTimeToEnter,
                      [&] { return out_of(permits_.load(std::memory_order_seq_cst)) == 0; });
    const std::uint64_t now = permits_.load(std::memory_order_seq_cst);
    if (now == before && out_of(now) == blocked_of(now)) {
      return;
    }
    before = now;
  }
}

// Called by the end of a permit that a capture may be waiting for.
void Captures::let_begin() noexcept {
  const std::lock_guard lock(mutex_);
  no_wait_.notify_all();
}

void Captures::begun(CUstream stream, bool per_thread, bool success) {
  const Open capture = describe(stream, per_thread);
  const std::lock_guard lock(mutex_);
  --beginning_;
  const auto known = std::find_if(captures_.begin(), captures_.end(),
                                  [&](const Open& open) { return open.stream == capture.stream; });
  if (success && known == captures_.end()) {
    captures_.push_back(capture);
  }
  recount();
}

// Nothing when the driver does not tell.
std::optional<CUstreamCaptureStatus> Captures::status_of(CUstream stream, bool per_thread) const {
  const auto ask = per_thread ? driver_.cuStreamIsCapturing_ptsz : driver_.cuStreamIsCapturing;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool told = ask != nullptr && ask(stream, &status) == CUDA_SUCCESS;
  return told ? std::optional(status) : std::nullopt;
}

bool Captures::is_capturing(CUstream stream, bool per_thread) const {
  return any_open() && status_of(stream, per_thread).value_or(CU_STREAM_CAPTURE_STATUS_NONE) !=
                           CU_STREAM_CAPTURE_STATUS_NONE;
}

// If ending has failed, the capture counts as open unless the driver says that the stream does not
// capture.
void Captures::end_called(CUstream stream, bool per_thread, bool success) {
  if (!any_open() || (!success && status_of(stream, per_thread) != CU_STREAM_CAPTURE_STATUS_NONE)) {
    return;
  }
  const Open capture = describe(stream, per_thread);
  erase([&](const Open& open) { return open.stream == capture.stream; });
}

void Captures::stream_destroyed(CUstream stream) {
  const StreamId gone = stream_id(stream, false);
  erase([&](const Open& open) { return open.stream == gone; });
}

void Captures::context_ended(CUcontext context) {
  erase([&](const Open& open) { return open.context == context; });
}

}  // namespace cubfc
