// Memory shared with other processes: blocks of arenas by handles of cubfc's own, all else by the
// driver's.
//
// The driver's handle of a block denotes the block's whole region, so an importer would find
// another block where it expects this one. cubfc's handle names an entry in the owner's shared file
// (shared_blocks.h). The entry has the driver's handle of the region, and the block's offset in the
// region. For each block that it opens, the importer asks the driver to open the region, and adds
// the offset. A process without cubfc passes the handle to its driver, which refuses it.
//
// A driver that is asked to open a region again may answer with the same address and count the
// call, as CUDA documents, or refuse because the region is open already (CUDA_ERROR_ALREADY_MAPPED,
// or another error). Either will do: the region is closed as often as the driver has opened it.
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

// Under CUBFC_IPC=driver the driver itself serves requests of so many bytes and more, and shares
// them.
inline constexpr std::uint64_t kSmallestDriverShared = std::uint64_t{1} << 20;

// Thread-safe. Its lock is never held across a driver call.
class Ipc : private ContextListener {
 public:
  Ipc(const DriverFunctions& driver, const config::Policy& policy, Contexts& contexts);

  // Answer as cuIpcGetMemHandle, cuIpcOpenMemHandle and cuIpcCloseMemHandle would if each block
  // were an allocation of its own. `driver`: the version of cuIpcOpenMemHandle that the program has
  // called. Throw std::bad_alloc.
  CUresult handle_of(CUipcMemHandle* handle, CUdeviceptr address);
  using Open = CUresult (*)(CUdeviceptr*, CUipcMemHandle, unsigned);
  CUresult open(CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags, Open driver);
  CUresult close(CUdeviceptr address);

  // The block of another process that is open here and contains the address. `bytes` is 0 if the
  // address lies in a region that is mapped here, but in no open block.
  struct Import {
    CUdeviceptr address;
    std::uint64_t bytes;
    std::uint64_t id;  // of this import
  };
  std::optional<Import> find_import(CUdeviceptr address) const;

  // Whether any block is shared; if not, will_free() has nothing to do. No lock.
  bool any_exports() const noexcept { return any_exports_.load(std::memory_order_acquire); }
  // Called before the block that starts at this address is freed: from now on its handle opens
  // nothing.
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
  // A region of another process that the driver has mapped here.
  struct Region {
    CUipcMemHandle handle;
    unsigned flags;
    std::uint64_t context_id;
    unsigned given;  // how often the driver has opened it
    unsigned used;   // how many openings of blocks use it
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
  Regions regions_;                        // that imports_ lie in, by their start
  unsigned in_driver_ = 0;                 // driver calls under way that open or close a region
  std::condition_variable driver_is_back_;
  std::uint64_t last_import_ = 0;
};

}  // namespace cubfc
