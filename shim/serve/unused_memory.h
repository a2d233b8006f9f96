// Memory that is taken from a device and that no block needs: it goes back to the device for a
// request that would fail else, on demand, when the program is idle, and before a context ends.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "shim/device/context_end.h"

namespace cubfc {

class Captures;
class Contexts;
class WaitingFrees;
struct DriverFunctions;

// Thread-safe.
class UnusedMemory : private ContextListener {
 public:
  UnusedMemory(const DriverFunctions& driver, Contexts& contexts, Captures& captures,
               WaitingFrees& waiting);

  class Tries {  // one for each request, made before it is tried
   public:
    enum class Served : bool { kByTheDriver, kFromFreedBlocks };
    // A request for so many bytes; 0 when only the driver knows how many.
    Tries(const Device& device, std::uint64_t bytes, Served served);

   private:
    friend class UnusedMemory;
    const std::uint64_t bytes_;
    const Served served_;
    std::uint64_t releases_;               // of the device's budget, when the request was tried
    std::size_t reclaimed_ = 0;            // epochs of frees, likewise
    std::optional<std::uint64_t> newest_;  // epoch when it began
    bool frees_are_done_ = false;
    int others_left_ = 10;
    bool waits_for_others_ = true;
    int left_ = 1000;  // more would be for a reason that is not lack of memory
  };
  // For a request for memory of this device that has failed: does one of these, the first that
  // helps. Gives back what arenas and pools hold without a block in it, where that takes no wait;
  // sees that another thread has given something back since the request was tried, or is about to;
  // waits for what was freed, if the request can be served once all of that is free; gives back the
  // rest; synchronises the contexts, so that pools get back what is freed in stream order. False
  // when none helped. Call it again as long as it returns true and the request fails. While a
  // stream captures it waits for nothing that has no fence.
  bool make_room(Device& device, Tries& tries);

  // Calls the driver for what takes memory by itself (a context, a module, a graph): again as long
  // as it lacks memory of this device, of the current context's if none is named, and some is given
  // back. The driver's last answer.
  template <typename Call>
  CUresult call_with_room(std::optional<CUdevice> device, Call call) {
    return call_again_with_room(call(), device, call);
  }
  // The same when the driver has answered `result` already.
  template <typename Call>
  CUresult call_again_with_room(CUresult result, std::optional<CUdevice> device, Call call) {
    Device* const of = result == CUDA_ERROR_OUT_OF_MEMORY ? device_of(device) : nullptr;
    if (of != nullptr) {
      Tries tries(*of, 0, Tries::Served::kByTheDriver);
      while (result == CUDA_ERROR_OUT_OF_MEMORY && make_room(*of, tries)) {
        result = call();
      }
    }
    return result;
  }

  // Whether the limit holds for what the device's pools have reserved by now; they are trimmed for
  // it.
  bool make_limit_hold(Device& device);

  // Gives back what no block needs, of all devices: for cubfc_trim and IdleTrimmer. What was
  // preallocated stays unless `preallocated`. Skips a context that may be ending. Returns bytes.
  // Does not wait for the program's work (but see WaitingFrees::collect).
  std::uint64_t trim(bool preallocated) noexcept;

 private:
  // What a pool gave it does not go with it: given back, once its work is done.
  void context_will_end(Context& context) noexcept override;

  Device* device_of(std::optional<CUdevice> device) noexcept;
  bool drain_pools(Device& device);
  enum class Waits : bool { kNo, kYes };
  bool release(Device& device, Waits waits);
  bool is_idle(Context& context);
  bool wait_for_frees(const Device& device, Tries& tries);
  bool can_become_free(const Device& device, std::uint64_t bytes);
  bool others_have_helped(const Device& device, Tries& tries);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  Captures& captures_;
  WaitingFrees& waiting_;
};

}  // namespace cubfc
