#include "shim/tell/out_of_memory_text.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "shim/tell/caller_list.h"
#include "shim/tell/format.h"
#include "shim/tell/json.h"
#include "shim/tell/log.h"
#include "shim/tell/program.h"

namespace cubfc {
namespace {

constexpr std::size_t kMapColumns = 100;
constexpr std::size_t kProgramBytes = 128;  // of the command line, at most

struct SizeClass {
  std::uint64_t below;  // bytes
  const char* text;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

using SizeClasses = std::array<SizeClass, 3>;

// The blocks in use, by size.
SizeClasses sizes_of(const std::vector<arena::BlockSnapshot>& blocks) {
  SizeClasses classes{
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
  return classes;
}

std::string listed(const SizeClasses& classes) {
  std::string text;
  for (auto size_class = classes.rbegin(); size_class != classes.rend(); ++size_class) {
    if (size_class->count > 0) {
      text += format("{}{} in {} {}", text.empty() ? "" : "; ", log::bytes(size_class->bytes),
                     size_class->count, size_class->text);
    }
  }
  return text.empty() ? "none" : text;
}

// "1.00 GiB by cuMemCreate, 2.00 MiB in arrays".
std::string listed(const std::vector<OutOfMemory::Part>& parts) {
  std::string text;
  for (const OutOfMemory::Part& part : parts) {
    text += format("{}{} {}", text.empty() ? "" : ", ", log::bytes(part.bytes), part.what);
  }
  return text;
}

// The first few. Control characters in a name become question marks, so that they do nothing to a
// terminal.
std::string listed(const std::vector<OutOfMemory::Neighbour>& neighbours) {
  constexpr std::size_t kMost = 4;
  constexpr std::size_t kNameBytes = 40;
  std::string text;
  for (std::size_t i = 0; i < std::min(neighbours.size(), kMost); ++i) {
    std::string name = neighbours[i].program.substr(0, kNameBytes);
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    text += format("{}pid {} ({}) {}", i == 0 ? "" : ", ", neighbours[i].pid, name,
                   log::bytes(neighbours[i].bytes_taken));
  }
  return text + (neighbours.size() > kMost ? format(", {} more", neighbours.size() - kMost) : "");
}

std::string limit_in_words(const FailedRequestFacts& facts) {
  if (!facts.limit) {
    return "none";
  }
  const config::Origin* const origin = facts.limit->origin;
  return format("{} ({}), {} of it taken", log::bytes(facts.limit->bytes),
                origin == nullptr ? "unusable" : origin->text(), log::bytes(facts.limit->taken));
}

}  // namespace

std::string who(const OutOfMemory& failure) {
  return format("GPU {}, pid {} ({}), thread {}", failure.device, getpid(),
                command_line(kProgramBytes), syscall(SYS_gettid));
}

std::string in_a_line(const config::Policy& policy, const OutOfMemory& failure, Cause cause) {
  const std::string try_this = advice(policy, failure.facts, cause);
  return format("{} by {}: {}{}", log::bytes(failure.facts.asked), failure.function,
                describe(policy, failure.facts, cause),
                try_this.empty() ? "" : "; try " + try_this);
}

std::string in_full(const config::Policy& policy, const OutOfMemory& failure, Cause cause) {
  const arena::Stats& stats = failure.stats;
  const FailedRequestFacts& facts = failure.facts;
  std::string text = format("out of memory on {}\n", who(failure));
  text += format("  asked     {} by {}      largest free block {}\n", log::bytes(facts.asked),
                 failure.function, log::bytes(stats.largest_free_block_bytes));
  text += format(
      "  arena     {} in use{} + {} free = {}, limit {}\n",
      log::bytes(stats.bytes_in_use - stats.bytes_retired),
      stats.bytes_retired == 0
          ? ""
          : format(" + {} freed and waiting for the device", log::bytes(stats.bytes_retired)),
      log::bytes(stats.free_bytes()), log::bytes(stats.usable_bytes), limit_in_words(facts));
  if (!failure.outside.empty()) {
    text += format("  outside   {}\n", listed(failure.outside));
  }
  if (facts.device) {
    const std::uint64_t taken = facts.device->total - facts.device->free;
    const std::uint64_t ours = std::min(facts.device->ours, taken);
    text += format(
        "  device    {}: {} this process, {} elsewhere (contexts, modules, other processes), {} "
        "free\n",
        log::bytes(facts.device->total), log::bytes(ours), log::bytes(taken - ours),
        log::bytes(facts.device->free));
  }
  if (facts.group) {
    text += format("  group     {}: {} of {} taken by {} process{}\n", facts.group->name,
                   log::bytes(facts.group->taken), log::bytes(facts.group->bytes),
                   facts.group->processes, facts.group->processes == 1 ? "" : "es");
  }
  if (!failure.neighbours.empty()) {
    text += format("  others    {}\n", listed(failure.neighbours));
  }
  if (policy.reserve.value > 0) {
    text += format("  reserve   {} of the device stays free ({})\n",
                   log::bytes(policy.reserve.value), policy.reserve.origin.text());
  }
  if (policy.host_reserve.value > 0) {
    text += format("  reserve   {} of the host's memory stays free ({})\n",
                   log::bytes(policy.host_reserve.value), policy.host_reserve.origin.text());
  }
  text += format("  cause     {}\n", describe(policy, facts, cause));
  if (stats.regions > 0) {
    text += format("  blocks    {}\n", listed(sizes_of(failure.blocks)));
    text += format("  map       {}  (* in use, x partly, _ free)\n",
                   draw_map(failure.blocks, kMapColumns));
  }
  if (!failure.callers.empty()) {
    text += format("  by        {}\n", figures::listed(failure.callers));
  }
  if (const std::string try_this = advice(policy, facts, cause); !try_this.empty()) {
    text += format("  try       {}\n", try_this);
  }
  text.pop_back();
  return text;
}

std::string out_of_memory_json(const config::Policy& policy, const OutOfMemory& failure) {
  const arena::Stats& stats = failure.stats;
  const FailedRequestFacts& facts = failure.facts;
  const Cause cause = cause_of(policy, facts);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::vector<std::string> outside;
  for (const OutOfMemory::Part& part : failure.outside) {
    outside.push_back(json::Object().text("what", part.what).number("bytes", part.bytes).whole());
  }
  std::vector<std::string> neighbours;
  for (const OutOfMemory::Neighbour& other : failure.neighbours) {
    neighbours.push_back(json::Object()
                             .number("pid", static_cast<std::uint64_t>(other.pid))
                             .text("program", other.program)
                             .number("bytes_taken", other.bytes_taken)
                             .whole());
  }
  std::vector<std::string> callers;
  for (const figures::CallerPart& caller : failure.callers) {
    callers.push_back(
        json::Object().text("name", caller.name).number("bytes_in_use", caller.bytes).whole());
  }
  std::vector<std::string> sizes;
  for (const SizeClass& size_class : sizes_of(failure.blocks)) {
    const bool last = size_class.below == ~0ULL;
    sizes.push_back(json::Object()
                        .raw("below_bytes", last ? "null" : std::to_string(size_class.below))
                        .number("bytes_in_use", size_class.bytes)
                        .number("blocks", size_class.count)
                        .whole());
  }
  json::Object device;
  device.number("number", static_cast<std::uint64_t>(failure.device));
  if (facts.device) {
    device.number("total_bytes", facts.device->total)
        .number("free_bytes", facts.device->free)
        .number("process_bytes", facts.device->ours);
  }
  return json::Object()
             .number("time_unix_ns",
                     static_cast<std::uint64_t>(
                         std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()))
             .number("pid", static_cast<std::uint64_t>(getpid()))
             .number("thread", static_cast<std::uint64_t>(syscall(SYS_gettid)))
             .text("host", host_name())
             .text("program", command_line(kProgramBytes))
             .text("function", failure.function)
             .number("bytes_asked", facts.asked)
             .text("cause", name_of(cause))
             .text("cause_in_words", describe(policy, facts, cause))
             .text("advice", advice(policy, facts, cause))
             .raw("device", device.whole())
             .raw("limit", facts.limit ? json::Object()
                                             .number("bytes", facts.limit->bytes)
                                             .number("bytes_taken", facts.limit->taken)
                                             .text("origin", facts.limit->origin == nullptr
                                                                 ? "unusable"
                                                                 : facts.limit->origin->text())
                                             .whole()
                                       : "null")
             .raw("group", facts.group ? json::Object()
                                             .text("name", facts.group->name)
                                             .number("limit_bytes", facts.group->bytes)
                                             .number("bytes_taken", facts.group->taken)
                                             .number("processes", facts.group->processes)
                                             .whole()
                                       : "null")
             .number("reserve_bytes", policy.reserve.value)
             .number("host_reserve_bytes", policy.host_reserve.value)
             .raw("arena", json::Object()
                               .number("bytes", stats.usable_bytes)
                               .number("bytes_in_use", stats.bytes_in_use - stats.bytes_retired)
                               .number("bytes_waiting", stats.bytes_retired)
                               .number("bytes_idle", stats.free_bytes())
                               .number("largest_free_block_bytes", stats.largest_free_block_bytes)
                               .raw("sizes", json::list_of(sizes))
                               .text("map", draw_map(failure.blocks, kMapColumns))
                               .whole())
             .raw("outside", json::list_of(outside))
             .raw("others", json::list_of(neighbours))
             .raw("callers", json::list_of(callers))
             .whole() +
         "\n";
}

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
        break;  // this block goes on in the next column
      }
      block_end += Wide{blocks[++at].bytes} * columns;
      if (block_end - Wide{blocks[at].bytes} * columns == end) {
        break;  // this block begins in the next column
      }
    }
    map += used ? (unused ? 'x' : '*') : '_';
  }
  return map;
}

}  // namespace cubfc
