// Reads the stacks in a trace. A stack is written before its allocation, as return addresses and as
// numbers of Python's frames. The list of the code that is loaded at that moment says in which
// object an address lies.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/recordings/frame_table.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class TraceStacks {
 public:
  // Stacks, frames, build ids and the program's object are put into `recording`, which must outlive
  // this object.
  explicit TraceStacks(Recording& recording) : recording_(recording) {}

  // Takes a payload of trace::Kind::kObjects: the code that is loaded from here on. Lines that
  // cannot be read are left out.
  void set_objects(std::string_view lines);
  // Takes an address in the interpreter's code, from trace::Kind::kPython.
  void set_python(std::uint64_t address);
  // Takes a payload of trace::Kind::kPythonFrame: the frame that `number` means from here on.
  void set_python_frame(std::uint64_t number, std::uint32_t line, std::string_view payload);

  // Take payloads of trace::Kind::kStack and kPythonStack, for the thread's next allocation or
  // tensor. False where a payload does not consist of whole addresses or numbers.
  bool add_native(std::uint16_t thread, std::string_view payload);
  bool add_python(std::uint16_t thread, std::string_view payload);
  // Called for an allocation or a tensor. Returns its stack, the one that was added last for the
  // thread: the index in Recording::stacks, or kNone. The name tells autograd's threads.
  std::uint32_t take(std::uint16_t thread, std::string_view thread_name);
  // Whether all stacks and frames take more than kMostStackBytes.
  bool are_too_many() const { return frames_.bytes() + bytes_ > kMostStackBytes; }

 private:
  struct Object {
    std::uint64_t end = 0;
    std::uint64_t offset = 0;
    std::string path;
  };
  using Objects = std::map<std::uint64_t, Object>;  // by where each begins
  struct Pending {
    std::uint32_t native = kNone;  // which of native_
    std::uint32_t python = kNone;  // which of python_
  };
  using Frames = std::vector<std::uint32_t>;
  using Known = std::unordered_map<std::string, std::uint32_t>;  // indices of lists, by payload

  void add_object(std::string_view line);
  void add_build_id(std::string_view line);
  Objects::const_iterator object_at(std::uint64_t address) const;
  std::uint32_t frame_at(std::uint64_t address);
  std::uint32_t list_of_autograd();
  std::uint32_t stack_of(const Pending& pending);

  Recording& recording_;
  FrameTable frames_{recording_};
  Objects objects_;
  std::string python_object_;
  std::unordered_map<std::uint64_t, std::uint32_t> python_frames_;  // by number
  Known known_native_;
  Known known_python_;
  std::vector<Frames> native_;
  std::vector<Frames> python_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> stacks_;
  std::unordered_map<std::uint16_t, Pending> of_thread_;  // for its next allocation or tensor
  std::uint32_t autograd_ = kNone;                        // which of python_
  std::uint64_t bytes_ = 0;
};

}  // namespace cubfc::recordings
