// Where the processes of a user meet that use the same GPU: a file in which each one that has
// memory to give up for others has a slot, with what it has, and a bell. Whoever lacks memory looks
// there, rings, and waits until it is answered. Knows bytes and processes; nothing of CUDA.
//
// A slot is its process's as long as that holds the lock of the slot's byte, which dies with it
// however it ends; the slot of a dead process is cleared by the next that looks at it. The last
// process that leaves removes the file.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shim/loader/fork_mark.h"
#include "shim/meet/device_id.h"
#include "shim/meet/shared_files.h"

namespace cubfc {

// Thread-safe. Missing rights, a full file system or a file that is none of ours cost what it is
// for, and nothing else.
class Rendezvous {
 public:
  static constexpr std::size_t kDevices = 31;

  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  // Those meet that give the same name. A version is part of it: cubfc with another layout of the
  // file meets elsewhere. `now`: the time for which others' answers are waited for.
  explicit Rendezvous(
      std::string name = "rendezvous-5", Now now = [] { return Clock::now(); })
      : name_(std::move(name)), now_(now) {}

  // For a process that has something to give.
  //
  // From now on others may ask it for memory of this device. Its number in answer(), counted from
  // 0; nothing when there is no file to be had, or no slot: errno says why. Makes the file if there
  // is none. `group`: by which others of its group know it (Group::key()); 0: it is in none.
  std::optional<std::size_t> offer(const DeviceId& device, std::uint64_t group = 0) noexcept;
  // Waits until somebody has rung, interrupt() has been called, or so much time has passed.
  enum class Woken : std::uint8_t { kByRing, kByTime, kByInterrupt };
  Woken wait_for_ring(std::chrono::nanoseconds most) noexcept;
  // What a process has for others of a device.
  struct Left {
    Left(std::uint64_t could_be_given, bool takes = false) noexcept
        : bytes(could_be_given), is_taking(takes) {}
    std::uint64_t bytes;  // that it could give up
    bool is_taking;       // memory from the driver at this moment: of that it may soon have more
  };
  // Answers whoever has rung. For each device that was asked for, `give` is called with its number
  // and how many bytes are wanted; it returns what it has given up, which may be less, and is
  // called again as long as there is something. Then `left` is called: a Left, or its bytes.
  template <typename Give, typename Left>
  void answer(Give give, Left left) noexcept {
    Slot& slot = *own_;
    for (std::size_t number = 0; number < slot.devices.load(std::memory_order_acquire); ++number) {
      Entry& entry = slot.entries[number];
      const std::uint32_t rings = entry.rings.load(std::memory_order_acquire);
      if (rings == entry.answers.load(std::memory_order_relaxed)) {
        continue;
      }
      std::uint64_t wanted = entry.wanted.exchange(0, std::memory_order_acquire);
      while (wanted > 0) {
        const std::uint64_t given = give(number, wanted);
        entry.given.fetch_add(given, std::memory_order_relaxed);
        if (given == 0) {
          break;
        }
        note_change();
        wanted -= std::min(wanted, given);
      }
      put(entry, rings, left(number));
    }
  }
  // If somebody has removed the file: goes on in a new one. To be called now and then.
  void meet_again() noexcept;
  // From now on wait_for_ring() returns at once. Nothing else is offered.
  void interrupt() noexcept;
  // Nobody asks this process any more: it is about to give back all that it does not use.
  void begin_to_close() noexcept { set_taken(Taken::kByOneThatCloses); }
  // It has, or has nothing to give. Nobody waits for it.
  void close() noexcept;

  // For a process that lacks memory. Both wait for the others' answers: as long as one gives
  // something each second, half a minute at most, and not again for one that has not answered.
  //
  // Both ask all others that offer something, or with a group those that are in it.
  //
  // What others could give up of this device.
  std::uint64_t offered(const DeviceId& device, std::uint64_t group = 0) noexcept {
    return look(device, group).bytes;
  }
  // The same, and whether any of them is just taking memory.
  Left look(const DeviceId& device, std::uint64_t group = 0) noexcept;
  // Has them give up so many bytes, as few of them as have enough. Returns the bytes given up, for
  // whomever: 0 when there were none.
  std::uint64_t ask(const DeviceId& device, std::uint64_t bytes, std::uint64_t group = 0) noexcept;

  // How many other processes have something to give of this device, or had.
  std::size_t givers(const DeviceId& device) noexcept;

  // Whether another process is about to give back all that it does not use of this device.
  bool is_any_closing(const DeviceId& device) noexcept;

  // Changes whenever a process comes, has given something up, begins to close or is gone, whatever
  // the device. Who has looked at one process after the other, and finds the same number as before,
  // has not missed what went from one to the next meanwhile. 0 where there is no file.
  std::uint32_t changes() noexcept;

  // For how long an answer, or a part of what was asked for, is waited for.
  struct Waiting {
    Clock::duration most = std::chrono::seconds{1};
    // Whether the process of this number is known to be stopped, and gives none. Null: nobody
    // knows.
    bool (*is_stopped)(std::int32_t pid) = nullptr;
  };
  // For a command that looks on. Has all others, or the one of this number, give up all that they
  // can, of every device. Throws std::bad_alloc.
  struct Answer {
    std::int32_t pid;  // in its own namespace
    DeviceId device;
    std::uint64_t given;
    bool is_answered;  // false: not, or not all, within that time
  };
  std::vector<Answer> ask_for_all(std::optional<std::int32_t> pid, const Waiting& waiting);

  // Before the process ends, when no thread waits for a ring any more.
  void leave() noexcept;

 private:
  struct alignas(128) Entry {
    DeviceId device;
    std::uint64_t group;                // 0: none
    std::atomic<std::uint64_t> wanted;  // by those who have rung since the last answer
    std::atomic<std::uint64_t> given;   // bytes ever
    std::atomic<std::uint64_t> left;    // Left::bytes, at the last answer
    std::atomic<bool> is_taking;        // likewise
    std::atomic<std::uint32_t> rings;
    std::atomic<std::uint32_t> answers;  // the last ring that is answered. A futex
  };
  struct Slot {
    std::atomic<std::uint32_t> bell;  // counts. A futex
    std::atomic<std::uint32_t> devices;
    std::atomic<std::int32_t> pid;  // in its own namespace: for people
    alignas(128) std::array<Entry, kDevices> entries;
  };
  static constexpr std::size_t kSlots = 512;
  static constexpr std::size_t kPage = 4096;
  static_assert(sizeof(Slot) == kPage, "a slot of which nothing is used takes no memory");
  // By a process that offers something, or is giving it back to end.
  enum class Taken : std::uint32_t { kNot, kByGiver, kByOneThatCloses };
  struct Header {
    std::atomic<std::uint32_t> slots;  // those behind were never taken
    std::atomic<std::uint32_t> changes;
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
  // Another process, and what it is asked for.
  struct Other {
    std::size_t slot;
    Entry* entry;
    std::uint64_t bytes;  // that it could give up, or is asked for
  };

  std::optional<SharedFile> join_with_slot();
  static void begin(Entry& entry, const DeviceId& device, std::uint64_t group) noexcept;
  bool join_as_giver();
  bool take_slot(int file, Table& table);
  Descriptor join_as_asker();
  void set_taken(Taken taken) noexcept;
  void note_change() noexcept { table_.load()->header.changes.fetch_add(1); }
  std::vector<std::size_t> taken_by_others(Taken how) const;
  bool is_there(std::size_t slot, const Descriptor& probe);
  template <typename Which>
  std::vector<Other> others_that(Which which, const Descriptor& probe, Taken how = Taken::kByGiver);
  std::vector<Other> others_at(const DeviceId& device, std::uint64_t group, const Descriptor& probe,
                               Taken how = Taken::kByGiver);
  void ask_what_is_left(std::vector<Other>& others, const Descriptor& probe,
                        const Waiting& waiting);
  std::vector<Other> others_with(const DeviceId& device, std::uint64_t group,
                                 const Descriptor& probe);
  enum class Wanted : bool { kWord, kBytes };  // what they could give up, or that they do
  std::uint64_t ring(std::vector<Other>& others, Wanted wanted, const Descriptor& probe,
                     const Waiting& waiting);
  struct Patience;
  bool is_answered(const Other& other, std::uint32_t ring, Patience& patience,
                   const Descriptor& probe);
  static void put(Entry& entry, std::uint32_t rings, Left left) noexcept;

  const std::string name_;
  const Now now_;
  const ForkMark mark_;  // a child has not inherited what is mapped
  std::atomic<Table*> table_{nullptr};
  std::atomic<Slot*> own_{nullptr};
  std::atomic<bool> interrupted_{false};

  std::mutex mutex_;  // guards what follows; held while waiting for answers
  std::optional<SharedFile> file_;
  std::map<const Entry*, std::uint32_t> unanswered_;  // what its `answers` was then
  bool left_ = false;
};

}  // namespace cubfc
