// What a correct CUDA program may do next, and what every byte then is. It is asked step by step,
// by the generator with a new one and by the shrinker with what is left of a program; it refuses a
// step that CUDA forbids there or whose effect would depend on timing. Knows no driver.
//
// Two orders matter. The host's: steps of several threads that use one thing come one after the
// other, for which the model writes into each step what it has to wait for. And the device's: a
// clock says of each stream how much of its work is known to be done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "steps.h"

namespace random_programs {

// A piece of work that was queued in a stream.
struct Mark {
  int stream = -1;
  int tick = 0;
};

class Clock {
 public:
  bool covers(const Mark& mark) const;
  void merge(const Clock& other);
  Mark next(int stream);  // work that comes after all that the clock covers

 private:
  std::vector<int> ticks_;  // by stream
};

// What steps of several threads use, and some change.
struct Resource {
  std::array<int, kMostThreads> changed{-1, -1, -1, -1};  // by thread, the last place
  std::array<int, kMostThreads> used{-1, -1, -1, -1};
  Clock known_to_changer;  // to be done then
  Clock known_to_users;
};

struct Context {
  Resource resource;
  Resource quiet;  // changed by a capture's beginning and end, used by what must not meet one
  bool live = false;
  bool primary = false;
  int device = 0;
};

struct Stream {
  Resource resource;
  bool live = false;
  int context = 0;
  int thread = 0;  // that made it
  Flavour flavour = Flavour::kBlocking;
  int capture = -1;  // the graph that it captures
  Clock clock;       // all work queued in it, and what that waits for
};

constexpr int kUndefined = -1;

// A block or a slot.
struct Buffer {
  Resource resource;
  bool live = false;
  bool pooled = false;
  int context = 0;
  std::uint32_t words = 0;
  int content = kUndefined;
  Mark writer;
  std::vector<Mark> readers;  // since then
};

struct Event {
  Resource resource;
  bool live = false;
  int context = 0;
  Clock clock;
};

struct Graph {
  Resource resource;
  enum class State { kNone, kCapturing, kReady, kGone } state = State::kNone;
  int context = 0;
  int stream = 0;  // that it is captured from
  int thread = 0;
  int mode = 0;  // CUstreamCaptureMode
  Steps steps;
};

class Model {
 public:
  // Whether the step may come next; it is the next then, and its `after` is set. Otherwise nothing
  // has changed.
  bool take(Step& step);

  // No capture is open: the program may end here.
  bool finished() const;

  // Read by the generator, which chooses among what there is, and by the runner at the end.
  std::vector<Context> contexts;
  std::vector<Stream> streams;
  std::vector<Buffer> blocks;
  std::vector<Buffer> slots;
  std::vector<Event> events;
  std::vector<Graph> graphs;

 private:
  struct Touch {
    Resource* resource;
    bool change;
  };
  void make_room(const Step& step);
  std::vector<Touch> touches_of(const Step& step);
  void touch_captures(const Step& step, std::vector<Touch>& touches);

  bool apply(const Step& step, Clock& known);
  bool apply_to_context(const Step& step, Clock& known);
  bool end_context(int context, Clock& known);
  bool create_stream(const Step& step);
  bool allocate(const Step& step, Buffer& block);
  bool is_being_captured(const Buffer& block);
  bool free(const Step& step, Buffer& block, const Clock& known);
  bool begin_capture(const Step& step);
  bool end_capture(const Step& step);
  bool apply_to_stream(const Step& step, const Clock& known);
  bool capture(const Step& step);
  bool launch(const Graph& graph, const Clock& before, const Mark& mark);

  Buffer* target_of(const Step& step);
  Buffer* source_of(const Step& step);
  bool is_reached(const Buffer& of_pool, int of_stream);
  bool fits(const Step& step);
  bool can_run(const Step& step, const Clock& before);
  void run(const Step& step, const Mark& mark);
  void claim(Buffer& target, std::uint32_t words);
  bool is_idle(const Buffer& buffer, const Clock& known) const;
  bool is_idle_outside(const Buffer& buffer, const Clock& known, int one, int other) const;

  bool stream_is_usable(const Step& step) const;
  bool is_calm_for(int thread) const;
  bool captures_in(int context, bool only_blocking) const;

  std::array<Clock, kMostThreads> known_;  // to each thread to be done
  Resource calm_;  // changed by a global capture's beginning and end, used by unsafe calls
  Resource life_;  // changed when a context begins or ends, used by captures
  int steps_ = 0;
  std::uint64_t slot_words_ = 0;
};

// All slots of a program have this much room together.
constexpr std::uint32_t kSlotWords = 2U << 20U;

}  // namespace random_programs
