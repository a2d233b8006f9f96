// Memory shared with other processes: blocks of the arena by handles of cubfc's own, all else by
// the driver's.
//
// The driver's handle of a block denotes its whole region, and an importer would see other blocks
// where it expects this one. So the importer is told where in the region the block is: our handle
// finds that in the owner's file (shared_blocks.h), the driver maps the region, once however many
// of its blocks are opened, and the offset is added. A process without cubfc asks its driver, for
// which our handle is none.
//
// A driver that is asked for a region once more may give the same address and count that, as CUDA
// documents, or refuse because it is open already (CUDA_ERROR_ALREADY_MAPPED, or another error).
// Both are right here: what it has given is known, and is closed as often as it was given.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "config/policy.h"
#include "shim/device/context_end.h"
#include "shim/share/shared_blocks.h"

namespace cubfc {

class Contexts;
struct DriverFunctions;

// Requests of this size and more are the driver's own under CUBFC_IPC=driver.
inline constexpr std::uint64_t kSmallestDriverShared = std::uint64_t{1} << 20;

// Thread-safe. Its lock is never held across a driver call.
class Ipc : private ContextListener {
 public:
  Ipc(const DriverFunctions& driver, const config::Policy& policy, Contexts& contexts);

  // As the driver's functions of these purposes would answer.
  CUresult handle_of(CUipcMemHandle* handle, CUdeviceptr address);
  using Open = CUresult (*)(CUdeviceptr*, CUipcMemHandle, unsigned);
  CUresult open(CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags, Open driver);
  CUresult close(CUdeviceptr address);

  // The block of another process that contains the address; of 0 bytes where its region is mapped
  // but no open block is.
  struct Import {
    CUdeviceptr address;
    std::uint64_t bytes;
    std::uint64_t id;  // of this import
  };
  std::optional<Import> find_import(CUdeviceptr address) const;

  // Whether a block has been shared that may still be: else will_free() has nothing to do.
  bool any_exports() const noexcept { return any_exports_.load(std::memory_order_acquire); }
  // A block that starts here is about to be free: its handle opens nothing any more.
  void will_free(CUdeviceptr address) noexcept {
    if (any_exports()) {
      withdraw(address);
    }
  }

  // At exit: removes this process's file, so that nobody opens its blocks any more. Takes no lock.
  void leave() noexcept { shared_.leave(); }

 private:
  struct Export {
    std::uint64_t block_id;
    std::uint64_t context_id;
    Ticket ticket;
  };
  struct Opened {
    CUdeviceptr region;
    std::uint64_t region_bytes;
    std::uint64_t bytes;
    std::uint64_t context_id;
    std::uint64_t id;
    unsigned times;
  };
  // Of another process, as the driver has mapped it.
  struct Region {
    CUipcMemHandle handle;
    unsigned flags;
    std::uint64_t context_id;
    unsigned given;  // how often the driver has
    unsigned used;   // by how many openings of blocks
  };
  using Regions = std::map<CUdeviceptr, Region>;

  CUresult open_region(CUdeviceptr* region, const CUipcMemHandle& handle, unsigned flags,
                       Open driver, std::uint64_t context_id);
  CUresult try_to_open_region(CUdeviceptr* region, const CUipcMemHandle& handle, unsigned flags,
                              Open driver, std::uint64_t context_id);
  Regions::iterator find_region(const CUipcMemHandle& handle, unsigned flags,
                                std::uint64_t context_id);
  CUresult close_region(CUdeviceptr region);
  void context_ended(std::uint64_t id) override;
  void withdraw(CUdeviceptr address) noexcept;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Contexts& contexts_;
  SharedBlocks shared_;
  std::atomic<bool> any_exports_{false};
  std::atomic<bool> any_imports_{false};

  mutable std::mutex mutex_;               // guards all below
  std::map<CUdeviceptr, Export> exports_;  // by the block's start
  std::map<CUdeviceptr, Opened> imports_;  // by the block's start in this process
  Regions regions_;                        // of those
  unsigned in_driver_ = 0;                 // calls that open or close one
  std::condition_variable driver_is_back_;
  std::uint64_t last_import_ = 0;
};

}  // namespace cubfc
