#include "cli/recordings/several.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "cli/recordings/file_name.h"
#include "cli/recordings/frame_table.h"

namespace cubfc::recordings {
namespace {

// The index in the merged recording of something that one recording has under `index`. kNone stays.
std::uint32_t shifted(std::uint32_t index, std::size_t by) {
  return index == kNone ? kNone : index + static_cast<std::uint32_t>(by);
}

class Merger {
 public:
  explicit Merger(std::vector<Recording> all) : all_(std::move(all)) {}

  Recording merge() {
    begin();
    for (Recording& one : all_) {
      add(one);
    }
    return std::move(whole_);
  }

 private:
  void begin() {
    const Recording& first = all_.front();
    whole_.path = first.path + " and " + std::to_string(all_.size() - 1) + " more";
    whole_.format = first.format;
    whole_.command_line = first.command_line;
    whole_.settings = first.settings;
    whole_.program_object = first.program_object;
    whole_.threads_are = first.threads_are;
    whole_.callers_are = first.callers_are;
    whole_.arena_is = first.arena_is;
    whole_.callers.emplace_back();
    whole_.threads.emplace_back();
    whole_.closed = std::ranges::all_of(all_, &Recording::closed);
    whole_.is_state = std::ranges::all_of(all_, &Recording::is_state);
    whole_.is_cut = std::ranges::any_of(all_, &Recording::is_cut);
    whole_.reached_limit = std::ranges::any_of(all_, &Recording::reached_limit);
    whole_.has_times = std::ranges::all_of(all_, &Recording::has_times);
    has_times_ =
        std::ranges::all_of(all_, [](const Recording& one) { return one.start_unix_ns != 0; });
    whole_.start_unix_ns =
        has_times_ ? std::ranges::min(all_, {}, &Recording::start_unix_ns).start_unix_ns : 0;
  }

  void add(Recording& one) {
    const std::string name{file_name(one.path)};
    const std::size_t first_place = whole_.places.size();
    const std::size_t first_text = whole_.texts.size();
    const std::size_t first_stack = whole_.stacks.size();
    add_devices(one, name);
    for (Place& place : one.places) {
      place.device = device_number(place.device, name);
      place.context_id += place.context_id == 0 ? 0 : first_place << 32U;  // unlike all others'
      whole_.places.push_back(place);
    }
    const std::vector<std::uint8_t> callers = add_callers(one);
    const std::vector<std::uint16_t> threads = add_threads(one, name);
    move_behind(one.texts, whole_.texts);
    const std::vector<std::uint32_t> frames = add_frames(one);
    for (std::vector<std::uint32_t>& stack : one.stacks) {
      for (std::uint32_t& frame : stack) {
        frame = frames[frame];
      }
      whole_.stacks.push_back(std::move(stack));
    }
    whole_.left_out_tensors |= one.left_out_tensors;
    if (one.segments) {
      Segments& segments = whole_.segments ? *whole_.segments : whole_.segments.emplace();
      segments.blocks += one.segments->blocks;
      segments.peak_bytes += one.segments->peak_bytes;
    }
    whole_.build_ids.insert(one.build_ids.begin(), one.build_ids.end());
    const std::uint64_t later = has_times_ ? one.start_unix_ns - whole_.start_unix_ns : 0;
    for (Event& event : one.events) {
      event.time_ns += std::min(later, std::numeric_limits<std::uint64_t>::max() - event.time_ns);
      event.place = shifted(event.place, first_place);
      event.text = shifted(event.text, first_text);
      event.stack = shifted(event.stack, first_stack);
      event.caller = event.caller < callers.size() ? callers[event.caller] : std::uint8_t{0};
      event.thread = event.thread < threads.size() ? threads[event.thread] : std::uint16_t{0};
    }
    whole_.add(std::move(one.events), one.before);
    one = {};
  }

  template <typename T>
  static void move_behind(std::vector<T>& from, std::vector<T>& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }

  void add_devices(const Recording& one, const std::string& name) {
    numbers_.clear();
    for (const Device& device : one.devices) {
      const std::uint32_t number = device_number(device.number, name);
      const std::string label = std::move(whole_.devices[number].label);
      whole_.devices[number] = device;
      whole_.devices[number].number = number;
      whole_.devices[number].label = label;
    }
  }

  // The number in the merged recording of a device of the recording that is being added.
  std::uint32_t device_number(std::uint32_t its_own, const std::string& name) {
    const auto [known, is_new] =
        numbers_.try_emplace(its_own, static_cast<std::uint32_t>(whole_.devices.size()));
    if (is_new) {
      Device& device = whole_.devices.emplace_back();
      device.number = known->second;
      device.label = "GPU " + std::to_string(its_own) + " of " + name;
    }
    return known->second;
  }

  // An Event has one byte for its caller: all callers after the first 254 are "(others)".
  std::vector<std::uint8_t> add_callers(const Recording& one) {
    std::vector<std::uint8_t> numbers;
    for (const std::string& caller : one.callers) {
      const auto next =
          static_cast<std::uint8_t>(std::min<std::size_t>(whole_.callers.size(), 255));
      const auto [known, is_new] = callers_.try_emplace(caller, next);
      if (is_new && whole_.callers.size() <= 255) {
        whole_.callers.push_back(whole_.callers.size() == 255 ? "(others)" : caller);
      }
      numbers.push_back(known->second);
    }
    return numbers;
  }

  // The processes of a job mostly have the same frames, which are kept once.
  std::vector<std::uint32_t> add_frames(Recording& one) {
    std::vector<std::uint32_t> numbers;
    for (Frame& frame : one.frames) {
      numbers.push_back(frames_.number_of(std::move(frame)));
    }
    return numbers;
  }

  std::vector<std::uint16_t> add_threads(const Recording& one, const std::string& name) {
    std::vector<std::uint16_t> numbers;
    for (const Thread& thread : one.threads) {
      const bool is_known = thread.id != 0 || !thread.name.empty();
      const std::size_t next = std::min<std::size_t>(whole_.threads.size(), 65'535);
      numbers.push_back(is_known ? static_cast<std::uint16_t>(next) : std::uint16_t{0});
      if (is_known && next == whole_.threads.size()) {
        whole_.threads.push_back({thread.id, name + ": " + thread.name});
      }
    }
    return numbers;
  }

  std::vector<Recording> all_;
  Recording whole_;
  bool has_times_ = false;
  std::unordered_map<std::uint32_t, std::uint32_t> numbers_;  // of the current one's devices
  std::unordered_map<std::string, std::uint8_t> callers_{{"", 0}};
  FrameTable frames_{whole_};
};

}  // namespace

Recording merged(std::vector<Recording> all) {
  return all.size() == 1 ? std::move(all.front()) : Merger(std::move(all)).merge();
}

}  // namespace cubfc::recordings
