#include "shim/tell/out_of_memory.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "shim/tell/log.h"

namespace cubfc {
namespace {

constexpr std::size_t kMapColumns = 100;

std::string command_line() {
  std::array<char, 128> text{};
  std::FILE* file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) {
    return "?";
  }
  const std::size_t size = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  std::string line;
  for (std::size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    line += byte == 0 ? ' ' : byte < 0x20 ? '?' : static_cast<char>(byte);
  }
  while (!line.empty() && line.back() == ' ') {
    line.pop_back();
  }
  return size == text.size() ? line + "..." : line;
}

struct SizeClass {
  std::uint64_t below;  // bytes
  const char* text;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

std::string sizes_of(const std::vector<arena::BlockSnapshot>& blocks) {
  std::array<SizeClass, 3> classes{
      {{1ULL << 20, "below 1 MiB"}, {64ULL << 20, "of 1..64 MiB"}, {~0ULL, "of 64 MiB and more"}}};
  for (const arena::BlockSnapshot& block : blocks) {
    if (block.state == arena::BlockState::kFree) {
      continue;
    }
    for (SizeClass& size_class : classes) {
      if (block.bytes < size_class.below) {
        size_class.bytes += block.bytes;
        ++size_class.count;
        break;
      }
    }
  }
  std::string text;
  for (auto size_class = classes.rbegin(); size_class != classes.rend(); ++size_class) {
    if (size_class->count > 0) {
      text += format("{}{} in {} {}", text.empty() ? "" : " · ", log::bytes(size_class->bytes),
                     size_class->count, size_class->text);
    }
  }
  return text.empty() ? "none" : text;
}

// Only what would help here and is not set already.
std::string advice(const config::Policy& policy, arena::Failure failure, std::uint64_t device_free,
                   std::uint64_t asked) {
  if (policy.limit_unreadable) {
    return policy.limit_explanation;
  }
  const config::Origin* limit = policy.limit_origin();
  if (failure == arena::Failure::kOverLimit && limit != nullptr) {
    return format("a higher limit ({}), if the device has the memory to spare", limit->text());
  }
  if (policy.reserve.value > 0 && device_free >= asked) {
    return format("a smaller CUBFC_RESERVE ({} is kept free)", log::bytes(policy.reserve.value));
  }
  if (failure == arena::Failure::kFragmented && policy.allocator.value == config::Allocator::kBfc) {
    return "CUBFC_ALLOCATOR=vmm: free memory moves to where it makes one piece";
  }
  return {};
}

// "1.00 GiB by cuMemCreate, 2.00 MiB in arrays".
std::string listed(const std::vector<OutOfMemory::Part>& parts) {
  std::string text;
  for (const OutOfMemory::Part& part : parts) {
    text += format("{}{} {}", text.empty() ? "" : ", ", log::bytes(part.bytes), part.what);
  }
  return text;
}

std::string cause(const config::Policy& policy, const OutOfMemory& failure) {
  if (policy.limit_unreadable) {
    return "the limit cannot be read, so nothing is allocated";
  }
  // Else it would have been waited for.
  if (failure.stats.bytes_retired >= failure.asked) {
    return "waiting: memory that was freed while a stream captures is used again when it has ended";
  }
  return arena::describe(failure.failure);
}

std::string limit_in_words(const config::Policy& policy, const OutOfMemory& failure) {
  if (policy.limit_unreadable) {
    return "that cannot be used";
  }
  if (!failure.limit) {
    return "none";
  }
  const config::Origin* origin = policy.limit_origin();
  return format("{} ({}), {} of it taken", log::bytes(failure.limit->bytes),
                origin == nullptr ? "default" : origin->text(), log::bytes(failure.limit->taken));
}

std::string describe(const config::Policy& policy, const OutOfMemory& failure) {
  const arena::Stats& stats = failure.stats;
  std::string text = format("out of memory on GPU {}, pid {} ({}), thread {}\n", failure.device,
                            getpid(), command_line(), syscall(SYS_gettid));
  text += format("  asked     {} by {}      largest free block {}\n", log::bytes(failure.asked),
                 failure.function, log::bytes(stats.largest_free_block_bytes));
  text += format("  arena     {} in use{} + {} free = {}, limit {}\n",
                 log::bytes(stats.bytes_in_use - stats.bytes_retired),
                 stats.bytes_retired == 0 ? ""
                                          : format(" + {} freed and waiting for the device",
                                                   log::bytes(stats.bytes_retired)),
                 log::bytes(stats.free_bytes()), log::bytes(stats.usable_bytes),
                 limit_in_words(policy, failure));
  if (!failure.outside.empty()) {
    text += format("  outside   {}\n", listed(failure.outside));
  }
  if (failure.now) {
    const std::uint64_t taken = failure.now->total - failure.now->free;
    const std::uint64_t ours = std::min(failure.now->ours, taken);
    text += format(
        "  device    {}: {} this process, {} elsewhere (contexts, modules, other processes), {} "
        "free\n",
        log::bytes(failure.now->total), log::bytes(ours), log::bytes(taken - ours),
        log::bytes(failure.now->free));
  }
  if (policy.reserve.value > 0) {
    text += format("  reserve   {} of the device stays free ({})\n",
                   log::bytes(policy.reserve.value), policy.reserve.origin.text());
  }
  if (policy.host_reserve.value > 0) {
    text += format("  reserve   {} of the host's memory stays free ({})\n",
                   log::bytes(policy.host_reserve.value), policy.host_reserve.origin.text());
  }
  text += format("  cause     {}\n", cause(policy, failure));
  if (stats.regions > 0) {
    text += format("  blocks    {}\n", sizes_of(failure.blocks));
    text += format("  map       {}\n", draw_map(failure.blocks, kMapColumns));
  }
  if (const std::string try_this =
          advice(policy, failure.failure, failure.now ? failure.now->free : 0, failure.asked);
      !try_this.empty()) {
    text += format("  try       {}\n", try_this);
  }
  text.pop_back();
  return text;
}

}  // namespace

std::string draw_map(const std::vector<arena::BlockSnapshot>& blocks, std::size_t columns) {
  using Wide = unsigned __int128;  // bytes times columns
  Wide total = 0;
  for (const arena::BlockSnapshot& block : blocks) {
    total += block.bytes;
  }
  std::string map;
  std::size_t at = 0;
  Wide block_end = blocks.empty() ? 0 : Wide{blocks[0].bytes} * columns;
  for (std::size_t column = 0; column < columns && total > 0; ++column) {
    const Wide end = total * (column + 1);
    bool used = false;
    bool unused = false;
    for (;;) {
      (blocks[at].state == arena::BlockState::kFree ? unused : used) = true;
      if (block_end > end || at + 1 == blocks.size()) {
        break;  // it goes on in the next column
      }
      block_end += Wide{blocks[++at].bytes} * columns;
      if (block_end - Wide{blocks[at].bytes} * columns == end) {
        break;  // this one begins there
      }
    }
    map += used ? (unused ? 'x' : '*') : '_';
  }
  return map;
}

void OutOfMemoryReporter::report(OutOfMemory&& failure,
                                 const std::function<void(OutOfMemory&)>& complete) noexcept try {
  using std::chrono::steady_clock;
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t now = steady_clock::now().time_since_epoch().count();
  std::int64_t last = last_full_ns_.load(std::memory_order_relaxed);
  if ((last == 0 || now - last >= 5 * kSecond) &&
      last_full_ns_.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
    complete(failure);
    log::write(log::Level::kWarn, describe(policy_, failure));
    return;
  }
  unreported_.fetch_add(1, std::memory_order_relaxed);
  last = last_line_ns_.load(std::memory_order_relaxed);
  if (now - last >= kSecond &&
      last_line_ns_.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
    log::warn("out of memory again on GPU {}: {} by {} ({}); {} more since the report",
              failure.device, log::bytes(failure.asked), failure.function, cause(policy_, failure),
              unreported_.load(std::memory_order_relaxed));
  }
} catch (...) {
  log::write(log::Level::kWarn, "out of memory, and the host has none left for a report");
}

}  // namespace cubfc
