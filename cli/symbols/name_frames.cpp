#include "cli/symbols/name_frames.h"

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "cli/symbols/object_names.h"

namespace cubfc::symbols {
namespace {

using recordings::Frame;
using recordings::Recording;

// Whether the object is a file. Others are code that lies in no file: "[vdso]", "//anon",
// "/memfd:jit (deleted)".
bool may_be_read(const std::string& object) {
  return object.starts_with('/') && !object.starts_with("//") && !object.starts_with("/memfd:") &&
         !object.starts_with("/dev/") && !object.ends_with(" (deleted)");
}

// Names `frame` after the last of `functions`, the outermost, and adds a frame to the recording for
// each that was inlined into it. Returns the numbers of all these frames, the innermost first.
std::vector<std::uint32_t> add_inlined(Recording& recording, std::uint32_t frame,
                                       std::vector<Function> functions) {
  std::vector<std::uint32_t> all;
  for (std::size_t n = 0; n < functions.size(); ++n) {
    const bool is_outermost = n + 1 == functions.size();
    if (!is_outermost) {
      Frame inlined = recording.frames[frame];
      recording.frames.push_back(std::move(inlined));
    }
    const auto number =
        is_outermost ? frame : static_cast<std::uint32_t>(recording.frames.size() - 1);
    Frame& named = recording.frames[number];
    named.function = std::move(functions[n].name);
    named.file = std::move(functions[n].file);
    named.line = functions[n].line;
    all.push_back(number);
  }
  return all;
}

}  // namespace

std::vector<std::string> name_frames(Recording& recording,
                                     const std::function<void(const std::string&)>& progress) {
  std::map<std::string, std::vector<std::uint32_t>> frames_of;
  for (std::uint32_t n = 0; n < recording.frames.size(); ++n) {
    const Frame& frame = recording.frames[n];
    if (frame.kind == Frame::Kind::kNative && may_be_read(frame.object)) {
      frames_of[frame.object].push_back(n);
    }
  }
  std::vector<std::string> problems;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> inlined;
  for (const auto& [object, frames] : frames_of) {
    progress(object);
    const auto build_id = recording.build_ids.find(object);
    std::string problem;
    const ObjectNames names(object, build_id == recording.build_ids.end() ? "" : build_id->second,
                            problem);
    if (!problem.empty()) {
      problems.push_back(object + ": " + problem);
    }
    for (const std::uint32_t frame : frames) {
      auto all = add_inlined(recording, frame, names.at(recording.frames[frame].offset));
      if (all.size() > 1) {
        inlined.emplace(frame, std::move(all));
      }
    }
  }
  for (std::vector<std::uint32_t>& stack : recording.stacks) {
    for (std::size_t n = 0; n < stack.size() && !inlined.empty(); ++n) {
      if (const auto more = inlined.find(stack[n]); more != inlined.end()) {
        const auto at = stack.begin() + static_cast<std::ptrdiff_t>(n);
        stack.insert(at, more->second.begin(), std::prev(more->second.end()));
        n += more->second.size() - 1;
      }
    }
  }
  return problems;
}

}  // namespace cubfc::symbols
