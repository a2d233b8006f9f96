// Who serves a device's requests for memory as cuMemAlloc gets them. Each device has one, chosen
// when the device becomes known, by CUBFC_ALLOCATOR and by what the device can; nobody else asks
// which it is. To add an allocator: another class in serve/servers.cpp, and a line in its
// choose_server().
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

// Thread-safe. Of the contexts that are passed to it all are of its device.
class Server {
 public:
  // What is in force, as CUBFC_ALLOCATOR names it.
  virtual config::Allocator allocator() const noexcept = 0;
  // For the log; nullptr for an arena, which says what it has.
  virtual const char* description() const noexcept { return nullptr; }

  // What the arena of a new context takes its memory from.
  virtual std::unique_ptr<RegionSource> make_source() = 0;

  // How a request is served: from the context's arena; each as a block of its own, claimed from
  // the limit; or as if cubfc were not there, but counted.
  enum class By : std::uint8_t { kArena, kClaims, kDriver };
  const By by;
  explicit Server(By how) : by(how) {}
  virtual ~Server() = default;

  // Of a server by claims: makes what is missing for the context, which is current, to allocate;
  // the driver's answer to a request; gives that back at once; enters it (throws std::bad_alloc:
  // the claim is gone then, the memory is the caller's still); notes that one failed.
  virtual CUresult prepare(Context& context) noexcept;
  virtual CUresult obtain(Context& context, CUdeviceptr* address, std::size_t bytes) noexcept;
  virtual void undo(CUdeviceptr /*address*/) noexcept {}
  virtual void enter(Context& /*context*/, CUdeviceptr /*address*/, Claim&& /*claim*/) {}
  virtual void failed() noexcept {}
  virtual CUmemoryPool pool() const noexcept { return nullptr; }

  // A block that lies in no arena.
  struct Block {
    CUdeviceptr address;
    std::uint64_t bytes;
    std::uint64_t id;  // no other block of this process has or had it
    Context* context;
    bool live;  // not freed, and its context has not ended
  };
  bool has_blocks_beside_arenas() const noexcept { return by == By::kClaims; }
  virtual std::optional<Block> find(CUdeviceptr /*address*/) const noexcept { return {}; }

  // The live block that contains the address, else the next one.
  struct Extent {
    CUdeviceptr start;
    CUdeviceptr end;
  };
  virtual std::optional<Extent> find_live_from(Context& context,
                                               CUdeviceptr address) const noexcept = 0;

  // A live block that starts there is taken from the program: nothing finds it any more. False if
  // there is none.
  struct Retired {
    arena::RetiredBlock block;  // of the arena, if `id` is 0; else only its bytes
    CUdeviceptr address = 0;
    std::uint64_t id = 0;
  };
  virtual bool retire(Context& context, CUdeviceptr address, Retired& retired) noexcept = 0;
  // What work used it is done.
  virtual void reclaim(Context& context, const Retired& retired) noexcept = 0;
  // Both for a live block: the driver's answer, or CUDA_ERROR_INVALID_VALUE.
  virtual CUresult free(Context& context, CUdeviceptr address) noexcept = 0;

  virtual arena::Room room(const Context& context) const noexcept = 0;
  // Bytes that the context can have without growth, once what waits is free.
  virtual std::uint64_t bytes_at_hand(const Context& context) noexcept = 0;
  // Of so much that is free on the device, what can be had by growth.
  virtual std::uint64_t growth_in(std::uint64_t bytes) const noexcept { return bytes; }

  // A context's end. Whether its blocks go with it; gives them back before, when its work is done;
  // what does not go with it, after.
  virtual bool blocks_go_with_context() const noexcept { return true; }
  virtual void free_all_of(const Context& /*context*/) noexcept {}
  virtual std::unique_ptr<Leftovers> leave_behind(Context& context,
                                                  std::uint64_t context_id) noexcept = 0;

  // Whether the driver has IPC handles for its blocks.
  virtual bool is_shareable(const Context& context) const noexcept = 0;
  // Whether other devices reach its blocks only where they were given access; and that they are.
  virtual bool needs_access() const noexcept { return false; }
  virtual void give_access(CUdevice /*peer*/) noexcept {}

  // Gives back what is not used beside arenas, but for what it was warmed with unless that is to
  // go, too. Returns the bytes.
  virtual std::uint64_t trim(bool /*preallocated*/) noexcept { return 0; }

  // Of what it serves beside arenas; nothing where it does not.
  struct Stats {
    std::uint64_t num_allocs = 0;
    std::uint64_t num_failures = 0;
    std::uint64_t peak_bytes_in_use = 0;
    std::uint64_t operations = 0;  // another number after each allocation and each free
  };
  virtual std::optional<Stats> stats() const noexcept { return {}; }
};

// Makes the server of a new device (choose_server() in serve/servers.h; tests pass others).
using ChooseServer = std::unique_ptr<Server> (*)(const DriverFunctions&, const config::Policy&,
                                                 Device&);

}  // namespace cubfc
