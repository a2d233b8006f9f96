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

  // Whether could_give() tells how much this source has. Such sources are asked only if all of them
  // together have enough. The other sources give memory that a thread or process is about to give
  // back. Nobody knows how much that is, so those sources are always asked.
  virtual bool knows_its_bytes() const { return true; }
  // The bytes that this source could give back, to the device and to the limit. `lacking`: what the
  // sources before this one do not have. Where that is 0, the source need not ask other processes,
  // and may answer 0.
  struct Could {
    std::uint64_t of_device = 0;
    std::uint64_t of_limit = 0;
  };
  virtual Could could_give(const Request& /*request*/, const Could& /*lacking*/) { return {}; }

  // Gives memory back without a wait for the program's work. (A driver call, another process's
  // answer or another thread's driver call may take time: shim/patience.h.) Returns whether it has
  // given something back, or may have.
  virtual bool gives_at_once(Request& /*request*/, const Pass& /*pass*/) { return false; }
  enum class Waited : std::uint8_t {
    kInVain,     // it has given nothing back
    kGave,       // it has given something back, or may have
    kUncounted,  // as kGave; the pass does not count for patience::kMostPasses, because something
                 // else bounds the wait: the program's work, or a time in patience.h
  };
  virtual Waited gives_after_wait(Request& /*request*/, Pass& /*pass*/) { return Waited::kInVain; }
};

// Memory that is preallocated and in no arena.
class Preallocated final : public Source {
 public:
  Could could_give(const Request& request, const Could& lacking) override;
  bool gives_at_once(Request& request, const Pass& pass) override;
};

// Blocks that the program has freed and that work may still use: they wait in WaitingFrees.
// (Unused::could_give() counts their bytes, too.)
class FreesThatWait final : public Source {
 public:
  explicit FreesThatWait(const Device& device);  // called before the request is tried
  Waited gives_after_wait(Request& request, Pass& pass) override;

 private:
  bool wait(Request& request);

  // DeviceFrees::reclaimed() before the request was tried; then, after each wait().
  std::size_t reclaimed_ = 0;
  // The newest epoch to wait for. Set by the first wait(), and by later ones as long as there is
  // time left for what other threads free.
  std::optional<std::uint64_t> newest_;
  bool are_done_ = false;
};

// Memory of arenas and pools that no block is in. Gives back at once what the driver takes without
// waiting for work, and after a wait the rest.
class Unused final : public Source {
 public:
  Could could_give(const Request& request, const Could& lacking) override;
  bool gives_at_once(Request& request, const Pass& pass) override;
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// Memory that the program has freed in a stream's order. A pool gets it back when the stream has
// reached the free.
class PoolsInStreamOrder final : public Source {
 public:
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// Other processes of the user that hold memory they do not use. For a group's limit only its
// members are asked.
class OtherProcesses final : public Source {
 public:
  Could could_give(const Request& request, const Could& lacking) override;
  bool gives_at_once(Request& request, const Pass& pass) override;
};

// Other threads. One may have given something back since the request was tried. One may be in a
// driver call by which an arena grows, perhaps by more than that thread needs: then the call's end
// is waited for.
class OtherThreads final : public Source {
 public:
  explicit OtherThreads(const Device& device);  // called before the request is tried
  bool knows_its_bytes() const override { return false; }
  bool gives_at_once(Request& request, const Pass& pass) override;
  Waited gives_after_wait(Request& request, Pass& pass) override;

 private:
  std::uint64_t releases_;  // of the device's budget
  bool any_takes_ = true;
};

// Another process has memory to give that it has not given yet; or it is taking memory from the
// driver at this moment, and may have more to give after that.
class ProcessesThatTake final : public Source {
 public:
  bool knows_its_bytes() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// A process gives back all that it has because it ends; or a member of the group was killed, and
// its claims were given back to the group, but the driver has not taken back all of its memory yet.
class ProcessesThatEnd final : public Source {
 public:
  bool knows_its_bytes() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// The device has enough by now: the request is tried again, though others may see the same, and be
// quicker. Asked before and after the other processes are looked at, because memory may go from one
// of them to the device in between.
class EnoughByNow final : public Source {
 public:
  bool knows_its_bytes() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

// Asked last. Processes and the device are looked at one after the other. Memory that went from one
// to another meanwhile may have been seen with neither. If anything has changed since the first
// look, the request is tried, and all are looked at again.
class InMotion final : public Source {
 public:
  bool knows_its_bytes() const override { return false; }
  Waited gives_after_wait(Request& request, Pass& pass) override;
};

}  // namespace cubfc
