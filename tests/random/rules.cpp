// The rules: what CUDA allows, and what has a certain outcome.
#include <cuda.h>

#include <algorithm>

#include "model.h"

namespace random_programs {
namespace {

// Little enough that no allocation has to fail, in whichever context it is.
constexpr std::uint64_t kMostBlockWords = 3U << 20U;

bool blocks_legacy(const Stream& stream) {
  return stream.flavour == Flavour::kBlocking || stream.flavour == Flavour::kPerThread;
}

bool is_work(Kind kind) {
  return kind == Kind::kFill || kind == Kind::kCopyWithin || kind == Kind::kCopyOut ||
         kind == Kind::kCopyIn;
}

}  // namespace

bool Model::apply_to_context(const Step& step, Clock& known) {
  Context& context = at(contexts, step.context);
  if (step.kind == Kind::kSynchronizeContext) {
    // cuCtxSynchronize while a stream of the context captures is an error in every mode.
    if (!context.live || captures_in(step.context, false)) {
      return false;
    }
    for (const Stream& stream : streams) {
      if (stream.context == step.context) {
        known.merge(stream.clock);
      }
    }
    return true;
  }
  if (!finished()) {
    return false;
  }
  if (step.kind == Kind::kEndContext) {
    return end_context(step.context, known);
  }
  const bool primary = step.kind == Kind::kRetainPrimary;
  const bool has_one = std::any_of(contexts.begin(), contexts.end(), [&](const Context& other) {
    return other.live && other.primary && other.device == step.choice;
  });
  if (context.live || (primary && has_one)) {
    return false;
  }
  context.live = true;
  context.primary = primary;
  context.device = step.choice;
  return true;
}

// A context ends when its work is done, and takes what belongs to it along.
bool Model::end_context(int index, Clock& known) {
  const auto ours = [&](const auto& thing) { return thing.live && thing.context == index; };
  if (!at(contexts, index).live) {
    return false;
  }
  for (const Buffer& block : blocks) {
    if (ours(block) && !is_idle_outside(block, known, index, index)) {
      return false;
    }
  }
  at(contexts, index).live = false;
  for (Stream& stream : streams) {
    if (stream.context == index) {
      known.merge(stream.clock);
      stream.live = false;
    }
  }
  for (Buffer& block : blocks) {
    block.live = block.live && block.context != index;
  }
  for (Event& event : events) {
    event.live = event.live && event.context != index;
  }
  for (Graph& graph : graphs) {
    if (graph.context == index && graph.state == Graph::State::kReady) {
      graph.state = Graph::State::kGone;
    }
  }
  return true;
}

bool Model::create_stream(const Step& step) {
  const auto flavour = static_cast<Flavour>(step.choice);
  // One handle stands for the legacy stream, and one for the per-thread streams.
  const bool there = std::any_of(streams.begin(), streams.end(), [&](const Stream& other) {
    return other.live && other.context == step.context && other.flavour == flavour &&
           (flavour == Flavour::kLegacy ||
            (flavour == Flavour::kPerThread && other.thread == step.thread));
  });
  Stream& stream = at(streams, step.stream);
  if (there || stream.live || !at(contexts, step.context).live) {
    return false;
  }
  stream.live = true;
  stream.context = step.context;
  stream.thread = step.thread;
  stream.flavour = flavour;
  return true;
}

bool Model::allocate(const Step& step, Buffer& block) {
  std::uint64_t words = step.words;
  for (const Buffer& other : blocks) {
    words += other.live ? other.words : 0;
  }
  if (!at(contexts, step.context).live || block.words > 0 || words > kMostBlockWords) {
    return false;
  }
  block.live = true;
  block.context = step.context;
  block.words = step.words;
  return true;
}

// What is captured has to be there when the graph is instantiated: an H200's driver crashes where
// it is not.
bool Model::is_being_captured(const Buffer& block) {
  return std::ranges::any_of(graphs, [&](const Graph& graph) {
    return graph.state == Graph::State::kCapturing &&
           std::ranges::any_of(graph.steps, [&](const Step& step) {
             return target_of(step) == &block || source_of(step) == &block;
           });
  });
}

// cuMemFree waits for the work of the current context and of the block's. Of a pool's block the
// driver takes all use to be over (CUDA programming guide, stream ordered memory allocator).
bool Model::free(const Step& step, Buffer& block, const Clock& known) {
  if (!block.live || !at(contexts, step.context).live || is_being_captured(block)) {
    return false;
  }
  const bool idle = block.pooled ? is_idle(block, known)
                                 : is_idle_outside(block, known, block.context, step.context);
  block.live = block.live && !idle;
  return idle;
}

bool Model::begin_capture(const Step& step) {
  Stream& stream = at(streams, step.stream);
  Graph& graph = at(graphs, step.graph);
  const bool in_the_way = std::any_of(graphs.begin(), graphs.end(), [&](const Graph& other) {
    const bool both_global =
        other.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && step.choice == CU_STREAM_CAPTURE_MODE_GLOBAL;
    return other.state == Graph::State::kCapturing && (other.thread == step.thread || both_global);
  });
  if (stream.flavour == Flavour::kLegacy || stream.capture >= 0 || in_the_way ||
      graph.state != Graph::State::kNone) {
    return false;
  }
  stream.capture = step.graph;
  graph.state = Graph::State::kCapturing;
  graph.context = step.context;
  graph.stream = step.stream;
  graph.thread = step.thread;
  graph.mode = step.choice;
  return true;
}

// The graph is instantiated, too, which is taken for an unsafe call.
bool Model::end_capture(const Step& step) {
  Stream& stream = at(streams, step.stream);
  Graph& graph = at(graphs, step.graph);
  const bool allowed =
      stream.capture == step.graph &&
      (graph.thread == step.thread || graph.mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  if (!allowed) {
    return false;
  }
  graph.state = Graph::State::kReady;
  if (!is_calm_for(step.thread)) {
    graph.state = Graph::State::kCapturing;
    return false;
  }
  stream.capture = -1;
  return true;
}

bool Model::apply_to_stream(const Step& step, const Clock& known) {
  Stream& stream = at(streams, step.stream);
  if (stream.capture >= 0) {
    return capture(step);
  }
  Clock clock = stream.clock;
  clock.merge(known);
  const Mark mark = clock.next(step.stream);
  switch (step.kind) {
    case Kind::kDestroyStream:
      if (stream.flavour == Flavour::kLegacy || stream.flavour == Flavour::kPerThread) {
        return false;
      }
      stream.live = false;
      break;
    case Kind::kAllocateAsync: {
      Buffer& block = at(blocks, step.block);
      if (!allocate(step, block)) {
        return false;
      }
      block.pooled = true;
      block.writer = mark;
      break;
    }
    case Kind::kFreeAsync: {
      Buffer& block = at(blocks, step.block);
      if (!block.live || block.context != step.context || !is_idle(block, clock) ||
          is_being_captured(block)) {
        return false;
      }
      block.live = false;
      break;
    }
    case Kind::kRecord: {
      Event& event = at(events, step.event);
      event.live = true;
      event.context = step.context;
      event.clock = clock;
      break;
    }
    case Kind::kWait:
      if (!at(events, step.event).live) {
        return false;
      }
      clock.merge(at(events, step.event).clock);
      break;
    case Kind::kLaunch: {
      const Graph& graph = at(graphs, step.graph);
      if (graph.state != Graph::State::kReady || graph.context != step.context ||
          !launch(graph, clock, mark)) {
        return false;
      }
      break;
    }
    default:
      if (!is_work(step.kind) || !can_run(step, clock)) {
        return false;
      }
      run(step, mark);
  }
  stream.clock = clock;
  return true;
}

bool Model::capture(const Step& step) {
  if (!is_work(step.kind) || !fits(step)) {
    return false;
  }
  claim(*target_of(step), step.words);
  at(graphs, at(streams, step.stream).capture).steps.push_back(step);
  return true;
}

// All of it or, if one step cannot run, nothing.
bool Model::launch(const Graph& graph, const Clock& before, const Mark& mark) {
  const auto blocks_before = blocks;
  const auto slots_before = slots;
  for (const Step& step : graph.steps) {
    if (!can_run(step, before)) {
      blocks = blocks_before;
      slots = slots_before;
      return false;
    }
    run(step, mark);
  }
  return true;
}

Buffer* Model::target_of(const Step& step) {
  switch (step.kind) {
    case Kind::kAllocate:
    case Kind::kAllocatePitch:
    case Kind::kAllocateAsync:
    case Kind::kFree:
    case Kind::kFreeAsync:
    case Kind::kFill:
    case Kind::kCopyWithin:
    case Kind::kCopyIn:
      return &at(blocks, step.block);
    case Kind::kWriteHost:
    case Kind::kCopyOut:
      return &at(slots, step.slot);
    default:
      return nullptr;
  }
}

Buffer* Model::source_of(const Step& step) {
  switch (step.kind) {
    case Kind::kCopyWithin:
      return &at(blocks, step.source);
    case Kind::kCopyOut:
      return &at(blocks, step.block);
    case Kind::kCopyIn:
      return &at(slots, step.slot);
    default:
      return nullptr;
  }
}

// What is copied into a slot that is not there yet makes it.
bool Model::fits(const Step& step) {
  const Buffer* const target = target_of(step);
  const Buffer* const source = source_of(step);
  const bool makes_slot = step.kind == Kind::kCopyOut || step.kind == Kind::kWriteHost;
  if (makes_slot && target->words == 0) {
    if (slot_words_ + step.words > kSlotWords) {
      return false;
    }
  } else if (!target->live || target->words != step.words) {
    return false;
  }
  if (source != nullptr && (!source->live || source->words < step.words || source == target)) {
    return false;
  }
  for (const Buffer* const end : {target, source}) {
    if (end != nullptr && end->pooled && !is_reached(*end, step.context)) {
      return false;
    }
  }
  // Copies reach memory of every context.
  return step.kind != Kind::kFill || target->context == step.context;
}

// A copy is refused where the stream's device has no access to the memory of a pool
// (cuMemPoolSetAccess), which no program here gives.
bool Model::is_reached(const Buffer& of_pool, int of_stream) {
  return at(contexts, of_pool.context).device == at(contexts, of_stream).device;
}

bool Model::can_run(const Step& step, const Clock& before) {
  const Buffer* const source = source_of(step);
  return fits(step) && is_idle(*target_of(step), before) &&
         (source == nullptr || (source->content != kUndefined && before.covers(source->writer)));
}

void Model::run(const Step& step, const Mark& mark) {
  Buffer& target = *target_of(step);
  Buffer* const source = source_of(step);
  claim(target, step.words);
  target.content = source == nullptr ? step.number : source->content;
  target.writer = mark;
  target.readers.clear();
  if (source != nullptr) {
    source->readers.push_back(mark);
  }
}

void Model::claim(Buffer& target, std::uint32_t words) {
  if (target.words == 0) {
    target.words = words;
    target.live = true;
    slot_words_ += words;
  }
}

bool Model::is_idle(const Buffer& buffer, const Clock& known) const {
  return is_idle_outside(buffer, known, -1, -1);
}

// Whether all work on the buffer is over, but for that of two contexts.
bool Model::is_idle_outside(const Buffer& buffer, const Clock& known, int one, int other) const {
  const auto harmless = [&](const Mark& mark) {
    if (known.covers(mark)) {
      return true;
    }
    const int context = at(streams, mark.stream).context;
    return context == one || context == other;
  };
  return harmless(buffer.writer) &&
         std::all_of(buffer.readers.begin(), buffer.readers.end(), harmless);
}

bool Model::stream_is_usable(const Step& step) const {
  const Stream& stream = at(streams, step.stream);
  if (!stream.live || stream.context != step.context) {
    return false;
  }
  if (stream.flavour == Flavour::kLegacy) {
    return !captures_in(step.context, true);
  }
  return stream.flavour != Flavour::kPerThread || stream.thread == step.thread;
}

bool Model::is_calm_for(int thread) const {
  return std::none_of(graphs.begin(), graphs.end(), [&](const Graph& graph) {
    return graph.state == Graph::State::kCapturing &&
           (graph.mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
            (graph.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && graph.thread == thread));
  });
}

// The legacy stream is disturbed by captures of those that it waits for.
bool Model::captures_in(int context, bool only_blocking) const {
  return std::any_of(streams.begin(), streams.end(), [&](const Stream& stream) {
    return stream.context == context && stream.capture >= 0 &&
           (!only_blocking || blocks_legacy(stream));
  });
}

bool Model::finished() const {
  return std::none_of(graphs.begin(), graphs.end(),
                      [](const Graph& graph) { return graph.state == Graph::State::kCapturing; });
}

}  // namespace random_programs
