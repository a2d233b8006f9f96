#include "cli/recordings/recording.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cubfc::recordings {

void Recording::add(std::vector<Event> others, std::size_t before_others) {
  const auto earlier = [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; };
  const auto first = others.begin() + static_cast<std::ptrdiff_t>(before_others);
  if (!std::is_sorted(first, others.end(), earlier)) {
    std::stable_sort(first, others.end(), earlier);
  }
  if (events.empty()) {
    events = std::move(others);
    before = before_others;
    return;
  }
  events.insert(events.begin() + static_cast<std::ptrdiff_t>(before), others.begin(), first);
  before += before_others;
  const auto middle = static_cast<std::ptrdiff_t>(events.size());
  events.insert(events.end(), first, others.end());
  std::inplace_merge(events.begin() + static_cast<std::ptrdiff_t>(before), events.begin() + middle,
                     events.end(), earlier);
}

}  // namespace cubfc::recordings
