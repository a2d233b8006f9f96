// The layout of the file in which processes meet (rendezvous.h). Each process has the file mapped.
// Another layout needs another file name.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/meet/device_id.h"

namespace cubfc::meeting {

inline constexpr std::size_t kDevices = 31;  // that a process can offer

// What a process could give others of a device.
struct Left {
  Left(std::uint64_t could_be_given, bool takes = false, bool lasts = false) noexcept
      : bytes(could_be_given), is_taking(takes), is_lasting(lasts) {}
  std::uint64_t bytes;  // that it could give up
  bool is_taking;       // memory from the driver at this moment, and may have more soon
  bool is_lasting;      // `bytes` holds until Rendezvous::changed() is called
};

struct alignas(128) Entry {
  DeviceId device;
  std::uint64_t group;                     // 0: none
  std::atomic<std::uint64_t> wanted;       // bytes, by those who have rung since the last answer
  std::atomic<std::uint64_t> given;        // bytes ever
  std::atomic<std::uint64_t> left;         // Left::bytes, at the last answer
  std::atomic<bool> is_taking;             // likewise
  std::atomic<std::int64_t> answered_ns;   // when that was, by steady_clock; 0: never
  std::atomic<std::uint32_t> changes;      // counts Rendezvous::changed()
  std::atomic<std::uint32_t> resizes;      // counts Rendezvous::resized()
  std::atomic<std::uint32_t> lasts_while;  // `left` holds as long as `changes` is this
  std::atomic<std::uint32_t> good_while;   // `left` may be used as long as `resizes` is this
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> answers;  // the last ring that is answered. A futex
};

struct Slot {
  // At most kDevices, whatever the file says: another program may write to it.
  std::size_t num_devices() const {
    return std::min<std::size_t>(devices.load(std::memory_order_acquire), kDevices);
  }

  std::atomic<std::uint32_t> bell;  // counts rings and interrupts. A futex
  std::atomic<std::uint32_t> devices;
  std::atomic<std::int32_t> pid;  // in its own namespace: for people
  alignas(128) std::array<Entry, kDevices> entries;
};

inline constexpr std::size_t kSlots = 512;
inline constexpr std::size_t kPage = 4096;
static_assert(sizeof(Slot) == kPage, "a slot of which nothing is used takes no memory");

// kByGiver: by a process that offers something. kByOneThatCloses: by one that gives all back
// because it ends.
enum class Taken : std::uint32_t { kNot, kByGiver, kByOneThatCloses };

struct Header {
  std::atomic<std::uint32_t> slots;    // those from this number on were never taken
  std::atomic<std::uint32_t> changes;  // Rendezvous::changes()
  std::array<std::atomic<Taken>, kSlots> taken;
};
static_assert(sizeof(Header) <= kPage);

struct Table {
  union {
    Header header;
    std::array<char, kPage> page;
  };
  std::array<Slot, kSlots> slots;
};

// The slots that other processes have taken in this way, without `own`, the caller's. Those of dead
// processes are among them. Throws std::bad_alloc.
std::vector<std::size_t> taken_by_others(const Table& table, const Slot* own, Taken how);

// Sleeps while the word has this value, for `most` at most; not at all if it has another value.
void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds most) noexcept;
void wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace cubfc::meeting
