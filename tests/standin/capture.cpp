#include "capture.h"

#include <algorithm>
#include <string>

#include "behaviour.h"

namespace standin {
namespace {

const char* ModeName(CUstreamCaptureMode mode) {
  switch (mode) {
    case CU_STREAM_CAPTURE_MODE_GLOBAL:
      return "global";
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL:
      return "thread_local";
    default:
      return "relaxed";
  }
}

// cuda.h, cuThreadExchangeStreamCaptureMode: a capture hinders a thread by the laxer one of the
// capture's mode and the thread's.
std::string CaseOf(const Capture& capture, std::string_view function) {
  const CUstreamCaptureMode mode = std::max(capture.mode, thread_state().capture_mode);
  const bool same = capture.thread == std::this_thread::get_id();
  return std::string("capture.") + ModeName(mode) + '.' + std::string(function) +
         (same ? ".same_thread" : ".other_thread");
}

// Of each node of the capture's graph, whether it comes before what the origin captured last.
std::vector<bool> BeforeOrigin(const Capture& capture) {
  const auto& nodes = capture.graph->nodes;
  std::vector<bool> reached(nodes.size(), false);
  for (const std::size_t node : capture.origin->capture_after) reached[node] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) continue;
    for (const std::size_t before : nodes[i].after) reached[before] = true;
  }
  return reached;
}

}  // namespace

bool HasJoined(const Stream& stream) {
  const std::vector<bool> reached = BeforeOrigin(*stream.capture);
  return std::all_of(stream.capture_after.begin(), stream.capture_after.end(),
                     [&](std::size_t node) { return reached[node]; });
}

bool AllJoined(const Capture& capture) {
  const std::vector<bool> reached = BeforeOrigin(capture);
  return std::all_of(reached.begin(), reached.end(), [](bool node) { return node; });
}

CUresult FailCapture(Capture& capture, std::string_view id) {
  const CUresult result = Behaviour(id);
  if (!CaptureSurvives(id)) capture.valid = false;
  return result;
}

CUresult CheckAllowedDuringCapture(std::string_view function, const Context* context) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : state().captures) {
    if (context && capture->origin->context != context) continue;
    const CUresult error = FailCapture(*capture, CaseOf(*capture, function));
    if (error != CUDA_SUCCESS) result = error;
  }
  return result;
}

CUresult CheckLegacyUse(const Stream& stream) {
  if (!stream.legacy) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (const StreamPtr& other : stream.context->streams) {
    if (!other->capture || !other->blocking()) continue;
    const CUresult error = FailCapture(*other->capture, "capture.legacy_stream");
    if (error != CUDA_SUCCESS) result = error;
  }
  return result;
}

CUresult CheckSynchronousUse(const Stream& stream) {
  if (const CUresult error = CheckLegacyUse(stream)) return error;
  for (const auto& capture : state().captures) {
    const bool relaxed =
        std::max(capture->mode, thread_state().capture_mode) == CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool mine = capture->thread == std::this_thread::get_id();
    if (stream.capture == capture || (mine && !relaxed)) {
      return FailCapture(*capture, "capture.synchronous_copy");
    }
  }
  return CUDA_SUCCESS;
}

CUresult AddNode(Stream& stream, std::function<void()> run) {
  if (!stream.capture->valid) return Behaviour("capture.work.invalidated");
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back({std::move(run), stream.capture_after});
  stream.capture_after = {nodes.size() - 1};
  return CUDA_SUCCESS;
}

// By value: it lives until the last context has let go of it.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void LeaveCapture(std::shared_ptr<Capture> capture) {
  for (const auto& [handle, context] : state().contexts) {
    for (const StreamPtr& stream : context->streams) {
      if (stream->capture != capture) continue;
      stream->capture = nullptr;
      stream->capture_after.clear();
    }
  }
  std::erase(state().captures, capture);
}

}  // namespace standin
