// Preparing recorded traces and making up synthetic ones.
#include "workload.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "arena/units.h"

namespace cubfc::bench {
namespace {

constexpr std::uint64_t kSmallestBytes = 256;
constexpr double kJitter = 0.06;

// Writes operations, gives out slots and keeps count of what is live.
class Builder {
 public:
  explicit Builder(std::string name, Kind kind) {
    workload_.name = std::move(name);
    workload_.kind = kind;
  }

  std::uint32_t allocate(std::uint64_t bytes) {
    if (free_slots_.empty()) {
      free_slots_.push_back(workload_.slots++);
      sizes_.push_back(0);
    }
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    take(bytes, slot);
    return slot;
  }

  void free(std::uint32_t slot) {
    workload_.ops.push_back({0, slot});
    const std::uint64_t bytes = std::exchange(sizes_[slot], 0);
    live_bytes_ -= bytes;
    block_bytes_ -= arena::block_bytes_for(bytes);
    --live_blocks_;
    free_slots_.push_back(slot);
  }

  // For operations whose slots are known.
  void replay(const Op& op) {
    if (op.bytes == 0) {
      free(op.slot);
      return;
    }
    if (op.slot >= sizes_.size()) {
      sizes_.resize(op.slot + 1);
      workload_.slots = op.slot + 1;
    }
    take(op.bytes, op.slot);
  }

  Workload finish() { return std::move(workload_); }

 private:
  void take(std::uint64_t bytes, std::uint32_t slot) {
    workload_.ops.push_back({bytes, slot});
    sizes_[slot] = bytes;
    live_bytes_ += bytes;
    block_bytes_ += arena::block_bytes_for(bytes);
    ++live_blocks_;
    ++workload_.allocations;
    workload_.peak_live_bytes = std::max(workload_.peak_live_bytes, live_bytes_);
    workload_.peak_block_bytes = std::max(workload_.peak_block_bytes, block_bytes_);
    if (live_blocks_ >= workload_.peak_live_blocks) {  // the last time, when holes lie between them
      workload_.peak_live_blocks = live_blocks_;
      workload_.ops_to_most_blocks = workload_.ops.size();
    }
  }

  Workload workload_;
  std::vector<std::uint64_t> sizes_;  // by slot; 0: nothing is there
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t block_bytes_ = 0;
  std::uint64_t live_blocks_ = 0;
};

template <typename NextSize>
Workload churned(std::string name, std::uint64_t live, std::uint64_t churn, NextSize next_size) {
  Random random(live);
  Builder builder(std::move(name), Kind::kSynthetic);
  std::vector<std::uint32_t> slots;
  slots.reserve(live);
  while (slots.size() < live) {
    slots.push_back(builder.allocate(next_size(random)));
  }
  for (std::uint64_t i = 0; i < churn; ++i) {
    std::uint32_t& slot = slots[random.below(live)];
    builder.free(slot);
    slot = builder.allocate(next_size(random));
  }
  while (!slots.empty()) {
    std::swap(slots[random.below(slots.size())], slots.back());
    builder.free(slots.back());
    slots.pop_back();
  }
  return builder.finish();
}

}  // namespace

const char* describe(Kind kind) {
  switch (kind) {
    case Kind::kTraining:
      return "training trace";
    case Kind::kStaticLifetime:
      return "static lifetimes";
    case Kind::kSynthetic:
      return "synthetic";
  }
  return "unknown";
}

Workload from_trace(const programs::Trace& trace, std::string name, Kind kind) {
  Builder builder(std::move(name), kind);
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> slot_of(trace.blocks, kNone);
  for (const programs::TraceOp& op : trace.ops) {
    if (op.action == programs::TraceOp::Action::kFree) {
      if (slot_of[op.block] != kNone) {
        builder.free(std::exchange(slot_of[op.block], kNone));
      }
    } else if (op.bytes > 0) {  // a request for nothing takes nothing
      slot_of[op.block] = builder.allocate(op.bytes);
    }
  }
  for (const std::uint32_t slot : slot_of) {
    if (slot != kNone) {
      builder.free(slot);
    }
  }
  return builder.finish();
}

Workload log_uniform(std::string name, std::uint64_t live, std::uint64_t churn,
                     std::uint64_t largest_bytes) {
  const double doublings =
      std::log2(static_cast<double>(largest_bytes) / static_cast<double>(kSmallestBytes));
  return churned(std::move(name), live, churn, [doublings](Random& random) {
    return static_cast<std::uint64_t>(static_cast<double>(kSmallestBytes) *
                                      std::exp2(random.unit() * doublings));
  });
}

Workload one_size(std::string name, std::uint64_t live, std::uint64_t churn, std::uint64_t bytes) {
  return churned(std::move(name), live, churn, [bytes](Random&) { return bytes; });
}

Workload slivers(std::string name) {
  constexpr std::uint64_t kBlocks = 2000;
  constexpr std::uint64_t kGenerations = 12;
  Builder builder(std::move(name), Kind::kSynthetic);
  // One family in units of pages, one in granules: the arena rounds to the one or to the other.
  const auto size_in = [](std::uint64_t generation, bool pages) {
    return pages ? (2 * kGenerations - generation) * arena::kPageBytes
                 : (100 - generation) * arena::kGranuleBytes;
  };
  std::vector<std::uint32_t> old;
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    old.push_back(builder.allocate(size_in(0, i % 4 < 2)));
  }
  for (std::uint64_t generation = 1; generation <= kGenerations; ++generation) {
    std::vector<std::uint32_t> young;
    for (std::size_t i = 0; i < old.size(); i += 2) {
      builder.free(old[i]);
    }
    for (std::size_t i = 0; i < old.size(); i += 2) {
      young.push_back(builder.allocate(size_in(generation, i % 4 < 2)));
    }
    for (std::size_t i = 1; i < old.size(); i += 2) {
      builder.free(old[i]);
      young.push_back(builder.allocate(size_in(generation - 1, i % 4 < 2) + 1));
    }
    old = std::move(young);
  }
  for (const std::uint32_t slot : old) {
    builder.free(slot);
  }
  return builder.finish();
}

Workload jittered(const Workload& workload, std::uint64_t variant) {
  Builder builder(workload.name, workload.kind);
  std::unordered_map<std::uint64_t, std::uint64_t> scaled;
  for (Op op : workload.ops) {
    if (op.bytes != 0) {
      const auto [found, is_new] = scaled.try_emplace(op.bytes);
      if (is_new) {
        Random random(op.bytes ^ (variant << 48));
        const double factor = 1 + kJitter * (2 * random.unit() - 1);
        found->second = std::max<std::uint64_t>(
            1, static_cast<std::uint64_t>(static_cast<double>(op.bytes) * factor));
      }
      op.bytes = found->second;
    }
    builder.replay(op);
  }
  return builder.finish();
}

}  // namespace cubfc::bench
