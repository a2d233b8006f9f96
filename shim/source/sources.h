// Each place that memory may come from, for one request that lacks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shim/source/request.h"

namespace cubfc {

struct Device;

class Source {
 public:
  virtual ~Source() = default;
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Most of them hold memory, and are asked only if all that is held would be enough. Others bring
  // what somebody else is about to give back, of which nobody knows how much it is.
  virtual bool holds() const { return true; }
  // What could come from here: of the device, and of what the limit has left. `lacking`: what the
  // sources before it do not have; where that is 0, no other process need be asked for the answer.
  struct Could {
    std::uint64_t of_device = 0;
    std::uint64_t of_limit = 0;
  };
  virtual Could could_give(const Request& /*request*/, const Could& /*lacking*/) { return {}; }

  // True when it has brought something, or may have.
  virtual bool gives_at_once(Request& /*request*/, const Pass& /*pass*/) { return false; }
  enum class Waited : std::uint8_t {
    kInVain,  // or not at all
    kGave,
    kItsTime,  // something may have come: the wait is bounded, however often that is so
  };
  virtual Waited gives_after_wait(Request& /*request*/, Pass& /*pass*/) { return Waited::kInVain; }
};

// What is preallocated and in no arena.
class Preallocated final : public Source {
 public:
  Could could_give(const Request& request, const Could& lacking) override;
  bool gives_at_once(Request& request, const Pass& pass) override;
};

// What the program has freed and its work may still use, which waits in WaitingFrees. It counts as
// held by Unused.
class FreesThatWait final : public Source {
 public:
  explicit FreesThatWait(const Device& device);  // before the request is tried
  Waited gives_after_wait(Request& request, Pass& pass) override;

 private:
  bool wait(Request& request);

  std::size_t reclaimed_ = 0;            // epochs, when the request was tried
  std::optional<std::uint64_t> newest_;  // epoch, when the first wait began
  bool are_done_ = false;
};

// What arenas and pools have and no block is in. What the driver takes back at once, comes at once.
class Unused final : public Source {
 public:
  Could could_give(const Request& request, const Could& lacking) override;
  bool gives_at_once(Request& request, const Pass& pass) override;
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// What the program has freed in a stream's order, which pools get back as the stream gets there.
class PoolsInStreamOrder final : public Source {
 public:
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// Processes of the user that hold what they do not use; for a group's budget its members.
class OtherProcesses final : public Source {
 public:
  Could could_give(const Request& request, const Could& lacking) override;
  bool gives_at_once(Request& request, const Pass& pass) override;
};

// Another thread has given something back since the request was tried, or is just taking more than
// it needs: that is waited for, a driver call long.
class OtherThreads final : public Source {
 public:
  explicit OtherThreads(const Device& device);  // before the request is tried
  bool holds() const override { return false; }
  bool gives_at_once(Request& request, const Pass& pass) override;
  Waited gives_after_wait(Request& request, Pass& pass) override;

 private:
  std::uint64_t releases_;  // of the device's budget
  bool any_takes_ = true;
};

// Another process gives something up at this moment, for somebody else who takes less; or it is
// taking memory, and may have more to give then than it says now.
class ProcessesThatTake final : public Source {
 public:
  bool holds() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// A process gives back all that it has, since it ends; or a member of the group was killed, and its
// claims are the group's again, but the driver is still at taking its memory back.
class ProcessesThatEnd final : public Source {
 public:
  bool holds() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// The device has enough by now, which others may see, too, and be quicker. Looked at before the
// other processes and after them: who was seen to have memory gives it back before it is seen to
// have none.
class FreeByNow final : public Source {
 public:
  bool holds() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// Asked last. What went from one process to another, or to the device, while one after the other
// was looked at may have been seen with none of them.
class InMotion final : public Source {
 public:
  bool holds() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

}  // namespace cubfc
