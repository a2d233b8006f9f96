#include "cli/replay/workload.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace cubfc::replay {
namespace {

using recordings::Event;
using recordings::kNone;
using recordings::Recording;
using trace::Kind;

// The kind of memory that the program asked for: kArena for cuMemAlloc, whoever served it in the
// recording.
trace::Memory asked_for(trace::Memory memory) {
  return memory == trace::Memory::kDirect || memory == trace::Memory::kOwnPool
             ? trace::Memory::kArena
             : memory;
}

// Counts what is in use on each device, and on all together, while the Builder makes operations.
class InUse {
 public:
  explicit InUse(Workload& workload) : workload_(workload) {}

  void add_device() { bytes_.push_back(0); }
  void take(std::uint32_t device, std::uint64_t bytes) {
    bytes_[device] += bytes;
    all_bytes_ += bytes;
    Device& of = workload_.devices[device];
    of.peak_bytes = std::max(of.peak_bytes, bytes_[device]);
    of.most_asked = std::max(of.most_asked, of.peak_bytes);
    if (all_bytes_ > workload_.peak_bytes) {
      workload_.peak_bytes = all_bytes_;
      workload_.peak_blocks = blocks_;
    }
  }
  void ask(std::uint32_t device, std::uint64_t bytes) {
    Device& of = workload_.devices[device];
    of.most_asked = std::max(of.most_asked, bytes_[device] + bytes);
  }
  void give(std::uint32_t device, std::uint64_t bytes) {
    bytes_[device] -= bytes;
    all_bytes_ -= bytes;
  }
  void add_block() { ++blocks_; }
  void remove_block() { --blocks_; }

 private:
  Workload& workload_;  // the peaks are kept there
  std::vector<std::uint64_t> bytes_;
  std::uint64_t all_bytes_ = 0;
  std::uint64_t blocks_ = 0;
};

class Builder {
 public:
  Builder(const Recording& recording, Requests requests)
      : recording_(recording),
        requests_(requests),
        group_of_place_(recording.places.size(), kNone) {}

  Workload build() {
    workload_.operations.reserve(recording_.events.size());
    for (std::size_t i = 0; i < recording_.events.size(); ++i) {
      event_ = static_cast<std::uint32_t>(i);
      take(recording_.events[i]);
    }
    return std::move(workload_);
  }

 private:
  struct Block {
    std::uint32_t slot;
    std::uint64_t bytes;
  };
  using Blocks = std::map<std::uint64_t, Block>;  // by address

  void take(const Event& event) {
    const bool blocks = requests_ == Requests::kBlocks;
    switch (event.kind) {
      case Kind::kAllocate:
      case Kind::kGrow:
        return (event.kind == Kind::kAllocate) == blocks ? allocate(event) : void();
      case Kind::kFree:
      case Kind::kRetire:
        return blocks ? free(event) : void();
      case Kind::kShrink:
        return blocks ? void() : shrink(event);
      case Kind::kOutOfMemory:
        return fail(event);
      case Kind::kEndPlace:
        return end(group_of(event.place));
      case Kind::kFull:
        return add({0, 0, event_, kNone, Operation::Kind::kCopy});
      default:
        return;
    }
  }

  void allocate(const Event& event) {
    if (event.bytes != 0) {
      allocate(group_of(event.place), event.address, event.bytes);
    }
  }
  void allocate(std::uint32_t group, std::uint64_t address, std::uint64_t bytes) {
    if (const auto old = blocks_[group].find(address); old != blocks_[group].end()) {
      ++workload_.missing_frees;
      free(group, old);
    }
    if (free_slots_.empty()) {
      free_slots_.push_back(workload_.slots++);
    }
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    blocks_[group].emplace(address, Block{slot, bytes});
    add({bytes, slot, event_, group, Operation::Kind::kAllocate});
    ++workload_.allocations;
    in_use_.add_block();
    in_use_.take(device_of_group(group), bytes);
  }

  void free(const Event& event) {
    const std::uint32_t group = group_of(event.place);
    if (const auto block = blocks_[group].find(event.address); block != blocks_[group].end()) {
      free(group, block);
    } else {
      ++workload_.unknown_frees;
    }
  }
  void free(std::uint32_t group, Blocks::iterator block) {
    add({0, block->second.slot, event_, group, Operation::Kind::kFree});
    forget(group, block->second);
    blocks_[group].erase(block);
  }

  // A kShrink may unmap a part of a segment, or parts of several. What is left of each is a new
  // allocation.
  void shrink(const Event& event) {
    const std::uint32_t group = group_of(event.place);
    Blocks& blocks = blocks_[group];
    const std::uint64_t end = event.address + event.bytes;
    auto block = blocks.upper_bound(event.address);
    if (block != blocks.begin() &&
        std::prev(block)->first + std::prev(block)->second.bytes > event.address) {
      --block;
    }
    workload_.unknown_frees += block == blocks.end() || block->first >= end ? 1U : 0U;
    while (block != blocks.end() && block->first < end) {
      const std::uint64_t begin = block->first;
      const std::uint64_t block_end = begin + block->second.bytes;
      const auto next = std::next(block);
      free(group, block);
      if (begin < event.address) {
        allocate(group, begin, event.address - begin);
      }
      if (block_end > end) {
        allocate(group, end, block_end - end);
      }
      block = next;
    }
  }

  void forget(std::uint32_t group, const Block& block) {
    free_slots_.push_back(block.slot);
    in_use_.give(device_of_group(group), block.bytes);
    in_use_.remove_block();
  }

  // A request without a place, or without a size, cannot be tried.
  void fail(const Event& event) {
    if (event.place == kNone || event.address == 0) {
      return;
    }
    const std::uint32_t group = group_of(event.place);
    add({event.address, 0, event_, group, Operation::Kind::kFail});
    ++workload_.failures;
    in_use_.ask(device_of_group(group), event.address);
  }

  void end(std::uint32_t ended) {
    for (const std::uint32_t group : workload_.contexts[workload_.groups[ended].context]) {
      for (const auto& [address, block] : std::exchange(blocks_[group], {})) {
        forget(group, block);
      }
    }
    add({0, 0, event_, ended, Operation::Kind::kEndGroup});
  }

  std::uint32_t device_of_group(std::uint32_t group) const {
    return workload_.groups[group].device;
  }
  void add(const Operation& operation) { workload_.operations.push_back(operation); }

  std::uint32_t group_of(std::uint32_t place) {
    std::uint32_t& group = group_of_place_[place];
    if (group == kNone) {
      recordings::Place asked = recording_.places[place];
      asked.memory = asked_for(asked.memory);
      const auto [known, is_new] =
          groups_.try_emplace({asked.device, asked.memory, asked.context_id},
                              static_cast<std::uint32_t>(workload_.groups.size()));
      if (is_new) {
        const std::uint32_t context = context_of(asked, known->second);
        workload_.contexts[context].push_back(known->second);
        workload_.groups.push_back({device_of(asked.device), context, asked});
        blocks_.emplace_back();
      }
      group = known->second;
    }
    return group;
  }

  // A group whose memory does not end with a context has an entry in Workload::contexts of its own.
  std::uint32_t context_of(const recordings::Place& place, std::uint32_t group) {
    const auto key = std::tuple(place.device, place.context_id, place.context_id == 0 ? group : 0);
    const auto [known, is_new] =
        contexts_.try_emplace(key, static_cast<std::uint32_t>(workload_.contexts.size()));
    if (is_new) {
      workload_.contexts.emplace_back();
    }
    return known->second;
  }

  std::uint32_t device_of(std::uint32_t number) {
    const auto [known, is_new] =
        devices_.try_emplace(number, static_cast<std::uint32_t>(workload_.devices.size()));
    if (is_new) {
      Device& device = workload_.devices.emplace_back();
      device.number = number;
      const auto recorded =
          std::ranges::find(recording_.devices, number, &recordings::Device::number);
      device.total_bytes = recorded == recording_.devices.end() ? 0 : recorded->total_bytes;
      in_use_.add_device();
    }
    return known->second;
  }

  const Recording& recording_;
  const Requests requests_;
  Workload workload_;
  InUse in_use_{workload_};
  std::uint32_t event_ = 0;
  std::vector<std::uint32_t> group_of_place_;
  std::map<std::tuple<std::uint32_t, trace::Memory, std::uint64_t>, std::uint32_t> groups_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>, std::uint32_t> contexts_;
  std::unordered_map<std::uint32_t, std::uint32_t> devices_;  // by their numbers
  std::vector<Blocks> blocks_;                                // of each group
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace

std::uint64_t Workload::largest_peak_bytes() const {
  std::uint64_t largest = 0;
  for (const Device& device : devices) {
    largest = std::max(largest, device.peak_bytes);
  }
  return largest;
}

Workload make_workload(const Recording& recording, Requests requests) {
  return Builder(recording, requests).build();
}

}  // namespace cubfc::replay
