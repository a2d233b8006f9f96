// What happened to the device memory of one process, as recorded by CUBFC_TRACE, in RMM's log or in
// a PyTorch snapshot. Each reader makes a Recording; replay and report read nothing else. Knows
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
  std::uint32_t stack = kNone;  // kAllocate, kTensor: which of Recording::stacks
  // Which of Recording::places. kNone for an event of the process as a whole, such as kClose, and
  // for a kOutOfMemory or kNote without a place. kNone also for a tensor, until show_tensors()
  // (tensors.h) gives it the place of its segment.
  std::uint32_t place = 0;
  std::uint16_t thread = 0;                  // which of Recording::threads
  std::uint8_t caller = 0;                   // which of Recording::callers
  trace::Kind kind = trace::Kind::kNothing;  // never one that only names something, as kPlace
  bool apart = false;                        // kGrow: no block begins in it and ends beyond it
};

struct Device {
  std::uint32_t number = 0;
  std::string name;                   // empty: not known
  std::uint64_t total_bytes = 0;      // 0: not known
  std::uint64_t limit_bytes = ~0ULL;  // ~0: none
  std::array<unsigned char, 16> uuid{};
  std::string label;  // the name in a report; empty: "GPU 0", by its number
};

struct Place {
  std::uint32_t device = 0;  // its number
  trace::Memory memory = trace::Memory::kArena;
  std::uint64_t context_id = 0;  // 0: the memory does not end with a context
};

// Whether Event::address is an address for such memory; else it is a handle.
[[nodiscard]] constexpr bool has_addresses(trace::Memory memory) {
  return memory != trace::Memory::kMapped && memory != trace::Memory::kArray;
}

struct Thread {
  std::uint64_t id = 0;  // 0: not known
  std::string name;
};

// A call in a stack. A field that is empty, or 0, is not known.
struct Frame {
  enum class Kind : std::uint8_t {
    kNative,
    kPython,
    kThread,  // no function, but the beginning of a thread: `function` says whose it is
  };
  std::string function;
  std::string file;  // of the source
  std::uint32_t line = 0;
  Kind kind = Kind::kNative;
  std::string object;  // kNative: the path of the program or library
  // kNative: where the call returns to: an offset in `object`, or an address if `object` is empty.
  std::uint64_t offset = 0;
};

// The most host memory that a reader takes for the stacks of a recording. Without this bound a
// small file could make it take much, because many stacks in a file may refer to the same frames.
inline constexpr std::uint64_t kMostStackBytes = std::uint64_t{1} << 30;

// What the segments of PyTorch's cache were, in a recording that has the tensors instead of them.
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
  std::string settings;  // "NAME=value" lines
  std::vector<Device> devices;
  std::vector<Place> places;
  std::vector<std::string> callers;    // the first is "": not known
  std::vector<Thread> threads;         // likewise
  std::string threads_are = "thread";  // what `threads` are: "thread" or "stream"
  std::string callers_are = "caller";  // what `callers` are: this, "line" or "line and category"
  std::string arena_is = "arena";      // Memory::kArena, in words
  std::vector<std::string> texts;
  std::vector<Frame> frames;
  // Each: indices into `frames`, the innermost first. Where Python's frames are known, they stand
  // in the place of the interpreter's own.
  std::vector<std::vector<std::uint32_t>> stacks;
  std::string program_object;                    // the program itself, as a Frame's `object`
  std::map<std::string, std::string> build_ids;  // by a Frame's `object`, in hexadecimal
  std::vector<Event> events;                     // in the order in which they happened
  // The first so many events, kGrow and kAllocate, stand for the memory that the process had before
  // the recording began. Together they are the event number 0.
  std::size_t before = 0;
  // `segments` is set if show_tensors() has put PyTorch's tensors in the place of its cache's
  // segments; `left_out_tensors` if leave_out_tensors() has removed tensors (tensors.h).
  std::optional<Segments> segments;
  bool left_out_tensors = false;
  bool has_times = true;       // false: times only tell the order
  bool reached_limit = false;  // the file did: nothing was recorded after the last event
  bool closed = false;         // the process ended in order
  bool is_cut = false;         // the file is not whole: the events are those before the damage
  // The file has no history: the events only allocate what was there when the file was written.
  bool is_state = false;

  [[nodiscard]] std::uint32_t number_of(std::size_t index) const {
    return static_cast<std::uint32_t>(index < before ? 0 : index - numbers_less());
  }
  [[nodiscard]] const Event& event(std::uint32_t number) const {
    return events[number + numbers_less()];
  }
  // Puts other events among these by their times. The first `before_others` of them are from before
  // the recording began.
  void add(std::vector<Event> others, std::size_t before_others);
  // How many numbers the events have, from 0 on.
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
