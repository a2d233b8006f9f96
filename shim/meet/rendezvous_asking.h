// How a process asks the others that meet in a Rendezvous: it rings, and waits until they have
// answered. Rendezvous makes an object for each question, under its lock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "shim/meet/descriptor.h"
#include "shim/meet/device_id.h"
#include "shim/meet/rendezvous_table.h"
#include "shim/patience.h"

namespace cubfc {

class Asking {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();
  // A process, by its slot and by its pid in its own namespace: another process may have the slot
  // soon.
  using Process = std::pair<std::size_t, std::int32_t>;
  using Processes = std::set<Process>;
  // The processes that did not answer in time, and how many answers each had given by then, for all
  // devices. A process is not waited for again until it has given more.
  using Unanswered = std::map<Process, std::uint32_t>;

  // `own`: the asking process's slot, or nullptr. `probe`: the file, opened for this question: its
  // locks tell which processes are alive.
  Asking(meeting::Table& table, const meeting::Slot* own, Descriptor probe, Unanswered& unanswered,
         Now now)
      : table_(table), own_(own), probe_(std::move(probe)), unanswered_(unanswered), now_(now) {}

  // A device of another process, and how many bytes of it that process is asked for.
  struct Other {
    std::size_t slot;
    meeting::Entry* entry;
    std::uint64_t bytes;  // that it could give up, or is asked for
  };
  using Others = std::vector<Other>;

  // The living processes that offer this device; with a group, those that are in it.
  Others at(const DeviceId& device, std::uint64_t group,
            meeting::Taken how = meeting::Taken::kByGiver);
  // As at(), as a set of processes.
  Processes processes(const DeviceId& device, meeting::Taken how);
  // The living processes, with every device. If a pid is given, only the process with this pid.
  Others of_process(std::optional<std::int32_t> pid);

  // `most`: how long to wait for an answer, or for the next part of what was asked for.
  struct Waiting {
    Clock::duration most = patience::kForAnswer;
    // Tells whether the process with this pid is known to be stopped, and so gives no answer. Null:
    // that is not known.
    bool (*is_stopped)(std::int32_t pid) = nullptr;
  };
  // Asks each how much it can give up. Removes those that do not answer.
  void ask_what_is_left(Others& others, const Waiting& waiting);
  // How much all of them can give up, and how much those in the group, by their last answers. Asks
  // those anew whose last answer may not be used any more, or is too old.
  struct Lately {
    std::uint64_t bytes = 0;
    std::uint64_t in_group = 0;
  };
  Lately lately_left(Others others, std::uint64_t group);
  // Asks each to give up its `bytes`. Removes those that do not answer. Returns the bytes that they
  // have given up meanwhile.
  std::uint64_t ask_for_bytes(Others& others, const Waiting& waiting);

  static std::int64_t ns_of(Clock::time_point time) {
    return std::chrono::nanoseconds(time.time_since_epoch()).count();
  }
  std::int32_t pid_of(const Other& other) const {
    return table_.slots[other.slot].pid.load(std::memory_order_relaxed);
  }

 private:
  struct Patience;
  template <typename Which>
  Others those_that(Which which, meeting::Taken how);
  bool is_there(std::size_t slot);
  static bool is_good(const meeting::Entry& entry, Clock::time_point now);
  // kWord: asks how much they could give up. kBytes: asks them to give it up.
  enum class Wanted : bool { kWord, kBytes };
  std::uint64_t ring(Others& others, Wanted wanted, const Waiting& waiting);
  bool is_answered(const Other& other, std::uint32_t ring, Patience& patience);
  Process process_of(const Other& other) const { return {other.slot, pid_of(other)}; }
  std::uint32_t answers_of(const Other& other) const;
  bool is_silent(const Other& other) const;

  meeting::Table& table_;
  const meeting::Slot* const own_;
  const Descriptor probe_;
  Unanswered& unanswered_;
  const Now now_;
};

}  // namespace cubfc
