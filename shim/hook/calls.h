// How an entry point gets its answer: from the driver, from us, from the driver with a note taken,
// or from the driver with memory made free for it. Knows nothing of what any one of them does.
#pragma once

#include <new>
#include <optional>

#include "shim/hook/no_cancellation.h"
#include "shim/hook/routes.h"
#include "shim/limit/callers.h"
#include "shim/process.h"
#include "shim/record/trace_recorder.h"
#include "shim/source/memory_sources.h"

namespace cubfc {

// Calls the driver's function; one that this driver does not have is not found.
template <typename... Args, typename... Given>
CUresult call(CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  const Driver* driver = Driver::find();
  if (driver == nullptr || driver->call().*function == nullptr) {
    return CUDA_ERROR_NOT_FOUND;
  }
  return (driver->call().*function)(args...);
}

// Our answer, from `ours(process)`; the driver's when cubfc stands aside, or where the driver lacks
// the function. Without host memory: CUDA_ERROR_OUT_OF_MEMORY.
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
    return CUDA_ERROR_OUT_OF_MEMORY;  // of the host
  }
}

// The same for a request for memory, made by the code at this return address.
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

// After a free that asks for it.
CUresult tidy_frees(Process& process);

// Returns `result`, a driver call's. After a success calls note(process) first.
template <typename Note>
CUresult noted(CUresult result, Note note) {
  if (Process* process = Process::active(); process != nullptr && result == CUDA_SUCCESS) {
    const NoCancellation no_cancellation;
    try {
      note(*process);
    } catch (const std::bad_alloc&) {  // what is lost is a note, not the program's result
    }
  }
  return result;
}

// Calls the driver, and note(process) after a success.
template <typename Note, typename... Args, typename... Given>
CUresult observe(Note note, CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  return noted(call(function, args...), note);
}

// The driver's answer; where it lacks memory of the device, or of the current context's, the one
// that it has when arenas have given some back. Costs nothing as long as there is memory.
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
