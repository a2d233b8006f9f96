// The blocks that a process shares, where other processes of the same user find them: a table of
// SharedBlock in a shared file for each process that shares. Knows nothing of the driver.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace cubfc {

// A part of an allocation of the driver's; `region` is the driver's handle of that allocation.
struct SharedBlock {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::array<std::byte, 64> region;  // a CUipcMemHandle
};

// Names a SharedBlock for any process (find_shared()). cubfc's IPC handle contains it. Plain bytes.
struct Ticket {
  pid_t owner;
  std::uint32_t slot;
  std::uint64_t key;     // of the owner's file
  std::uint64_t number;  // of the publication: slots are used again
};

// The blocks that this process shares. Not thread-safe.
class SharedBlocks {
 public:
  // find_shared() finds the block by the ticket until withdraw(). On failure the ticket's number is
  // 0 and errno is set: ENOMEM without host memory; else there is no folder to share in, or no slot
  // is left, and the log says so.
  Ticket publish(const SharedBlock& block) noexcept;
  void withdraw(const Ticket& ticket) noexcept;

  // Called when the process ends: removes the file.
  void leave() noexcept;

 private:
  struct Slot {
    std::uint64_t number;  // 0: free. Written last
    SharedBlock block;
    std::array<std::byte, 40> unused;
  };
  static_assert(sizeof(Slot) == 128 && std::is_trivially_copyable_v<Slot>);
  static constexpr std::size_t kSlots = 16'384;

  bool start();
  friend std::optional<SharedBlock> find_shared(const Ticket& ticket);

  std::string path_;
  std::uint64_t key_ = 0;
  Slot* slots_ = nullptr;  // the file
  std::uint64_t last_number_ = 0;
  std::uint32_t used_ = 0;  // slots ever used
  std::vector<std::uint32_t> free_;
  bool said_ = false;  // the log says that there can be no file
};

// What the owner of the ticket has published under it. Nothing if it was withdrawn, if the owner's
// file is removed, or if the file is another user's. Does not look whether the owner lives: the
// file of a killed process stays until another process removes it. Throws std::bad_alloc.
std::optional<SharedBlock> find_shared(const Ticket& ticket);

}  // namespace cubfc
