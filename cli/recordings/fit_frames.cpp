#include "cli/recordings/fit_frames.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/recordings/own_code.h"

namespace cubfc::recordings {

void leave_out_frames_of_fit(Recording& recording) {
  std::vector<bool> is_of_mode;  // functions of cubfc_fit that call PyTorch's operator
  std::vector<bool> is_of_fit;
  for (const Frame& frame : recording.frames) {
    const bool is_python = frame.kind == Frame::Kind::kPython;
    is_of_mode.push_back(is_python && (frame.file.ends_with("/cubfc_fit/mode.py") ||
                                       (frame.file.ends_with("/cubfc_fit/run.py") &&
                                        frame.function.ends_with("empty_strided"))));
    is_of_fit.push_back(is_python && frame.file.find("/cubfc_fit/") != std::string::npos);
  }
  if (std::ranges::find(is_of_fit, true) == is_of_fit.end()) {
    return;
  }
  const auto autograd = static_cast<std::uint32_t>(recording.frames.size());
  recording.frames.push_back(frame_of_autograd());
  is_of_mode.push_back(false);
  is_of_fit.push_back(false);
  for (std::vector<std::uint32_t>& stack : recording.stacks) {
    if (std::ranges::none_of(stack, [&](std::uint32_t frame) { return is_of_fit[frame]; })) {
      continue;
    }
    const auto outermost = std::find_if(stack.rbegin(), stack.rend(),
                                        [&](std::uint32_t frame) { return is_of_mode[frame]; });
    if (outermost != stack.rend()) {
      stack.erase(stack.begin(), outermost.base());
    }
    std::erase_if(stack, [&](std::uint32_t frame) { return is_of_fit[frame]; });
    const bool has_python = std::ranges::any_of(stack, [&](std::uint32_t frame) {
      return recording.frames[frame].kind == Frame::Kind::kPython;
    });
    if (!has_python) {
      stack.push_back(autograd);
    }
  }
}

}  // namespace cubfc::recordings
