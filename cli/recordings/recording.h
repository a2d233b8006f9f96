// What happened to device memory in one process, as it was recorded: by CUBFC_TRACE, in RMM's log,
// or in a PyTorch snapshot. All readers make one; replay and report know nothing else. Knows
// nothing of CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "shim/tell/trace_format.h"

namespace cubfc::recordings {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

struct Event {
  std::uint64_t time_ns = 0;  // since the start
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;      // see trace::Kind
  std::uint32_t padding = 0;    // see trace::Kind
  std::uint32_t text = kNone;   // kOutOfMemory, kNote: which of Recording::texts
  std::uint32_t stack = kNone;  // kAllocate: which of Recording::stacks
  // Which of Recording::places; kNone: of the process as a whole, which only moments can be (see
  // trace::Kind; kOutOfMemory and kNote are moments, too).
  std::uint32_t place = 0;
  std::uint16_t thread = 0;                  // which of Recording::threads
  std::uint8_t caller = 0;                   // which of Recording::callers
  trace::Kind kind = trace::Kind::kNothing;  // none that only names things
  bool apart = false;                        // kGrow: no block reaches from it into what touches it
};

struct Device {
  std::uint32_t number = 0;
  std::string name;                   // empty: not known
  std::uint64_t total_bytes = 0;      // 0: not known
  std::uint64_t limit_bytes = ~0ULL;  // ~0: none
  std::array<unsigned char, 16> uuid{};
  std::string label;  // what it is called; empty: "GPU 0", by its number
};

struct Place {
  std::uint32_t device = 0;  // its number
  trace::Memory memory = trace::Memory::kArena;
  std::uint64_t context_id = 0;  // 0: goes with no context
};

// Whether a place's blocks lie at addresses, and not behind handles.
[[nodiscard]] constexpr bool has_addresses(trace::Memory memory) {
  return memory != trace::Memory::kMapped && memory != trace::Memory::kArray;
}

struct Thread {
  std::uint64_t id = 0;  // 0: not known
  std::string name;
};

// A function that a stack is in. What is empty, or 0, is not known.
struct Frame {
  enum class Kind : std::uint8_t {
    kNative,
    kPython,
    kThread,  // nobody has called the thread: `function` says whose it is
  };
  std::string function;
  std::string file;  // of the source
  std::uint32_t line = 0;
  Kind kind = Kind::kNative;
  std::string object;        // kNative: the path of the program or library
  std::uint64_t offset = 0;  // in that file, of where the call returns to; without one, an address
};

// Of all stacks of a recording. Many of them have the same frames, so that a small file could ask
// for much memory.
inline constexpr std::uint64_t kMostStackBytes = std::uint64_t{1} << 30;

// Of PyTorch's cache, in the place of which a recording has the tensors in them.
struct Segments {
  std::uint64_t blocks = 0;
  std::uint64_t peak_bytes = 0;
};

struct Recording {
  std::string path;
  std::string format;               // "cubfc trace", "RMM log", "PyTorch snapshot"
  std::uint64_t start_unix_ns = 0;  // 0: not known
  std::uint64_t pid = 0;            // 0: not known
  std::vector<std::string> command_line;
  std::string settings;  // lines
  std::vector<Device> devices;
  std::vector<Place> places;
  std::vector<std::string> callers;    // the first is "" for what is not known
  std::vector<Thread> threads;         // likewise
  std::string threads_are = "thread";  // or "stream", by which blocks are told apart there
  std::string callers_are = "caller";  // or "line", "line and category"
  std::string arena_is = "arena";      // Memory::kArena, in words
  std::vector<std::string> texts;
  std::vector<Frame> frames;
  // Which of `frames`, the innermost first. Where Python's are known, they stand in the place of
  // the interpreter's own.
  std::vector<std::vector<std::uint32_t>> stacks;
  std::string program_object;                    // of the program itself, as a Frame's `object`
  std::map<std::string, std::string> build_ids;  // of a Frame's `object`, in hexadecimal
  std::vector<Event> events;                     // in the order in which they happened
  // The first so many events, kGrow and kAllocate, make what was there before the recording began.
  // Whoever numbers events counts them as one, which has number 0.
  std::size_t before = 0;
  // Set where PyTorch's tensors are among the events, in the place of its cache's segments; true
  // where there are such tensors, and they were left out: see tensors.h.
  std::optional<Segments> segments;
  bool left_out_tensors = false;
  bool has_times = true;       // false: times tell the order alone
  bool reached_limit = false;  // the file had: nothing was recorded after the last event
  bool closed = false;         // the process ended in order
  bool is_cut = false;         // what came next was not written whole: the events are those before
  // Nothing was recorded as it happened: the events make what was there when it was written.
  bool is_state = false;

  [[nodiscard]] std::uint32_t number_of(std::size_t index) const {
    return static_cast<std::uint32_t>(index < before ? 0 : index - numbers_less());
  }
  [[nodiscard]] const Event& event(std::uint32_t number) const {
    return events[number + numbers_less()];
  }
  // Puts others among these by their times; the first `before_others` of them are of before.
  void add(std::vector<Event> others, std::size_t before_others);
  // That events have, from 0 on.
  [[nodiscard]] std::size_t numbers() const { return events.size() - numbers_less(); }

 private:
  [[nodiscard]] std::size_t numbers_less() const { return before == 0 ? 0 : before - 1; }
};

// What is wrong with a file: what() names it and the place, "run.cubfc: byte 4096: ...".
class BadRecording : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cubfc::recordings
