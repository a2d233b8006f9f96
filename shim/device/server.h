// What serves a device's requests for memory (cuMemAlloc and its like). Each device has one Server,
// which is chosen when the device becomes known, by CUBFC_ALLOCATOR and by what the device
// supports. The Server also answers questions about the device's blocks.
//
// To add an allocator: its word in config/ (choices.h, choices.cpp, option_readers.cpp,
// options.cpp, and then the table in docs/options.md); a RegionSource, if an arena is to take its
// memory from elsewhere; a class and a case in servers/servers.cpp; new files in CMakeLists.txt;
// the lists of allocators in cli/compare.cpp, cli/replay.cpp, tests/ and scripts/. An allocator
// without an arena also needs a Memory (tell/trace_format.h) that DeviceLimit::counts() and `cubfc
// replay` know, and a look at all code that reads `by`.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/device/context_end.h"

namespace cubfc {

class Claim;
class RegionSource;
struct Context;
struct Device;
struct DriverFunctions;

// Thread-safe. Every context that is passed must be of its device. A function that returns the
// driver's answer returns CUDA_SUCCESS or the driver's error.
class Server {
 public:
  // How a request is served.
  enum class By : std::uint8_t {
    kArena,   // by the arena of the current context
    kPool,    // from a pool that cubfc has made; each block is claimed from the limit
    kDriver,  // by the driver, as without cubfc, but claimed from the limit
  };
  const By by;
  explicit Server(By how) : by(how) {}
  virtual ~Server() = default;

  // The allocator in force, as CUBFC_ALLOCATOR names it.
  virtual config::Allocator allocator() const noexcept = 0;
  // For the log; nullptr for an arena, whose size the log tells instead.
  virtual const char* description() const noexcept { return nullptr; }

  // Makes the source of memory for the arena of a new context. Throws std::bad_alloc.
  virtual std::unique_ptr<RegionSource> make_source() = 0;

  // Called only with By::kPool. For each request: prepare(), obtain(), then enter(), or undo() if
  // the memory cannot be kept.
  // prepare(): makes what the context needs to allocate. Precondition: the context is current.
  // Returns the driver's answer.
  virtual CUresult prepare(Context& /*context*/) noexcept { return CUDA_ERROR_NOT_SUPPORTED; }
  // Takes memory from the pool. Returns the driver's answer.
  virtual CUresult obtain(Context& /*context*/, CUdeviceptr* /*address*/,
                          std::size_t /*bytes*/) noexcept {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  // Returns memory of obtain() to the pool at once.
  virtual void undo(CUdeviceptr /*address*/) noexcept {}
  // Makes the memory that obtain() got a live block. Throws std::bad_alloc: the claim is gone then,
  // and the memory is still the caller's.
  virtual void enter(Context& /*context*/, CUdeviceptr /*address*/, Claim&& /*claim*/) {}
  // The pool; nullptr before the first request.
  virtual CUmemoryPool pool() const noexcept { return nullptr; }
  // The bytes that the pool holds and that no block is in.
  virtual std::uint64_t idle_pool_bytes() noexcept { return 0; }

  // A block that lies in no arena: only By::kPool has any.
  struct Block {
    CUdeviceptr address;
    std::uint64_t bytes;
    std::uint64_t id;  // no other block of this process has or had it
    Context* context;
    bool live;  // not freed, and its context has not ended
  };
  bool has_blocks_beside_arenas() const noexcept { return by == By::kPool; }
  // The block outside of arenas that contains the address.
  virtual std::optional<Block> find(CUdeviceptr /*address*/) const noexcept { return {}; }

  // The live block that contains the address, else the next live one above it. Looks at this
  // context's blocks; with By::kPool, at the blocks of all contexts.
  struct Extent {
    CUdeviceptr start;
    CUdeviceptr end;
  };
  virtual std::optional<Extent> find_live_from(Context& context,
                                               CUdeviceptr address) const noexcept = 0;

  // Called when the program has freed the live block that starts at `address`, and work may still
  // use it. The block is no longer live, and nobody is given its memory. False if no live block
  // starts there.
  struct Retired {
    arena::RetiredBlock block;  // the arena's, if `id` is 0; else only `bytes` of it is set
    CUdeviceptr address = 0;
    std::uint64_t id = 0;
  };
  virtual bool retire(Context& context, CUdeviceptr address, Retired& retired) noexcept = 0;
  // Called when the work that used the retired block is done: its memory may be given out again.
  virtual void reclaim(Context& context, const Retired& retired) noexcept = 0;
  // retire() and reclaim() in one step, for a live block that no work uses. Returns the driver's
  // answer, or CUDA_ERROR_INVALID_VALUE if no live block starts there.
  virtual CUresult free(Context& context, CUdeviceptr address) noexcept = 0;

  // What the context has, and what is left for it. How many frees may wait follows from this.
  virtual arena::Headroom headroom(const Context& context) const noexcept = 0;
  // The bytes that the context can have without growth once retired blocks are reclaimed.
  virtual std::uint64_t bytes_at_hand(const Context& context) noexcept = 0;
  // By how many bytes an arena can grow if `bytes` are free on the device.
  virtual std::uint64_t growth_in(std::uint64_t bytes) const noexcept { return bytes; }

  // Whether the driver leaves the blocks allocated when their context ends, so that free_all_of()
  // is needed.
  virtual bool frees_blocks_before_end() const noexcept { return false; }
  // Frees all blocks of the context. Called before the context ends, when its work is done.
  // Precondition: the context is current.
  virtual void free_all_of(const Context& /*context*/) noexcept {}
  // Called when the context has ended. Returns the memory that must still be given back to the
  // driver; nullptr if there is none.
  virtual std::unique_ptr<Leftovers> leave_behind(Context& context,
                                                  std::uint64_t context_id) noexcept = 0;

  // Whether the driver has IPC handles for its blocks.
  virtual bool is_shareable(const Context& context) const noexcept = 0;
  // Whether other devices can reach its blocks only if they were given access.
  virtual bool needs_access() const noexcept { return false; }
  // Lets that device reach all blocks, also those of later requests.
  virtual void give_access(CUdevice /*peer*/) noexcept {}

  // Gives unused memory outside of arenas back to the device: with `preallocated` all of it, else
  // all but what was preallocated in the pool. Returns the bytes given back.
  virtual std::uint64_t trim(bool /*preallocated*/) noexcept { return 0; }

  // A number that changes with each allocation and each free of a block outside of arenas.
  virtual std::uint64_t operations() const noexcept { return 0; }
};

// Makes the server of a new device. Process passes choose_server() of servers/servers.h: this room
// may not include that one.
using ChooseServer = std::unique_ptr<Server> (*)(const DriverFunctions&, const config::Policy&,
                                                 Device&);

}  // namespace cubfc
