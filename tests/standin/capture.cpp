#include "capture.h"

#include <algorithm>
#include <set>
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

bool IsMine(const Capture& capture) {
  return capture.thread == std::this_thread::get_id();
}

// cuda.h, cuThreadExchangeStreamCaptureMode: a capture hinders a thread by the laxer one of the
// capture's mode and the thread's.
std::string CaseOf(const Capture& capture, std::string_view function) {
  const CUstreamCaptureMode mode = std::max(capture.mode, thread_state().capture_mode);
  return std::string("capture.") + ModeName(mode) + '.' + std::string(function) +
         (IsMine(capture) ? ".same_thread" : ".other_thread");
}

// Whether one of the capture's streams is of the current context's device.
bool IsOfCurrentDevice(const Capture& capture) {
  Context* current = nullptr;
  if (CurrentContext(current) != CUDA_SUCCESS) return true;
  for (const auto& [handle, context] : state().contexts) {
    if (context->device != current->device) continue;
    for (const StreamPtr& stream : context->streams) {
      if (stream->capture.get() == &capture) return true;
    }
  }
  return false;
}

// Another thread's capture on other devices is no hindrance.
bool Hinders(const Capture& capture) {
  return IsMine(capture) || IsOfCurrentDevice(capture) ||
         BehaviourFlag("capture.hinders_other_devices");
}

// The nodes that come before what these streams captured last, and those themselves.
std::set<const GraphNode*> Before(const std::vector<const Stream*>& streams) {
  std::set<const GraphNode*> reached;
  std::vector<const GraphNode*> waiting;
  const auto reach = [&](const GraphNode* node) {
    if (reached.insert(node).second) waiting.push_back(node);
  };
  for (const Stream* const stream : streams) {
    for (const CUgraphNode handle : stream->capture_after.nodes) {
      GraphNode* node = nullptr;
      if (FindNode(handle, node) == CUDA_SUCCESS) reach(node);
    }
  }
  while (!waiting.empty()) {
    const GraphNode* const node = waiting.back();
    waiting.pop_back();
    for (const GraphEdge& edge : node->dependencies) reach(edge.from);
  }
  return reached;
}

}  // namespace

bool HasJoined(const Stream& stream) {
  std::vector<const Stream*> others;
  for (const auto& [handle, context] : state().contexts) {
    for (const StreamPtr& other : context->streams) {
      if (other.get() != &stream && other->capture == stream.capture) others.push_back(other.get());
    }
  }
  const auto reached = Before(others);
  const auto& handles = stream.capture_after.nodes;
  return std::all_of(handles.begin(), handles.end(), [&](CUgraphNode handle) {
    GraphNode* node = nullptr;
    return FindNode(handle, node) != CUDA_SUCCESS || reached.contains(node);
  });
}

bool AllJoined(const Capture& capture) {
  const auto reached = Before({capture.origin});
  const auto& nodes = capture.graph->nodes;
  return std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) {
    return !node->must_be_joined || reached.contains(node.get());
  });
}

CUresult FailCapture(Capture& capture, std::string_view id) {
  const CUresult result = Behaviour(id);
  if (!CaptureSurvives(id)) capture.valid = false;
  return result;
}

CUresult CheckAllowedDuringCapture(std::string_view function, const Context* context) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : state().captures) {
    if (context ? capture->origin->context != context : !Hinders(*capture)) continue;
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
    if (stream.capture == capture || (IsMine(*capture) && !relaxed)) {
      return FailCapture(*capture, "capture.synchronous_copy");
    }
  }
  return CUDA_SUCCESS;
}

CUresult AddNode(Stream& stream, NodeParameters parameters) {
  if (!stream.capture->valid) return Behaviour("capture.work.invalidated");
  GraphNode& added =
      AppendNode(*stream.capture->graph, std::move(parameters), stream.capture_after);
  added.must_be_joined = true;
  stream.capture_after.clear();
  stream.capture_after.Add(added.handle);
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
  if (std::erase(state().captures, capture) == 0) return;
  --capture->graph->captures;
  if (capture->graph->owner == GraphOwner::kCapture) EndGraph(*capture->graph);
}

}  // namespace standin
