// What a step looks like to a reader.
#include "steps.h"

#include <cstdio>

namespace random_programs {
namespace {

std::string named(const char* what, int index) {
  return std::string(what) + " " + std::to_string(index);
}

std::string bytes_of(const Step& step) {
  return std::to_string(std::size_t{step.words} * 4) + " bytes";
}

std::string call_of(const Step& step) {
  constexpr const char* kFlavours[] = {"blocking", "non-blocking", "per-thread", "legacy"};
  constexpr const char* kModes[] = {"global", "thread-local", "relaxed"};
  const std::string context = named("context", step.context);
  const std::string stream = named("stream", step.stream);
  const std::string block = named("block", step.block);
  const std::string slot = named("slot", step.slot);
  const std::string event = named("event", step.event);
  const std::string graph = named("graph", step.graph);
  const std::string choice = std::to_string(step.choice);
  switch (step.kind) {
    case Kind::kCreateContext:
      return context + " = cuCtxCreate on device " + choice;
    case Kind::kRetainPrimary:
      return context + " = cuDevicePrimaryCtxRetain of device " + choice;
    case Kind::kEndContext:
      return context + " ends" + (step.choice != 0 ? ", with a reset if it is primary" : "");
    case Kind::kCreateStream:
      return stream + " = a " + kFlavours[step.choice] + " stream of " + context;
    case Kind::kDestroyStream:
      return "cuStreamDestroy " + stream;
    case Kind::kAllocate:
      return block + " = cuMemAlloc " + bytes_of(step) + " in " + context;
    case Kind::kAllocatePitch:
      return block + " = cuMemAllocPitch " + bytes_of(step) + " in " + context;
    case Kind::kAllocateAsync:
      return block + " = cuMemAllocAsync " + bytes_of(step) + ", " + stream;
    case Kind::kFree:
      return "cuMemFree " + block + " in " + context;
    case Kind::kFreeAsync:
      return "cuMemFreeAsync " + block + ", " + stream;
    case Kind::kWriteHost:
      return "write " + slot + ", " + bytes_of(step);
    case Kind::kFill:
      return "fill " + block + ", " + stream;
    case Kind::kCopyWithin:
      return "copy " + named("block", step.source) + " to " + block + ", " + stream;
    case Kind::kCopyOut:
      return "copy " + block + " to " + slot + ", " + stream;
    case Kind::kCopyIn:
      return "copy " + slot + " to " + block + ", " + stream;
    case Kind::kRecord:
      return "record " + event + " in " + stream;
    case Kind::kWait:
      return stream + " waits for " + event;
    case Kind::kSynchronizeStream:
      return "cuStreamSynchronize " + stream;
    case Kind::kSynchronizeContext:
      return "cuCtxSynchronize " + context;
    case Kind::kSynchronizeEvent:
      return "cuEventSynchronize " + event;
    case Kind::kBeginCapture:
      return "begin a " + std::string(kModes[step.choice]) + " capture of " + graph + " in " +
             stream;
    case Kind::kEndCapture:
      return "end the capture of " + graph + " in " + stream + " and instantiate it";
    case Kind::kLaunch:
      return "launch " + graph + ", " + stream;
    case Kind::kDestroyGraph:
      return "destroy " + graph;
  }
  return "";
}

}  // namespace

std::string text_of(const Step& step) {
  char start[32];
  std::snprintf(start, sizeof start, "%4d  thread %d: ", step.number, step.thread);
  return start + call_of(step);
}

}  // namespace random_programs
