// Where the processes of a user meet that use the same GPU: a file in which each one that has
// memory to give up for others has a slot, with what it has, and a bell. Whoever lacks memory looks
// there, rings, and waits until it is answered (rendezvous_asking.h). Knows bytes and processes;
// nothing of CUDA.
//
// A slot is its process's as long as that holds the lock of the slot's byte, which dies with it
// however it ends; the slot of a dead process is cleared by the next that looks at it. The last
// process that leaves removes the file.
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

// Thread-safe. Missing rights, a full file system or a file that is none of ours cost what it is
// for, and nothing else.
class Rendezvous {
 public:
  using Now = Asking::Now;

  // Those meet that give the same name. A version is part of it: cubfc with another layout of the
  // file meets elsewhere. `now`: the time for which others' answers are waited for.
  explicit Rendezvous(
      std::string name = "rendezvous-6", Now now = [] { return std::chrono::steady_clock::now(); })
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
  using Left = meeting::Left;
  // Answers whoever has rung. For each device that was asked for, `give` is called with its number
  // and how many bytes are wanted; it returns what it has given up, which may be less, and is
  // called again as long as there is something. Then `left` is called: a Left, or its bytes.
  void answer(const std::function<std::uint64_t(std::size_t, std::uint64_t)>& give,
              const std::function<Left(std::size_t)>& left) noexcept;
  // What was answered for the device of this number, and was to last, is no longer so. Takes no
  // lock, for callers that have one; in a forked child nothing happens.
  void changed(std::size_t number) noexcept;
  // And is not even to be counted as what was so a moment ago: memory came from the device or went
  // back, and who adds up what the device has and what others have would count it twice, or never.
  void resized(std::size_t number) noexcept;
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
  // The same of all others, and of those in the group, by their last answers: of those that have
  // not changed since, or have given it within patience::kOldestAnswer, nobody wakes up.
  using Lately = Asking::Lately;
  Lately offered_lately(const DeviceId& device, std::uint64_t group = 0) noexcept;
  // What offered() says, and whether any of them is just taking memory.
  Left look(const DeviceId& device, std::uint64_t group = 0) noexcept;
  // Has them give up so many bytes, as few of them as have enough. Returns the bytes given up, for
  // whomever: 0 when there were none.
  std::uint64_t ask(const DeviceId& device, std::uint64_t bytes, std::uint64_t group = 0) noexcept;

  // How many other processes have something to give of this device, or had.
  std::size_t givers(const DeviceId& device) noexcept;

  // Whether another process is about to give back all that it does not use of this device. Not one
  // for which this process has waited in vain: it may be stopped.
  bool is_any_closing(const DeviceId& device) noexcept;
  // Those that are about to do so now were waited for as long as that is worth.
  void give_up_on_closing(const DeviceId& device) noexcept;

  // Changes whenever a process comes, has given something up, begins to close or is gone, whatever
  // the device. Who has looked at one process after the other, and finds the same number as before,
  // has not missed what went from one to the next meanwhile. 0 where there is no file.
  std::uint32_t changes() noexcept;

  using Waiting = Asking::Waiting;
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
  using Entry = meeting::Entry;
  using Slot = meeting::Slot;
  using Table = meeting::Table;
  using Taken = meeting::Taken;

  std::optional<SharedFile> join_with_slot();
  static void begin(Entry& entry, const DeviceId& device, std::uint64_t group) noexcept;
  // Those in the file that this process has left.
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
    std::uint32_t rings, changes, resizes;  // of an entry, before it was looked at what is left
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
