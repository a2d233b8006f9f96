// Where the processes of a user that use the same GPU meet: a file with a slot for each process
// that can give memory to others. The slot says what the process can give, and has a bell (a futex)
// to wake it. A process that lacks memory looks there, rings, and waits for the answers
// (rendezvous_asking.h). Knows bytes and processes; nothing of CUDA.
//
// A process has its slot as long as it holds the lock of the slot's byte, which ends with the
// process, however that ends. The next process that looks at the slot of a dead one clears it. The
// last process that leaves removes the file.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shim/loader/fork_mark.h"
#include "shim/meet/device_id.h"
#include "shim/meet/rendezvous_asking.h"
#include "shim/meet/rendezvous_table.h"
#include "shim/meet/shared_files.h"

namespace cubfc {

// Thread-safe. If rights are missing, the file system is full or the file is not ours, no memory is
// exchanged, but nothing else fails.
class Rendezvous {
 public:
  using Now = Asking::Now;

  // Processes that give the same name meet. The version of the layout is part of the name, so that
  // a cubfc with another layout uses another file. `now`: the clock by which answers are waited
  // for.
  explicit Rendezvous(
      std::string name = "rendezvous-6", Now now = [] { return std::chrono::steady_clock::now(); })
      : name_(std::move(name)), now_(now) {}

  // For a process that has something to give.
  //
  // Lets others ask this process for memory of the device from now on. Returns the device's number,
  // counted from 0, for answer(). Nothing if there is no file to be had, or no slot: errno says
  // why. Makes the file if there is none. `group`: the key by which others of the group know this
  // process (Group::key()); 0: it is in none.
  std::optional<std::size_t> offer(const DeviceId& device, std::uint64_t group = 0) noexcept;
  // Waits until somebody has rung, interrupt() has been called, or so much time has passed.
  enum class Woken : std::uint8_t { kByRing, kByTime, kByInterrupt };
  Woken wait_for_ring(std::chrono::nanoseconds most) noexcept;
  using Left = meeting::Left;
  // Answers the processes that have rung. For each device that they asked for, calls `give` with
  // its number and the bytes wanted. `give` returns the bytes that it has given back, which may be
  // fewer, and is called again until it returns 0 or nothing more is wanted. Then calls `left`,
  // which says what could still be given.
  void answer(const std::function<std::uint64_t(std::size_t, std::uint64_t)>& give,
              const std::function<Left(std::size_t)>& left) noexcept;
  // Called when the last answer for the device of this number no longer holds, if it was to last
  // (Left::is_lasting). Takes no lock, because callers hold one; does nothing in a forked child.
  void changed(std::size_t number) noexcept;
  // Called when memory was taken of the device or went back. From then on nobody may use the last
  // answer, not even one that is only a moment old. A process adds up what the device has free and
  // what others could give. With an old answer, the moved memory would be in both figures, or in
  // neither. Takes no lock, either, and does nothing in a forked child.
  void resized(std::size_t number) noexcept;
  // Called once a second by SoftReserve's thread. If somebody has removed the file, goes on in a
  // new one.
  void meet_again() noexcept;
  // From now on wait_for_ring() returns at once, and no further device is offered.
  void interrupt() noexcept;
  // Called when this process is about to give back all that it does not use. Others do not ask it
  // any more, but may wait for it.
  void begin_to_close() noexcept { set_taken(Taken::kByOneThatCloses); }
  // Called when it has done so, or has nothing to give: others do not wait for it any more.
  void close() noexcept;

  // For a process that lacks memory. offered(), look() and ask() ask the others what they have
  // left: all that offer something, or with a group those that are in it. They wait for the answers
  // as long as one of the others gives something each second, half a minute at most. They do not
  // wait again for a process that has not answered, until it has.
  //
  // The bytes that others could give up of this device.
  std::uint64_t offered(const DeviceId& device, std::uint64_t group = 0) noexcept {
    return look(device, group).bytes;
  }
  // As offered(), for all others and for those in the group, by their last answers. Wakes only
  // processes whose last answer may not be used any more, or is too old (patience::kOldestAnswer,
  // patience::kOldestLastingAnswer).
  using Lately = Asking::Lately;
  Lately offered_lately(const DeviceId& device, std::uint64_t group = 0) noexcept;
  // As offered(), and whether any of them is taking memory from the driver at this moment.
  Left look(const DeviceId& device, std::uint64_t group = 0) noexcept;
  // Does as look(), then asks those that have most to give, no more of them than have `bytes`
  // together. Returns the bytes that they have given up meanwhile, also for other askers.
  std::uint64_t ask(const DeviceId& device, std::uint64_t bytes, std::uint64_t group = 0) noexcept;

  // How many other processes offer memory of this device, even if they have none left.
  std::size_t givers(const DeviceId& device) noexcept;

  // Whether another process is about to give back all that it does not use of this device.
  // Processes for which this one has waited in vain do not count: they may be stopped.
  bool is_any_closing(const DeviceId& device) noexcept;
  // Called when this process has waited in vain for the processes that is_any_closing() reports
  // now. They do not count there any more.
  void give_up_on_closing(const DeviceId& device) noexcept;

  // A number that changes whenever a process comes, has given something up, begins to close or is
  // gone, for whatever device. A process that has looked at the others one after the other, and
  // then finds the same number as before, has missed no memory that went from one to the next
  // meanwhile. 0 if there is no file.
  std::uint32_t changes() noexcept;

  using Waiting = Asking::Waiting;
  // For `cubfc trim`. Asks all others, or the process with this pid, to give up all that they can,
  // of every device. Throws std::bad_alloc.
  struct Answer {
    std::int32_t pid;  // in its own namespace
    DeviceId device;
    std::uint64_t given;
    bool is_answered;  // false: the process did not answer at all, or not the last question
  };
  std::vector<Answer> ask_for_all(std::optional<std::int32_t> pid, const Waiting& waiting);

  // Called before the process ends, when no thread waits for a ring any more. Removes the file if
  // no other process has it.
  void leave() noexcept;

 private:
  using Entry = meeting::Entry;
  using Slot = meeting::Slot;
  using Table = meeting::Table;
  using Taken = meeting::Taken;

  std::optional<SharedFile> join_with_slot();
  static void begin(Entry& entry, const DeviceId& device, std::uint64_t group) noexcept;
  // Forgets the processes in the file that this process has left.
  void forget_others() noexcept {
    unanswered_.clear();
    closing_in_vain_.clear();
  }
  bool join_as_giver();
  bool take_slot(int file, Table& table);
  std::optional<Asking> join_as_asker();
  void set_taken(Taken taken) noexcept;
  void note_change() noexcept { table_.load()->header.changes.fetch_add(1); }
  struct Before {
    std::uint32_t rings, changes, resizes;  // of an entry, before `left` was called
  };
  void put(Entry& entry, const Before& before, Left left) const noexcept;

  const std::string name_;
  const Now now_;
  const ForkMark mark_;  // a child has not inherited what is mapped
  std::atomic<Table*> table_{nullptr};
  std::atomic<Slot*> own_{nullptr};
  std::atomic<bool> interrupted_{false};

  std::mutex mutex_;  // guards what follows; held while waiting for answers
  std::optional<SharedFile> file_;
  Asking::Unanswered unanswered_;
  Asking::Processes closing_in_vain_;
  bool left_ = false;
};

}  // namespace cubfc
