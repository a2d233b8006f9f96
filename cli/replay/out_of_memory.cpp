#include "cli/replay/out_of_memory.h"

#include <algorithm>

#include "cli/replay/conditions.h"
#include "cli/replay/played_arena.h"
#include "cli/replay/simulated_device.h"

namespace cubfc::replay {
namespace {

// The bytes that are free in the arena, in however many pieces; of an arena of pages, only the
// bytes in whole free pages.
std::uint64_t usable_in(const PlayedArena& played) {
  const std::uint64_t page_bytes = played.memory.page_bytes();
  return page_bytes == 0 ? played.arena.stats().free_bytes()
                         : arena::free_in_whole_pages(played.arena.snapshot(), page_bytes);
}

// As cause_of() in shim/tell/failure_cause.cpp, for the causes that there can be without a GPU.
std::string cause_of(const OutOfMemory& failed, const Refusal& refusal) {
  if (failed.asked_bytes > refusal.device.budget.limit()) {
    return "larger than the limit";
  }
  if (failed.asked_bytes > refusal.device.total_bytes) {
    return "larger than the device";
  }
  if (refusal.failure == arena::Failure::kTooLarge) {
    return "larger than any request can be";
  }
  const std::uint64_t beside = std::min(failed.limit_left_bytes, failed.device_free_bytes);
  const std::uint64_t inside = refusal.played == nullptr ? 0 : usable_in(*refusal.played);
  if (beside >= failed.asked_bytes || beside + inside >= failed.asked_bytes) {
    return "fragmentation: enough is free, not in one piece";
  }
  return failed.limit_left_bytes <= failed.device_free_bytes ? "over the limit"
                                                             : "the device is full";
}

}  // namespace

OutOfMemory describe(const Refusal& refusal) {
  const SimulatedDevice& device = refusal.device;
  OutOfMemory failed;
  failed.asked_bytes = refusal.asked_bytes;
  failed.device = refusal.device_number;
  if (refusal.played != nullptr) {
    const arena::Stats stats = refusal.played->arena.stats();
    failed.in_use_bytes = stats.bytes_in_use;
    failed.waiting_bytes = stats.bytes_retired;
    failed.free_bytes = stats.free_bytes();
    failed.largest_free_bytes = stats.largest_free_block_bytes;
  }
  failed.limit_left_bytes = device.budget.limited() ? device.budget.left() : kPlenty;
  failed.device_free_bytes = refusal.only_limit_counts ? kPlenty : device.free_bytes();
  failed.cause = cause_of(failed, refusal);
  return failed;
}

std::string text_of(const OutOfMemory& failed) {
  return "asked for " + std::to_string(failed.asked_bytes) + " bytes; the arena has " +
         std::to_string(failed.in_use_bytes) + " in use and " + std::to_string(failed.free_bytes) +
         " free, " + std::to_string(failed.largest_free_bytes) +
         " of them in one piece; cause: " + failed.cause;
}

}  // namespace cubfc::replay
