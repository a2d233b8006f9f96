#include "shim/driver/captures.h"

#include <algorithm>
#include <chrono>

namespace cubfc {
namespace {

constexpr std::chrono::seconds kPatience{2};

}  // namespace

Captures::Open Captures::describe(CUstream stream, bool per_thread) const {
  CUcontext context = nullptr;
  driver_.cuCtxGetCurrent(&context);
  return {context, stream_id(stream, per_thread)};
}

// Precondition: the lock is held.
void Captures::recount() {
  open_.store(static_cast<int>(captures_.size()) + beginning_, std::memory_order_release);
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
  recount();
  no_wait_.wait_for(lock, kPatience, [&] { return waiting_ == 0; });
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

// One that may be open still counts.
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

WaitPermit::WaitPermit(Captures& captures) : captures_(captures) {
  const std::lock_guard lock(captures_.mutex_);
  given_ = !captures_.any_open();
  captures_.waiting_ += given_ ? 1 : 0;
}

WaitPermit::~WaitPermit() {
  if (given_) {
    const std::lock_guard lock(captures_.mutex_);
    --captures_.waiting_;
    captures_.no_wait_.notify_all();
  }
}

}  // namespace cubfc
