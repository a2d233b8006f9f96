// Makes programs by proposing one step after the other to the model. What is likely to go wrong is
// likely to be proposed: work that is still queued when its block is freed, and sizes so few that
// the next block gets the same place.
#include <cuda.h>

#include <array>
#include <initializer_list>
#include <random>

#include "program.h"

namespace random_programs {
namespace {

constexpr int kNone = -1;

class Generator {
 public:
  Generator(std::uint64_t seed, const Allowed& allowed) : random_(seed), allowed_(allowed) {}

  Program make() {
    begin();
    const int wanted = one_in(6) ? between(100, 250) : between(20, 80);
    for (int tries = 0; tries < wanted * 8 && static_cast<int>(program_.steps.size()) < wanted;
         ++tries) {
      propose();
    }
    // The thread that cannot end its capture yet can do so when the others' are over.
    for (int tries = 0; tries <= kMostThreads; ++tries) {
      for (int stream = 0; stream < size(model_.streams); ++stream) {
        end_capture(stream);
      }
    }
    return std::move(program_);
  }

 private:
  // The standard's engine gives the same numbers everywhere, its distributions do not.
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  int between(int least, int most) { return least + below(most - least + 1); }
  bool one_in(int times) { return below(times) == 0; }
  bool percent(int chance) { return below(100) < chance; }

  template <typename Things>
  static int size(const Things& things) {
    return static_cast<int>(things.size());
  }

  // One of those that are wanted, or kNone.
  template <typename Things, typename Wanted>
  int pick(const Things& things, const Wanted& wanted) {
    int found = kNone;
    int seen = 0;
    for (int i = 0; i < size(things); ++i) {
      if (wanted(things[static_cast<std::size_t>(i)]) && one_in(++seen)) {
        found = i;
      }
    }
    return found;
  }
  template <typename Things>
  int pick_live(const Things& things) {
    return pick(things, [](const auto& thing) { return thing.live; });
  }
  template <typename Things>
  int pick_of(const Things& things, int context) {
    return pick(things, [&](const auto& thing) { return thing.live && thing.context == context; });
  }
  int pick_graph(Graph::State state) {
    return pick(model_.graphs, [&](const Graph& graph) { return graph.state == state; });
  }

  bool add(Step step) {
    step.number = number_;
    const bool added = program_.add(step);
    number_ += added ? 1 : 0;
    return added;
  }

  // The work whose order matters to what is done with the buffer next.
  static std::vector<Mark> marks_of(const Buffer& buffer) {
    std::vector<Mark> marks = buffer.readers;
    if (buffer.writer.stream != kNone) {
      marks.push_back(buffer.writer);
    }
    return marks;
  }

  int any_thread() { return below(program_.threads); }

  // A step in a stream, mostly by the thread that made it.
  Step in_stream(Kind kind, int stream) {
    const Stream& its = at(model_.streams, stream);
    const bool own = its.flavour == Flavour::kPerThread || its.capture >= 0 || percent(80);
    return {.kind = kind,
            .thread = own ? its.thread : any_thread(),
            .context = its.context,
            .stream = stream};
  }

  void begin() {
    const int threads = one_in(3) ? 1 : between(2, kMostThreads);
    program_.threads = allowed_.threads ? threads : 1;
    captures_ = one_in(2) && allowed_.captures;
    ordered_ = one_in(3);
    for (std::uint32_t& words : words_) {
      words = 128U * static_cast<unsigned>(one_in(12)  ? between(512, 6144)
                                           : one_in(4) ? between(16, 256)
                                                       : between(1, 16));
      words -= one_in(2) ? static_cast<unsigned>(below(128)) : 0;
    }
    for (int contexts = one_in(2) ? 1 : between(2, 3); contexts > 0; --contexts) {
      create_context();
    }
  }

  void create_context() {
    const int context = size(model_.contexts);
    add({.kind = one_in(2) ? Kind::kCreateContext : Kind::kRetainPrimary,
         .thread = any_thread(),
         .context = context,
         .choice = one_in(3) ? allowed_.devices - 1 : 0});
    for (int streams = between(1, 4); streams > 0; --streams) {
      create_stream(context);
    }
  }

  void create_stream(int context) {
    const Flavour flavour = one_in(8)   ? Flavour::kLegacy
                            : one_in(8) ? Flavour::kPerThread
                            : one_in(3) ? Flavour::kBlocking
                                        : Flavour::kNonBlocking;
    add({.kind = Kind::kCreateStream,
         .thread = any_thread(),
         .context = context,
         .stream = size(model_.streams),
         .choice = static_cast<int>(flavour)});
  }

  void propose();
  void allocate();
  void allocate(int context, std::uint32_t words, int stream);
  void free(int block);
  int context_to_free(const Buffer& block);
  void work(int block);
  void write_host();
  void copy_in(int block, int stream);
  void copy_within(int block, int stream);
  void synchronize();
  void begin_capture();
  void end_capture(int stream);
  void launch();
  void end_something();
  void add_ordered(const Step& step);
  void order_after_data_of(const Step& step, int stream);
  void order_after(const Buffer& buffer, int stream);
  int stream_for(const Buffer& block);

  std::mt19937_64 random_;
  Program program_;
  const Model& model_ = program_.end;
  std::array<std::uint32_t, 3> words_{};
  const Allowed allowed_;
  bool captures_ = false;  // what there is much of
  bool ordered_ = false;
  int number_ = 0;
};

void Generator::propose() {
  const int block = pick_live(model_.blocks);
  const int choice = below(100);
  if (choice < 20 || block == kNone) {
    allocate();
  } else if (choice < 36) {
    free(block);
  } else if (choice < 74) {
    work(block);
  } else if (choice < 78) {
    write_host();
  } else if (choice < 84) {
    synchronize();
  } else if (choice < 87 && captures_) {
    begin_capture();
  } else if (choice < 91 && captures_) {
    const int graph = pick_graph(Graph::State::kCapturing);
    if (graph != kNone) {
      end_capture(at(model_.graphs, graph).stream);
    }
  } else if (choice < 98) {
    launch();
  } else {
    end_something();
  }
}

void Generator::allocate() {
  const int context = pick_live(model_.contexts);
  if (context == kNone) {
    create_context();
    return;
  }
  const bool ordered = one_in(ordered_ ? 2 : 8);
  allocate(context, at(words_, below(3)), ordered ? pick_of(model_.streams, context) : kNone);
}

// In the order of the stream, if one is given.
void Generator::allocate(int context, std::uint32_t words, int stream) {
  Step step{.kind = Kind::kAllocate, .thread = any_thread(), .context = context};
  if (stream != kNone) {
    step = in_stream(Kind::kAllocateAsync, stream);
  } else if (words % 128 == 0 && one_in(8)) {
    step.kind = Kind::kAllocatePitch;
  }
  step.block = size(model_.blocks);
  step.words = words;
  if (add(step) && percent(80)) {
    work(step.block);
  }
}

void Generator::free(int block) {
  const Buffer its = at(model_.blocks, block);
  const int stream = one_in(ordered_ ? 2 : 8) ? stream_for(its) : kNone;
  Step step{.kind = Kind::kFree, .thread = any_thread(), .context = context_to_free(its)};
  if (stream != kNone) {
    step = in_stream(Kind::kFreeAsync, stream);
  }
  step.block = block;
  if (stream != kNone) {
    add_ordered(step);
  } else {
    add(step);
  }
  if (at(model_.blocks, block).live) {
    synchronize();
  } else if (percent(60)) {
    // Somebody else is likely to get the place now, and writes to it.
    const int next = stream != kNone && percent(70) ? stream
                     : ordered_ && one_in(3)        ? pick_of(model_.streams, its.context)
                                                    : kNone;
    allocate(its.context, its.words, next);
  }
}

// Mostly the block's, but a free in another context may have to wait for work of that one, too.
int Generator::context_to_free(const Buffer& block) {
  if (one_in(3)) {
    for (const Mark& mark : marks_of(block)) {
      if (at(model_.streams, mark.stream).context != block.context) {
        return at(model_.streams, mark.stream).context;
      }
    }
  }
  return one_in(6) ? pick_live(model_.contexts) : block.context;
}

// Mostly the stream that wrote to the block last, for whose next work nothing has to be awaited; or
// one that captures, so that graphs are long.
int Generator::stream_for(const Buffer& block) {
  const int capturing = pick(model_.streams, [&](const Stream& stream) {
    return stream.capture != kNone && stream.context == block.context;
  });
  if (capturing != kNone && one_in(2)) {
    return capturing;
  }
  const int last = block.writer.stream;
  if (last != kNone && at(model_.streams, last).live && percent(70) &&
      at(model_.streams, last).context == block.context) {
    return last;
  }
  return pick_of(model_.streams, block.context);
}

void Generator::work(int block) {
  const Buffer& its = at(model_.blocks, block);
  const int stream = stream_for(its);
  if (stream == kNone) {
    create_stream(its.context);
    return;
  }
  const bool defined = its.content != kUndefined;
  if (!defined && one_in(4)) {
    copy_in(block, stream);
  } else if (!defined || one_in(4)) {
    Step step = in_stream(Kind::kFill, stream);
    step.block = block;
    step.words = its.words;
    add_ordered(step);
  } else if (one_in(4)) {
    copy_within(block, stream);
  } else {
    const int other = one_in(4) ? pick_live(model_.streams) : kNone;
    Step step = in_stream(Kind::kCopyOut, other == kNone ? stream : other);
    step.block = block;
    step.slot = one_in(8) ? pick_live(model_.slots) : kNone;
    step.slot = step.slot == kNone ? size(model_.slots) : step.slot;
    step.words = its.words;
    add_ordered(step);
  }
}

void Generator::write_host() {
  const int old = one_in(3) ? pick_live(model_.slots) : kNone;
  const std::uint32_t words = old == kNone ? at(words_, below(3)) : at(model_.slots, old).words;
  add({.kind = Kind::kWriteHost,
       .thread = any_thread(),
       .slot = old == kNone ? size(model_.slots) : old,
       .words = words});
}

void Generator::copy_in(int block, int stream) {
  const std::uint32_t words = at(model_.blocks, block).words;
  Step step = in_stream(Kind::kCopyIn, stream);
  step.block = block;
  step.words = words;
  step.slot = pick(model_.slots, [&](const Buffer& slot) {
    return slot.words >= words && slot.content != kUndefined;
  });
  if (step.slot != kNone) {
    add_ordered(step);
  } else {
    write_host();
  }
}

// From the block to one that is not larger, perhaps of another context.
void Generator::copy_within(int block, int stream) {
  const std::uint32_t words = at(model_.blocks, block).words;
  Step step = in_stream(Kind::kCopyWithin, stream);
  step.source = block;
  step.block =
      pick(model_.blocks, [&](const Buffer& other) { return other.live && other.words <= words; });
  step.words = at(model_.blocks, step.block).words;
  add_ordered(step);
}

// The step, and before it what makes it come after other streams' work on the same memory.
void Generator::add_ordered(const Step& step) {
  if (!add(step)) {
    order_after_data_of(step, step.stream);
    add(step);
  }
}

void Generator::order_after_data_of(const Step& step, int stream) {
  for (const int block : {step.block, step.source}) {
    if (block != kNone) {
      order_after(at(model_.blocks, block), stream);
    }
  }
  if (step.slot != kNone && step.slot < size(model_.slots)) {
    order_after(at(model_.slots, step.slot), stream);
  }
}

void Generator::order_after(const Buffer& buffer, int stream) {
  for (const Mark& mark : marks_of(buffer)) {
    if (at(model_.streams, stream).clock.covers(mark) || !at(model_.streams, mark.stream).live) {
      continue;
    }
    Step record = in_stream(Kind::kRecord, mark.stream);
    record.event = size(model_.events);
    if (add(record)) {
      Step wait = in_stream(Kind::kWait, stream);
      wait.event = record.event;
      add(wait);
    }
  }
}

void Generator::synchronize() {
  const int stream = pick_live(model_.streams);
  const int event = pick_live(model_.events);
  const int context = pick_live(model_.contexts);
  if (event != kNone && one_in(4)) {
    add({.kind = Kind::kSynchronizeEvent,
         .thread = any_thread(),
         .context = at(model_.events, event).context,
         .event = event});
  } else if (context != kNone && one_in(4)) {
    add({.kind = Kind::kSynchronizeContext, .thread = any_thread(), .context = context});
  } else if (stream != kNone) {
    add(in_stream(Kind::kSynchronizeStream, stream));
  }
}

void Generator::begin_capture() {
  const int stream = pick_live(model_.streams);
  if (stream != kNone) {
    Step step = in_stream(Kind::kBeginCapture, stream);
    step.graph = size(model_.graphs);
    step.thread = at(model_.streams, stream).thread;
    step.choice = one_in(3)   ? CU_STREAM_CAPTURE_MODE_GLOBAL
                  : one_in(2) ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                              : CU_STREAM_CAPTURE_MODE_RELAXED;
    add(step);
  }
}

void Generator::end_capture(int stream) {
  const int graph = at(model_.streams, stream).capture;
  if (graph == kNone) {
    return;
  }
  Step step = in_stream(Kind::kEndCapture, stream);
  step.graph = graph;
  if (add(step) && percent(70)) {
    launch();
  }
}

void Generator::launch() {
  const int graph = pick_graph(Graph::State::kReady);
  if (graph == kNone) {
    return;
  }
  const Graph& its = at(model_.graphs, graph);
  const int stream = one_in(2) ? its.stream : pick_of(model_.streams, its.context);
  if (stream == kNone || !at(model_.streams, stream).live) {
    return;
  }
  Step step = in_stream(Kind::kLaunch, stream);
  step.graph = graph;
  if (!add(step)) {
    const Steps nodes = its.steps;
    for (const Step& node : nodes) {
      order_after_data_of(node, stream);
    }
    add(step);
  }
}

void Generator::end_something() {
  const int what = below(4);
  const int stream = pick_live(model_.streams);
  const int context = pick_live(model_.contexts);
  const int graph = pick_graph(Graph::State::kReady);
  if (what == 0 && context != kNone && one_in(2)) {
    if (add({.kind = Kind::kEndContext,
             .thread = any_thread(),
             .context = context,
             .choice = below(2)})) {
      create_context();
    }
  } else if (what == 1 && graph != kNone) {
    add({.kind = Kind::kDestroyGraph,
         .thread = any_thread(),
         .context = at(model_.graphs, graph).context,
         .graph = graph});
  } else if (what > 1 && stream != kNone) {
    const int its_context = at(model_.streams, stream).context;
    if (add(in_stream(Kind::kDestroyStream, stream))) {
      create_stream(its_context);
    }
  }
}

}  // namespace

Program generate(std::uint64_t seed, const Allowed& allowed) {
  return Generator(seed, allowed).make();
}

}  // namespace random_programs
