// The ways in which a wrapper of an entry point gets its result: from cubfc; from the driver; from
// the driver, with a note taken of a success; or from the driver, called again when memory was
// found for it. Knows nothing of what any one entry point does.
#pragma once

#include <new>
#include <optional>

#include "shim/hook/routes.h"
#include "shim/limit/callers.h"
#include "shim/loader/no_cancellation.h"
#include "shim/process.h"
#include "shim/record/trace_recorder.h"
#include "shim/sleep/gates.h"
#include "shim/source/memory_sources.h"

namespace cubfc {

// In a wrapper: the return address of the program's call.
#define CUBFC_CALLER \
  ::cubfc::gates::caller_behind(__builtin_return_address(0), __builtin_dwarf_cfa())

// Calls the driver's function. CUDA_ERROR_NOT_FOUND when the program has loaded no driver, or this
// driver does not have the function.
template <typename... Args, typename... Given>
CUresult call(CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  const Driver* driver = Driver::find();
  if (driver == nullptr || driver->call().*function == nullptr) {
    return CUDA_ERROR_NOT_FOUND;
  }
  return (driver->call().*function)(args...);
}

// Returns `ours(process)`; CUDA_ERROR_OUT_OF_MEMORY when that throws std::bad_alloc. Instead calls
// the driver when cubfc stands aside, or when this driver does not have the function.
template <typename Ours, typename... Args, typename... Given>
CUresult answer(Ours ours, CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  Process* process = Process::active();
  if (process == nullptr || process->driver().*function == nullptr) {
    return call(function, args...);
  }
  const NoCancellation no_cancellation;
  try {
    return ours(*process);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;  // the host has no memory
  }
}

// As answer(), for a request for memory. `asking`: the return address of the program's call. The
// request counts for the object that `asking` lies in, and the trace gets the stack from there on.
// CUDA_ERROR_OUT_OF_MEMORY when no memory may be given at all (Process::refuses_memory()).
template <typename Ours, typename... Args, typename... Given>
CUresult answer_to(const void* asking, Ours ours, CUresult (*DriverFunctions::*function)(Args...),
                   Given... args) {
  if (Process::active() == nullptr && Process::refuses_memory()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return answer(
      [&](Process& process) {
        const Callers::Asking remembered(asking);
        if (TraceRecorder* const trace = process.trace(); trace != nullptr) {
          trace->capture_stack(asking);
        }
        return ours(process);
      },
      function, args...);
}

// Called when Frees::free_at_hand() has answered kFull: calls Frees::tidy(), with cancellation of
// the thread off.
CUresult tidy_frees(Process& process);

// Returns `result`, which a driver call has answered. If that is a success, calls note(process)
// first.
template <typename Note>
CUresult noted(CUresult result, Note note) {
  if (Process* process = Process::active(); process != nullptr && result == CUDA_SUCCESS) {
    const NoCancellation no_cancellation;
    try {
      note(*process);
    } catch (const std::bad_alloc&) {  // the note is lost; the program gets its result
    }
  }
  return result;
}

// Calls the driver, and note(process) after a success.
template <typename Note, typename... Args, typename... Given>
CUresult observe(Note note, CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  return noted(call(function, args...), note);
}

// Calls the driver's function. While the driver answers that it lacks memory, finds memory for it
// (MemorySources) and calls again. Returns the driver's last answer. `device`: the device whose
// memory is lacking; std::nullopt: the current context's device. Costs nothing as long as the first
// call succeeds.
template <typename... Args, typename... Given>
CUresult call_with_room_on(std::optional<CUdevice> device,
                           CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  const CUresult result = call(function, args...);
  Process* const process = result == CUDA_ERROR_OUT_OF_MEMORY ? Process::active() : nullptr;
  if (process == nullptr) {
    return result;
  }
  const NoCancellation no_cancellation;
  return process->sources().call_again_with_room(result, device,
                                                 [&] { return call(function, args...); });
}

template <typename... Args, typename... Given>
CUresult call_with_room(CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  return call_with_room_on(std::nullopt, function, args...);
}

}  // namespace cubfc
