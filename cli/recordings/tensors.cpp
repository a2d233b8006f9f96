#include "cli/recordings/tensors.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/recordings/file_name.h"

namespace cubfc::recordings {
namespace {

using trace::Kind;
using trace::Memory;

bool is_of_tensors(const Event& event) {
  return event.kind == Kind::kTensor || event.kind == Kind::kTensorFree;
}

bool is_of_blocks(const Event& event) {
  return event.kind >= Kind::kAllocate && event.kind <= Kind::kReclaim;
}

class TensorsForSegments {
 public:
  explicit TensorsForSegments(Recording& recording)
      : recording_(recording), block_of_event_(recording.events.size(), kNone) {
    for (const std::string& caller : recording.callers) {
      const std::string_view name = file_name(caller);
      is_pytorch_.push_back(name.starts_with("libc10_cuda.so"));
    }
    // If no caller is PyTorch's library, callers were not recorded, and an unknown one may be
    // PyTorch.
    if (std::ranges::none_of(is_pytorch_, std::identity{}) && !is_pytorch_.empty()) {
      is_pytorch_[0] = true;
    }
  }

  void put() {
    for (std::uint32_t n = 0; n < recording_.events.size(); ++n) {
      go_through(n);
    }
    take_physical_memory();
    count_segments();
    std::size_t kept = 0;
    for (std::size_t n = 0; n < recording_.events.size(); ++n) {
      Event event = recording_.events[n];
      if (is_of_blocks(event) && is_segment(block_of_event_[n])) {
        continue;
      }
      if (is_of_tensors(event)) {
        event.kind = event.kind == Kind::kTensor ? Kind::kAllocate : Kind::kFree;
        event.padding = 0;
      }
      recording_.events[kept++] = event;
    }
    recording_.events.resize(kept);
  }

 private:
  // A block that was allocated from the device.
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t place = 0;
    std::uint8_t caller = 0;
    bool is_segment = false;
  };
  struct Home {  // of a tensor
    std::uint32_t place = kNone;
    std::uint8_t caller = 0;
  };
  using Live = std::map<std::uint64_t, std::uint32_t>;  // which of blocks_, by address

  bool is_segment(std::uint32_t block) const { return block != kNone && blocks_[block].is_segment; }

  void go_through(std::uint32_t n) {
    Event& event = recording_.events[n];
    if (is_of_tensors(event)) {
      settle(event);
    } else if (event.place >= recording_.places.size()) {
      return;
    } else if (event.kind == Kind::kAllocate) {
      block_of_event_[n] = static_cast<std::uint32_t>(blocks_.size());
      live_of(event.place)[event.address] = block_of_event_[n];
      blocks_.push_back({event.address, event.bytes + event.padding, event.place, event.caller});
    } else if (is_of_blocks(event)) {
      end_block(n);
    } else if (event.kind == Kind::kEndPlace) {
      std::erase_if(live_of(event.place),
                    [&](const auto& one) { return blocks_[one.second].place == event.place; });
    }
  }

  // A retired block stays in the table: its memory is in use until it is reclaimed.
  void end_block(std::uint32_t n) {
    const Event& event = recording_.events[n];
    Live& live = live_of(event.place);
    const auto found = live.find(event.address);
    if (found != live.end()) {
      block_of_event_[n] = found->second;
      if (event.kind != Kind::kRetire) {
        live.erase(found);
      }
    }
  }

  // All blocks that have addresses are in one table. Those that have handles are in one for each
  // device and kind of memory, since a handle may be the same number as an address.
  Live& live_of(std::uint32_t place) {
    const Place& its = recording_.places[place];
    return has_addresses(its.memory) ? live_ : live_handles_[{its.device, its.memory}];
  }

  // Gives an event of a tensor its place and its caller.
  void settle(Event& event) {
    const std::pair key{event.padding, event.address};  // padding: the device's number
    Home home;
    if (event.kind == Kind::kTensor) {
      home = home_of(event);
      tensors_[key] = home;
    } else if (const auto found = tensors_.find(key); found != tensors_.end()) {
      home = found->second;
      tensors_.erase(found);
    } else {
      home.place = place_of_physical(event.padding);
    }
    event.place = home.place;
    event.caller = home.caller;
  }

  Home home_of(const Event& tensor) {
    auto behind = live_.upper_bound(tensor.address);
    if (behind != live_.begin()) {
      Block& block = blocks_[std::prev(behind)->second];
      if (tensor.address - block.address < block.bytes) {
        block.is_segment = true;
        return {block.place, block.caller};
      }
    }
    is_physical_.insert(tensor.padding);
    return {place_of_physical(tensor.padding), pytorch()};
  }

  std::uint32_t place_of_physical(std::uint32_t device) {
    const auto [known, is_new] =
        physical_.try_emplace(device, static_cast<std::uint32_t>(recording_.places.size()));
    if (is_new) {
      recording_.places.push_back({device, Memory::kMapped, 0});
    }
    return known->second;
  }

  std::uint8_t pytorch() const {
    const auto found = std::ranges::find(is_pytorch_, true);
    return found == is_pytorch_.end() ? std::uint8_t{0}
                                      : static_cast<std::uint8_t>(found - is_pytorch_.begin());
  }

  void take_physical_memory() {
    for (Block& block : blocks_) {
      const Place& place = recording_.places[block.place];
      block.is_segment |= place.memory == Memory::kMapped && is_pytorch_[block.caller] &&
                          is_physical_.contains(place.device);
    }
  }

  void count_segments() {
    Segments& segments = recording_.segments.emplace();
    std::uint64_t bytes = 0;
    std::vector<bool> is_over(blocks_.size());
    for (std::size_t n = 0; n < recording_.events.size(); ++n) {
      const std::uint32_t number = block_of_event_[n];
      if (!is_segment(number)) {
        continue;
      }
      const std::uint64_t its = blocks_[number].bytes;
      if (recording_.events[n].kind == Kind::kAllocate) {
        ++segments.blocks;
        bytes += its;
        segments.peak_bytes = std::max(segments.peak_bytes, bytes);
      } else if (!is_over[number]) {
        is_over[number] = true;
        bytes -= std::min(bytes, its);
      }
    }
  }

  Recording& recording_;
  std::vector<bool> is_pytorch_;               // by caller
  std::vector<std::uint32_t> block_of_event_;  // which of blocks_; kNone for other events
  std::vector<Block> blocks_;
  Live live_;
  std::map<std::pair<std::uint32_t, Memory>, Live> live_handles_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Home> tensors_;  // by device and address
  std::map<std::uint32_t, std::uint32_t> physical_;  // by device: the place of tensors in no block
  std::set<std::uint32_t> is_physical_;              // devices that have such tensors
};

bool has_tensors(const Recording& recording) {
  return std::ranges::any_of(recording.events, is_of_tensors);
}

}  // namespace

void leave_out_tensors(Recording& recording) {
  recording.left_out_tensors = std::erase_if(recording.events, is_of_tensors) > 0;
}

void show_tensors(Recording& recording) {
  if (has_tensors(recording)) {
    TensorsForSegments(recording).put();
  }
}

}  // namespace cubfc::recordings
