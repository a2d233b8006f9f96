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

  // Whether could_give() says how much this source has. Such sources are asked only if all that
  // they have would be enough. The others bring what somebody is about to give back, of which
  // nobody knows how much it is, and are always asked.
  virtual bool knows_its_bytes() const { return true; }
  // What could come from here: of the device, and of what the limit has left. `lacking`: what the
  // sources before it do not have; where that is 0, no other process need be asked for the answer.
  struct Could {
    std::uint64_t of_device = 0;
    std::uint64_t of_limit = 0;
  };
  virtual Could could_give(const Request& /*request*/, const Could& /*lacking*/) { return {}; }

  // Without a wait for the program's work. (A driver call, another process's answer or another
  // thread's driver call may take time: shim/patience.h.) True when it has brought something, or
  // may have.
  virtual bool gives_at_once(Request& /*request*/, const Pass& /*pass*/) { return false; }
  enum class Waited : std::uint8_t {
    kInVain,     // or it did not wait
    kGave,       // something, or perhaps
    kUncounted,  // the same; what was waited for ends by itself, or has a time of its own, so that
                 // this is not one of patience::kMostPasses
  };
  virtual Waited gives_after_wait(Request& /*request*/, Pass& /*pass*/) { return Waited::kInVain; }
};

// What is preallocated and in no arena.
class Preallocated final : public Source {
 public:
  Could could_give(const Request& request, const Could& lacking) override;
  bool gives_at_once(Request& request, const Pass& pass) override;
};

// What the program has freed and its work may still use, which waits in WaitingFrees. (Unused says
// how many bytes that is, together with its own.)
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

// What arenas and pools have and no block is in. At once comes what the driver takes back without
// waiting for work; after a wait the rest.
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

// Another thread has given something back since the request was tried; or it is in a driver call by
// which an arena grows, perhaps by more than it needs, and is waited for until that call is over.
class OtherThreads final : public Source {
 public:
  explicit OtherThreads(const Device& device);  // before the request is tried
  bool knows_its_bytes() const override { return false; }
  bool gives_at_once(Request& request, const Pass& pass) override;
  Waited gives_after_wait(Request& request, Pass& pass) override;

 private:
  std::uint64_t releases_;  // of the device's budget
  bool any_takes_ = true;
};

// Another process has memory to give that was not given yet; or it is taking memory from the driver
// at this moment, and may have more to give when it has it.
class ProcessesThatTake final : public Source {
 public:
  bool knows_its_bytes() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// A process gives back all that it has, since it ends; or a member of the group was killed, and its
// claims are the group's again, but the driver is still at taking its memory back.
class ProcessesThatEnd final : public Source {
 public:
  bool knows_its_bytes() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// The device has enough by now: the request is tried again, though others may see it, too, and be
// quicker. Looked at before and after the other processes, because memory may go from one of them
// to the device between two looks.
class EnoughByNow final : public Source {
 public:
  bool knows_its_bytes() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// Asked last. Processes and the device are looked at one after the other. Memory that went from one
// to another meanwhile may have been seen with neither; if anything has changed since the first
// look, all is looked at again.
class InMotion final : public Source {
 public:
  bool knows_its_bytes() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

}  // namespace cubfc
