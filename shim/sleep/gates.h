// Gates: functions that a program with CUBFC_SLEEP gets in place of the driver's functions that
// need its memory at its addresses (driver/memory_contents.h). A call passes through its
// gate to the driver's function, or to cubfc's wrapper of that function. While the program's memory
// is away, each gate stops its calls and asks the Sleeper to bring the memory back first.
//
// A gate is a few instructions (gates.S): it counts the call in the thread's cell, calls the
// function, and takes the call off again. Whoever takes memory away first stops the gates, and then
// waits until no thread's cell counts a call (threads_in_calls.h). A thread either has counted its
// call before, or meets the stopped gate. There are no gates without CUBFC_SLEEP.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cubfc::gates {

// What each thread has: how many calls through gates it is in. More than one if a tool that hooks
// the driver calls the driver from inside a call. Other threads read it by the address that
// threads_in_calls.h computes; `magic` tells them that they have found a cell.
struct Cell {
  std::uint64_t magic;
  std::int32_t calls;
};
inline constexpr std::uint64_t kMagic = 0x6c6c6563'63666275;
Cell& own_cell() noexcept;

// A call that a stopped gate has not let through yet. `arguments`: the first six, as integers. If
// the function has fewer, the rest mean nothing.
struct Call {
  std::string_view function;  // without version: "cuMemcpyDtoH". A literal
  bool hands_out;             // one of memory_contents::kHandsOut
  std::array<std::uintptr_t, 6> arguments;
};

// Who decides about calls at stopped gates: the Sleeper. at_gate() is called on the program's
// thread, whose cell counts the call already. CUDA_SUCCESS: the call goes on; any other result is
// what the program gets instead. A thread that is cancelled may be unwound through here.
class Keeper {
 public:
  virtual ~Keeper() = default;
  virtual CUresult at_gate(const Call& call) = 0;
};
// Called once, by the Sleeper. Until then stopped gates let all calls through.
void set_keeper(Keeper* keeper) noexcept;

// The gate in front of this function, which the driver has under this name ("cuMemcpyDtoH_v2"), or
// which cubfc has in its place. The function itself if the name is not one that needs a gate, or
// when all gates are in use. Called when the program looks the function up; takes no lock.
// Precondition: is_sleep_library().
void* in_front_of(std::string_view name, void* function) noexcept;

// The return address of the program's call, for a function that a gate may have called. That
// function passes its own return address, and its canonical frame address. If the return address
// lies in a gate, the program's is read from the gate's frame (gates.S).
inline const void* caller_behind(const void* return_address, const void* frame) noexcept;

// stop(): from now on each call that comes to a gate is stopped. When this returns, every other
// thread meets stopped gates from its next call on, or its cell counts a call. Returns false, and
// has stopped nothing, where the kernel has no membarrier(2). open(): calls pass again. Both by one
// thread at a time.
bool stop() noexcept;
void open() noexcept;
// When this returns true, each other thread has passed a full memory barrier since the call. False
// where the kernel has no membarrier(2).
bool synchronize_threads() noexcept;
// Has each gate stop the next call that comes to it, and only that call: so the Sleeper learns
// whether the program does anything at all.
void stop_next_call() noexcept;

// The first function that the program has got without a gate, though it needs one, or may need one
// because it is newer than this cubfc: by the name that the program has asked for. Empty if there
// is none. If there is one, memory must not be taken away.
std::string_view ungated_function() noexcept;

extern "C" {
__attribute__((visibility("hidden"))) extern const char cubfc_gates[];
__attribute__((visibility("hidden"))) extern const char cubfc_wide_gates[];
__attribute__((visibility("hidden"))) extern const char cubfc_gates_end[];
}

inline const void* caller_behind(const void* return_address, const void* frame) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(return_address);
  if (at < reinterpret_cast<std::uintptr_t>(cubfc_gates) ||
      at >= reinterpret_cast<std::uintptr_t>(cubfc_gates_end)) [[likely]] {
    return return_address;
  }
  // What the gate has on the stack before the return address. A wide gate: copies of five
  // arguments; on aarch64 three of them, a gap, and x29. A narrow one: a gap; on aarch64 x29.
  const bool is_wide = at >= reinterpret_cast<std::uintptr_t>(cubfc_wide_gates);
  return static_cast<const void* const*>(frame)[is_wide ? 5 : 1];
}

}  // namespace cubfc::gates
