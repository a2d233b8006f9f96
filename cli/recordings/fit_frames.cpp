#include "cli/recordings/fit_frames.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "cli/recordings/own_code.h"

namespace cubfc::recordings {

void leave_out_frames_of_fit(Recording& recording) {
  std::vector<bool> is_of_fit;
  is_of_fit.reserve(recording.frames.size());
  for (const Frame& frame : recording.frames) {
    is_of_fit.push_back(frame.kind == Frame::Kind::kPython &&
                        frame.file.ends_with("/cubfc_fit/mode.py"));
  }
  if (std::ranges::find(is_of_fit, true) == is_of_fit.end()) {
    return;
  }
  const auto autograd = static_cast<std::uint32_t>(recording.frames.size());
  recording.frames.push_back(frame_of_autograd());
  is_of_fit.push_back(false);
  for (std::vector<std::uint32_t>& stack : recording.stacks) {
    const auto outermost = std::find_if(stack.rbegin(), stack.rend(),
                                        [&](std::uint32_t frame) { return is_of_fit[frame]; });
    if (outermost == stack.rend()) {
      continue;
    }
    stack.erase(stack.begin(), outermost.base());
    const bool has_python = std::ranges::any_of(stack, [&](std::uint32_t frame) {
      return recording.frames[frame].kind == Frame::Kind::kPython;
    });
    if (!has_python) {
      stack.push_back(autograd);
    }
  }
}

}  // namespace cubfc::recordings
