// The order of the host, and which rule a step falls under (rules.cpp).
#include "model.h"

#include <cuda.h>

#include <algorithm>

namespace random_programs {
namespace {

template <typename Thing>
void grow_to(std::vector<Thing>& things, int index) {
  if (index >= static_cast<int>(things.size())) {
    things.resize(static_cast<std::size_t>(index) + 1);
  }
}

void wait_for(Step& step, const std::array<int, kMostThreads>& places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    step.after[i] = std::max(step.after[i], places[i]);
  }
}

// cuda.h, cuThreadExchangeStreamCaptureMode: calls that some captures forbid. It names cudaMalloc;
// what else allocates, frees or waits is taken to be as unsafe, cuMemAllocAsync included: an H200
// forbids it.
bool is_unsafe(Kind kind) {
  switch (kind) {
    case Kind::kAllocate:
    case Kind::kAllocateAsync:
    case Kind::kAllocatePitch:
    case Kind::kFree:
    case Kind::kFreeAsync:
    case Kind::kCreateStream:
    case Kind::kDestroyStream:
    case Kind::kSynchronizeStream:
    case Kind::kSynchronizeContext:
    case Kind::kSynchronizeEvent:
    case Kind::kDestroyGraph:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Clock::covers(const Mark& mark) const {
  return mark.stream < 0 ||
         (mark.stream < static_cast<int>(ticks_.size()) && at(ticks_, mark.stream) >= mark.tick);
}

void Clock::merge(const Clock& other) {
  grow_to(ticks_, static_cast<int>(other.ticks_.size()) - 1);
  for (std::size_t i = 0; i < other.ticks_.size(); ++i) {
    ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }
}

Mark Clock::next(int stream) {
  grow_to(ticks_, stream);
  return {stream, ++at(ticks_, stream)};
}

bool Model::take(Step& step) {
  make_room(step);
  const std::vector<Touch> touches = touches_of(step);
  const auto thread = static_cast<std::size_t>(step.thread);
  Clock known = known_[thread];
  step.after.fill(-1);
  for (const auto& [resource, change] : touches) {
    known.merge(resource->known_to_changer);
    wait_for(step, resource->changed);
    if (change) {
      known.merge(resource->known_to_users);
      wait_for(step, resource->used);
    }
  }
  step.after[thread] = -1;
  if (!apply(step, known)) {
    return false;
  }
  known_[thread] = known;
  for (const auto& [resource, change] : touches) {
    (change ? resource->changed : resource->used)[thread] = steps_;
    (change ? resource->known_to_changer : resource->known_to_users).merge(known);
  }
  ++steps_;
  return true;
}

void Model::make_room(const Step& step) {
  grow_to(contexts, step.context);
  grow_to(streams, step.stream);
  grow_to(blocks, std::max(step.block, step.source));
  grow_to(slots, step.slot);
  grow_to(events, step.event);
  grow_to(graphs, step.graph);
}

std::vector<Model::Touch> Model::touches_of(const Step& step) {
  std::vector<Touch> touches;
  const auto use = [&](Resource& resource) { touches.push_back({&resource, false}); };
  const auto change = [&](Resource& resource) { touches.push_back({&resource, true}); };
  const auto touch_data = [&](const Step& work, bool captured) {
    if (Buffer* target = target_of(work)) {
      captured ? use(target->resource) : change(target->resource);
    }
    if (Buffer* source = source_of(work)) {
      use(source->resource);
    }
  };
  const bool lifecycle = step.kind == Kind::kCreateContext || step.kind == Kind::kRetainPrimary ||
                         step.kind == Kind::kEndContext;
  if (lifecycle) {
    change(life_);
    change(at(contexts, step.context).resource);
  } else if (step.context >= 0) {
    use(at(contexts, step.context).resource);
  }
  if (step.stream >= 0) {
    change(at(streams, step.stream).resource);
    if (at(streams, step.stream).flavour == Flavour::kLegacy) {
      use(at(contexts, step.context).quiet);
    }
  }
  if (step.event >= 0) {
    Event& event = at(events, step.event);
    step.kind == Kind::kRecord ? change(event.resource) : use(event.resource);
    use(at(contexts, event.context).resource);
  }
  if (step.graph >= 0) {
    Graph& graph = at(graphs, step.graph);
    change(graph.resource);
    for (const Step& node : graph.steps) {
      touch_data(node, step.kind != Kind::kLaunch);
    }
  }
  touch_data(step, step.stream >= 0 && at(streams, step.stream).capture >= 0);
  if (step.kind == Kind::kFree) {
    use(at(contexts, at(blocks, step.block).context).resource);
  }
  if (step.kind == Kind::kSynchronizeContext) {
    for (Stream& stream : streams) {
      if (stream.context == step.context) {
        change(stream.resource);
      }
    }
  }
  touch_captures(step, touches);
  return touches;
}

void Model::touch_captures(const Step& step, std::vector<Touch>& touches) {
  if (is_unsafe(step.kind)) {
    touches.push_back({&calm_, false});
  }
  const bool begins = step.kind == Kind::kBeginCapture;
  if (begins || step.kind == Kind::kEndCapture) {
    const int mode = begins ? step.choice : at(graphs, step.graph).mode;
    touches.push_back({&calm_, mode == CU_STREAM_CAPTURE_MODE_GLOBAL});
    touches.push_back({&life_, false});
  }
  if (begins || step.kind == Kind::kEndCapture || step.kind == Kind::kSynchronizeContext) {
    const bool waits = step.kind == Kind::kSynchronizeContext;
    touches.push_back({&at(contexts, step.context).quiet, !waits});
  }
}

bool Model::apply(const Step& step, Clock& known) {
  if (is_unsafe(step.kind) && !is_calm_for(step.thread)) {
    return false;
  }
  switch (step.kind) {
    case Kind::kCreateContext:
    case Kind::kRetainPrimary:
    case Kind::kEndContext:
    case Kind::kSynchronizeContext:
      return apply_to_context(step, known);
    case Kind::kCreateStream:
      return create_stream(step);
    case Kind::kAllocate:
    case Kind::kAllocatePitch:
      return allocate(step, at(blocks, step.block));
    case Kind::kFree:
      return free(step, at(blocks, step.block), known);
    case Kind::kWriteHost: {
      Buffer& slot = at(slots, step.slot);
      if (!fits(step) || !is_idle(slot, known)) {
        return false;
      }
      run(step, Mark{});
      return true;
    }
    case Kind::kSynchronizeEvent:
      if (!at(events, step.event).live || at(events, step.event).context != step.context) {
        return false;
      }
      known.merge(at(events, step.event).clock);
      return true;
    case Kind::kSynchronizeStream:
      if (!stream_is_usable(step) || at(streams, step.stream).capture >= 0) {
        return false;
      }
      known.merge(at(streams, step.stream).clock);
      return true;
    case Kind::kDestroyGraph: {
      Graph& graph = at(graphs, step.graph);
      const bool ready = graph.state == Graph::State::kReady;
      graph.state = ready ? Graph::State::kGone : graph.state;
      return ready;
    }
    case Kind::kBeginCapture:
      return stream_is_usable(step) && begin_capture(step);
    case Kind::kEndCapture:
      return stream_is_usable(step) && end_capture(step);
    default:
      return stream_is_usable(step) && apply_to_stream(step, known);
  }
}

}  // namespace random_programs
