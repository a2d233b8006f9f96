#include "arena/address_table.h"

namespace cubfc::arena {

void AddressTable::place(std::uint32_t hash, BlockIndex index) {
  std::size_t slot = hash & mask();
  while (slots_[slot].index != kNoBlock) {
    slot = (slot + 1) & mask();
  }
  slots_[slot] = {hash, index};
}

void AddressTable::erase(Address address, BlockIndex index) {
  std::size_t hole = hash_of(address) & mask();
  while (slots_[hole].index != index) {
    hole = (hole + 1) & mask();
  }
  --count_;
  // Close the gap: each later entry of the run moves into the hole unless it would then lie before
  // the slot that its hash asks for.
  for (std::size_t slot = (hole + 1) & mask(); slots_[slot].index != kNoBlock;
       slot = (slot + 1) & mask()) {
    const std::size_t home = slots_[slot].hash & mask();
    if (((slot - home) & mask()) >= ((slot - hole) & mask())) {
      slots_[hole] = slots_[slot];
      hole = slot;
    }
  }
  slots_[hole] = {};
}

void AddressTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.index != kNoBlock) {
      place(slot.hash, slot.index);
    }
  }
}

}  // namespace cubfc::arena
