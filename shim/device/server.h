// Who serves a device's requests for memory as cuMemAlloc gives them. Each device has one Server,
// chosen when the device becomes known, by CUBFC_ALLOCATOR and by what the device can do; whoever
// wants to know something about its blocks asks it.
//
// To add an allocator: its word in config/ (choices.h, choices.cpp, option_readers.cpp, and then
// the table in docs/options.md); a RegionSource, if an arena is to take its memory from elsewhere;
// a class and a case in servers/servers.cpp; new files in CMakeLists.txt; the lists of allocators
// in tests/ and scripts/. One that is no arena also needs a Memory (limit/device_limit.h), and a
// look at all who ask `by`.
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

// Thread-safe. Every context that is passed to it is of its device. An answer of the driver's is
// CUDA_SUCCESS or its error.
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

  // What is in force, as CUBFC_ALLOCATOR names it.
  virtual config::Allocator allocator() const noexcept = 0;
  // For the log; nullptr for an arena, which says what it has.
  virtual const char* description() const noexcept { return nullptr; }

  // What the arena of a new context takes its memory from. Throws std::bad_alloc.
  virtual std::unique_ptr<RegionSource> make_source() = 0;

  // Only of By::kPool, in the order of a request.
  // Makes what the context, which is current, needs for allocating. The driver's answer.
  virtual CUresult prepare(Context& /*context*/) noexcept { return CUDA_ERROR_NOT_SUPPORTED; }
  // Takes memory from the pool. The driver's answer.
  virtual CUresult obtain(Context& /*context*/, CUdeviceptr* /*address*/,
                          std::size_t /*bytes*/) noexcept {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  // Gives back at once what obtain() got.
  virtual void undo(CUdeviceptr /*address*/) noexcept {}
  // Makes what obtain() got a live block. Throws std::bad_alloc: the claim is gone then, and the
  // memory is still the caller's.
  virtual void enter(Context& /*context*/, CUdeviceptr /*address*/, Claim&& /*claim*/) {}
  // nullptr before the first request.
  virtual CUmemoryPool pool() const noexcept { return nullptr; }
  // Of what the pool holds, what no block is in.
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
  // The one that contains the address.
  virtual std::optional<Block> find(CUdeviceptr /*address*/) const noexcept { return {}; }

  // The live block that contains the address, else the next one above it: of this context, or of
  // any if blocks are a pool's.
  struct Extent {
    CUdeviceptr start;
    CUdeviceptr end;
  };
  virtual std::optional<Extent> find_live_from(Context& context,
                                               CUdeviceptr address) const noexcept = 0;

  // Takes the live block that starts there from the program, which has freed it: nothing finds it
  // any more, and nobody is given its memory. False if there is none.
  struct Retired {
    arena::RetiredBlock block;  // of the arena, if `id` is 0; else only its bytes
    CUdeviceptr address = 0;
    std::uint64_t id = 0;
  };
  virtual bool retire(Context& context, CUdeviceptr address, Retired& retired) noexcept = 0;
  // A retired block can be given to others: what work used it is done.
  virtual void reclaim(Context& context, const Retired& retired) noexcept = 0;
  // Both in one step, for a live block that no work uses. The driver's answer, or
  // CUDA_ERROR_INVALID_VALUE if no live block starts there.
  virtual CUresult free(Context& context, CUdeviceptr address) noexcept = 0;

  // In bytes: in use at most, free, retired, left to grow. How many frees may wait follows from it.
  virtual arena::Headroom headroom(const Context& context) const noexcept = 0;
  // Bytes that the context can have without growth once retired blocks are reclaimed.
  virtual std::uint64_t bytes_at_hand(const Context& context) noexcept = 0;
  // Of so many bytes that are free on the device, how many growth can take.
  virtual std::uint64_t growth_in(std::uint64_t bytes) const noexcept { return bytes; }

  // Whether the driver leaves the blocks allocated when their context ends.
  virtual bool frees_blocks_before_end() const noexcept { return false; }
  // Frees them. Called before the context ends, in it, when its work is done.
  virtual void free_all_of(const Context& /*context*/) noexcept {}
  // The context has ended: what is left to be given back to the driver; nullptr if nothing is.
  virtual std::unique_ptr<Leftovers> leave_behind(Context& context,
                                                  std::uint64_t context_id) noexcept = 0;

  // Whether the driver has IPC handles for its blocks.
  virtual bool is_shareable(const Context& context) const noexcept = 0;
  // Whether other devices reach its blocks only where they were given access.
  virtual bool needs_access() const noexcept { return false; }
  // That device is to reach all blocks, those to come, too.
  virtual void give_access(CUdevice /*peer*/) noexcept {}

  // Gives back what is not used beside arenas, but for what it was warmed with unless
  // `preallocated`. Returns bytes.
  virtual std::uint64_t trim(bool /*preallocated*/) noexcept { return 0; }

  // Another number after each allocation and each free of a block beside arenas.
  virtual std::uint64_t operations() const noexcept { return 0; }
};

// Makes the server of a new device Process passes choose_server() of servers/servers.h: this room
// may not include that one.
using ChooseServer = std::unique_ptr<Server> (*)(const DriverFunctions&, const config::Policy&,
                                                 Device&);

}  // namespace cubfc
