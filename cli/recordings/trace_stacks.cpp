#include "cli/recordings/trace_stacks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>

#include "cli/recordings/file_name.h"
#include "cli/recordings/own_code.h"

namespace cubfc::recordings {
namespace {

// Reads a number in hexadecimal and the space behind it. False where there is none.
bool take_number(std::string_view& line, std::uint64_t& number) {
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), number, 16);
  if (error != std::errc() || stop == line.data() + line.size() || *stop != ' ') {
    return false;
  }
  line.remove_prefix(static_cast<std::size_t>(stop - line.data()) + 1);
  return true;
}

// Whether all code of the object is the interpreter's: "python3.11", "libpython3.12.so.1.0". A
// program with another name may have code of its own beside an interpreter.
bool is_interpreter_alone(std::string_view path) {
  const std::string_view name = file_name(path);
  return name.starts_with("python") || name.starts_with("libpython");
}

template <typename Number, typename Take>
bool for_each_of(std::string_view payload, Take take) {
  if (payload.size() % sizeof(Number) != 0) {
    return false;
  }
  for (; !payload.empty(); payload.remove_prefix(sizeof(Number))) {
    Number number = 0;
    std::memcpy(&number, payload.data(), sizeof(number));
    take(number);
  }
  return true;
}

}  // namespace

void TraceStacks::set_objects(std::string_view lines) {
  objects_.clear();
  known_native_.clear();  // the same addresses may be other functions now
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    if (line.starts_with('=')) {
      add_build_id(line.substr(1));
    } else {
      add_object(line);
    }
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

// The first object of the first list is the program: the list is in the order of addresses, and
// Linux gives the program the lowest.
void TraceStacks::add_object(std::string_view line) {
  std::array<std::uint64_t, 3> numbers{};
  if (std::ranges::all_of(numbers, [&](std::uint64_t& each) { return take_number(line, each); })) {
    objects_[numbers[0]] = {numbers[1], numbers[2], std::string(line)};
    if (recording_.program_object.empty()) {
      recording_.program_object = objects_.begin()->second.path;
    }
  }
}

void TraceStacks::add_build_id(std::string_view line) {
  std::uint64_t start = 0;
  if (take_number(line, start)) {
    if (const auto object = object_at(start); object != objects_.end()) {
      recording_.build_ids.try_emplace(object->second.path, line);
    }
  }
}

TraceStacks::Objects::const_iterator TraceStacks::object_at(std::uint64_t address) const {
  const auto after = objects_.upper_bound(address);
  return after == objects_.begin() || address >= std::prev(after)->second.end ? objects_.end()
                                                                              : std::prev(after);
}

void TraceStacks::set_python(std::uint64_t address) {
  const auto object = object_at(address);
  if (object != objects_.end() && is_interpreter_alone(object->second.path)) {
    python_object_ = object->second.path;
  }
}

void TraceStacks::set_python_frame(std::uint64_t number, std::uint32_t line,
                                   std::string_view payload) {
  const std::size_t middle = std::min(payload.find('\0'), payload.size());
  Frame frame;
  frame.kind = Frame::Kind::kPython;
  frame.file = payload.substr(0, middle);
  frame.function = payload.substr(std::min(middle + 1, payload.size()));
  frame.line = line;
  // Several numbers in the trace may mean an equal frame.
  python_frames_[number] = frames_.number_of(std::move(frame));
}

std::uint32_t TraceStacks::frame_at(std::uint64_t address) {
  Frame frame;
  frame.offset = address;
  if (const auto object = object_at(address); object != objects_.end()) {
    frame.object = object->second.path;
    frame.offset = address - object->first + object->second.offset;
  }
  return frames_.number_of(std::move(frame));
}

// Leaves out addresses of 0: in older traces one stands for the caller of a thread's first
// function.
bool TraceStacks::add_native(std::uint16_t thread, std::string_view payload) {
  const auto [known, is_new] =
      known_native_.try_emplace(std::string(payload), static_cast<std::uint32_t>(native_.size()));
  of_thread_[thread] = {known->second, kNone};
  if (!is_new) {
    return true;
  }
  Frames& frames = native_.emplace_back();
  bytes_ += 2 * payload.size();
  return for_each_of<std::uint64_t>(payload, [&](std::uint64_t address) {
    if (address != 0) {
      frames.push_back(frame_at(address));
    }
  });
}

bool TraceStacks::add_python(std::uint16_t thread, std::string_view payload) {
  const auto [known, is_new] =
      known_python_.try_emplace(std::string(payload), static_cast<std::uint32_t>(python_.size()));
  of_thread_[thread].python = known->second;
  if (!is_new) {
    return true;
  }
  python_.emplace_back();
  bytes_ += 2 * payload.size();
  return for_each_of<std::uint32_t>(payload, [&](std::uint32_t number) {
    auto [frame, is_unknown] = python_frames_.try_emplace(number, kNone);
    if (is_unknown) {
      Frame unknown;
      unknown.kind = Frame::Kind::kPython;
      frame->second = frames_.number_of(std::move(unknown));
    }
    python_.back().push_back(frame->second);
  });
}

std::uint32_t TraceStacks::list_of_autograd() {
  if (autograd_ == kNone) {
    autograd_ = static_cast<std::uint32_t>(python_.size());
    python_.push_back({frames_.number_of(frame_of_autograd())});
  }
  return autograd_;
}

std::uint32_t TraceStacks::stack_of(const Pending& pending) {
  const auto [known, is_new] = stacks_.try_emplace(
      {pending.native, pending.python}, static_cast<std::uint32_t>(recording_.stacks.size()));
  if (is_new) {
    Frames& stack = recording_.stacks.emplace_back();
    if (pending.native != kNone) {
      stack = native_[pending.native];
    }
    if (pending.python != kNone) {
      const auto is_of_interpreter = [&](std::uint32_t frame) {
        return !python_object_.empty() && recording_.frames[frame].object == python_object_;
      };
      stack.erase(std::ranges::find_if(stack, is_of_interpreter), stack.end());
      const Frames& python = python_[pending.python];
      stack.insert(stack.end(), python.begin(), python.end());
    }
    bytes_ += sizeof(Frames) + stack.size() * sizeof(std::uint32_t);
  }
  return known->second;
}

std::uint32_t TraceStacks::take(std::uint16_t thread, std::string_view thread_name) {
  const auto waiting = of_thread_.find(thread);
  if (waiting == of_thread_.end()) {
    return kNone;
  }
  Pending pending = waiting->second;
  of_thread_.erase(waiting);
  if (pending.python == kNone && thread_name.starts_with("pt_autograd")) {
    pending.python = list_of_autograd();
  }
  return stack_of(pending);
}

}  // namespace cubfc::recordings
