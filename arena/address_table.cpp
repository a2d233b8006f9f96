#include "arena/address_table.h"

#include <new>
#include <utility>

namespace cubfc::arena {
namespace {

// While the table grows, each insert moves this many slots, and the rest of the run that they end
// in. So the last slot has been moved before the table of twice the size is full.
constexpr int kMoveAtOnce = 16;

}  // namespace

// calloc() gets new pages from the system, which are zero: no slot is touched before it is used.
AddressTable::Slots::Slots(std::uint32_t size_bits)
    : slots_(static_cast<Slot*>(std::calloc(std::size_t{1} << size_bits, sizeof(Slot)))),
      mask_((std::uint32_t{1} << size_bits) - 1),
      shift_(32 - size_bits) {
  if (slots_ == nullptr) {
    throw std::bad_alloc();
  }
}

void AddressTable::make_room() {
  if (old_.exists()) {
    move_some();
  }
  if (count_ >= most_in(size_bits_)) {
    grow();
  }
  look_at_ = old_.exists() ? 0 : most_in(size_bits_);
}

// Precondition: old_ is empty. It is, because each insert since the last grow() has moved
// kMoveAtOnce slots out of it.
void AddressTable::grow() {
  Slots larger(size_bits_ + 1);
  old_ = std::exchange(slots_, std::move(larger));
  ++size_bits_;
  // Runs are moved whole, so that entries that have not been moved can still be found: begin at an
  // empty slot.
  next_to_move_ = 0;
  while (old_[next_to_move_].index != kNoBlock) {
    next_to_move_ = old_.next(next_to_move_);
  }
  left_to_move_ = old_.size();
}

void AddressTable::move_some() {
  for (int moved = 0; moved < kMoveAtOnce || old_[next_to_move_].index != kNoBlock; ++moved) {
    Slot& slot = old_[next_to_move_];
    if (slot.index != kNoBlock) {
      slots_.place(slot.key, slot.index);
      slot = {};
    }
    next_to_move_ = old_.next(next_to_move_);
    if (--left_to_move_ == 0) {
      old_ = Slots();
      return;
    }
  }
}

void AddressTable::clear() noexcept {
  slots_.clear();
  old_ = Slots();
  count_ = 0;
  look_at_ = most_in(size_bits_);
}

}  // namespace cubfc::arena
