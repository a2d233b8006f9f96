#include "cli/replay/played_arena.h"

namespace cubfc::replay {

using trace::Kind;

PlayedArena::PlayedArena(SimulatedDevice& its_device, std::uint32_t group, std::uint64_t page_bytes,
                         PlayedTrace& trace)
    : device(its_device),
      memory(its_device, (arena::Address{group % kMostArenas} + 1) << 44, page_bytes),
      arena(memory, its_device.budget, {}),
      group_(group),
      trace_(trace) {
  memory.set_listener(trace.is_wanted() ? this : nullptr);
}

void PlayedArena::grew(arena::Address base, std::uint64_t bytes) {
  trace_.write(Kind::kGrow, group_, base, bytes);
}

void PlayedArena::shrank(arena::Address base, std::uint64_t bytes) {
  trace_.write(Kind::kShrink, group_, base, bytes);
}

void PlayedArena::retire(arena::Address address, std::uint64_t block_bytes) {
  if (trace_.is_wanted()) {
    trace_.write(Kind::kRetire, group_, address, block_bytes);
    open_.blocks.emplace_back(address, block_bytes);
  }
  if (arena.gather(address, device.bytes_ahead()) == arena::Arena::Gathered::kFull) {
    close_epoch();
  }
}

void PlayedArena::collect() {
  while (closed_.size() > 1) {
    reclaim_oldest();
  }
}

bool PlayedArena::wait() {
  if (closed_.empty() && arena.has_gathered()) {
    close_epoch();
  }
  if (closed_.empty()) {
    return false;
  }
  reclaim_oldest();
  return true;
}

void PlayedArena::end() {
  arena.abandon();
  memory.forget();
}

void PlayedArena::close_epoch() {
  open_.gathered = arena.take_gathered();
  trace_.write(Kind::kEpoch, group_, 0, open_.gathered.bytes, open_.gathered.count);
  closed_.push_back(std::exchange(open_, {}));
}

void PlayedArena::reclaim_oldest() {
  const Epoch epoch = std::move(closed_.front());
  closed_.pop_front();
  arena.reclaim(epoch.gathered);
  for (const auto& [address, bytes] : epoch.blocks) {
    trace_.write(Kind::kReclaim, group_, address, bytes);
  }
}

}  // namespace cubfc::replay
