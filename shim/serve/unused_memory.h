// Memory that is taken from a device and that no block needs: it goes back to the device for a
// request that would fail else, on demand, when the program is idle, and before a context ends.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "shim/device/context_end.h"

namespace cubfc {

class Captures;
class Contexts;
class Rendezvous;
class WaitingFrees;
struct DriverFunctions;

// Thread-safe.
class UnusedMemory : private ContextListener {
 public:
  UnusedMemory(const DriverFunctions& driver, Contexts& contexts, Captures& captures,
               WaitingFrees& waiting, Rendezvous& rendezvous);

  // What a request lacks when it fails.
  struct Need {
    std::uint64_t bytes = 0;   // 0: only the driver knows how many
    bool of_device = true;     // of the device's memory; else at most of the limit
    bool counted = false;      // by the limit
    bool from_blocks = false;  // freed blocks serve it; else their memory must go back first
  };
  class Tries {  // one for each request, made before it is tried
   public:
    Tries(const Device& device, const Need& need);
    // An arena would take so much at once for it.
    void growth_is(std::uint64_t bytes) { growth_ = bytes; }

   private:
    friend class UnusedMemory;
    const Need need_;
    std::uint64_t growth_ = 0;
    std::uint64_t releases_;               // of the device's budget, when the request was tried
    std::size_t reclaimed_ = 0;            // epochs of frees, likewise
    std::optional<std::uint64_t> newest_;  // epoch when it began
    bool frees_are_done_ = false;
    // Until when what others give back is waited for: they go on taking it.
    std::optional<std::chrono::steady_clock::time_point> others_until_;
    std::optional<std::chrono::steady_clock::time_point> ending_until_;
    bool waits_for_others_ = true;
    std::uint64_t from_others_ = 0;  // bytes that other processes have given up
    // Tries in a row that the driver refused although so much was free when it was asked.
    int refused_with_enough_ = 0;
    static constexpr int kMostRefusedWithEnough = 3;
    // Waits for frees left out. More would be for a reason that is not lack of memory.
    static constexpr int kMost = 1000;
    int tried_ = 0;
  };
  // For a request for memory of this device that has failed: does one of these, the first that
  // helps. What can be had at once comes first: gives up what is preallocated and not in use, then
  // what arenas and pools hold without a block in it, both no more than is lacking, and twice as
  // much each time that others have taken it; asks other processes that have a soft reserve, or for
  // a group's budget its members; sees
  // that another thread has given something back since the request was tried, or is about to. Then,
  // with Waits::kYes: waits for what was freed; gives back what that takes a wait for; synchronises
  // the contexts, so that pools get back what is freed in stream order; naps while the driver takes
  // back what a killed member of the group had, or another process gives back what it has as it
  // ends. False when none helped, and at once where all of that could not. Call it again as long as
  // it returns true and the request fails. While a stream captures it waits for nothing that has no
  // fence.
  enum class Waits : bool { kNo, kYes };
  bool make_room(Device& device, Tries& tries, Waits waits = Waits::kYes);

  // Before the driver allocates managed memory, which takes no memory of the device that is not
  // there: what is lacking is given up of what is preallocated, here and in other processes.
  void give_up_preallocated(Device& device, std::uint64_t bytes);

  // For SoftReserve, when another process asks for `wanted` bytes of the device: gives back `bytes`
  // of them, or all that can be had without a wait for work. Returns the bytes given back. And how
  // many it could be.
  std::uint64_t give_to_others(Device& device, std::uint64_t bytes, std::uint64_t wanted) noexcept;
  std::uint64_t bytes_for_others(Device& device) noexcept;

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
      Tries tries(*of, {});
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
  // What is preallocated goes with the last context of a device in which memory was asked for.
  void context_ended(std::uint64_t id) override;

  Device* device_of(std::optional<CUdevice> device) noexcept;
  bool drain_pools(Device& device);
  bool release(Device& device, std::uint64_t bytes, Waits waits);
  std::uint64_t release_of_arenas(Device& device, std::uint64_t bytes, Waits waits);
  bool is_released_at_once(Context& context);
  bool works(Context& context);
  bool ask_others(const Device& device, Tries& tries, std::optional<std::uint64_t> at_driver,
                  std::uint64_t bytes);
  std::uint64_t unknown_need(const Device& device, Tries& tries,
                             std::optional<std::uint64_t> at_driver);
  std::uint64_t keep_preallocated(Device& device, std::uint64_t released);
  bool is_idle(Context& context);
  bool wait_for_frees(const Device& device, Tries& tries);
  std::optional<std::uint64_t> free_at_driver(const Device& device);
  static std::uint64_t lacking(const Device& device, const Need& need,
                               std::optional<std::uint64_t> at_driver);
  bool can_become_free(const Device& device, const Need& need,
                       std::optional<std::uint64_t> at_driver);
  static bool is_patient(Tries& tries);
  bool others_have_helped(const Device& device, Tries& tries);
  bool comes_from_elsewhere(const Device& device, Tries& tries);
  static bool is_blind(const Need& need, std::optional<std::uint64_t> at_driver);
  static bool is_possible(const Device& device, const Need& need);
  static void nap(Tries& tries, std::chrono::milliseconds time);
  bool has_become_free(const Device& device, Tries& tries);
  bool comes_from_others(const Device& device, Tries& tries);
  bool comes_from_ending(const Device& device, Tries& tries);
  std::uint64_t left_with_group(const Device& device);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  Captures& captures_;
  WaitingFrees& waiting_;
  Rendezvous& rendezvous_;
};

}  // namespace cubfc
