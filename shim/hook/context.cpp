// The wrappers of functions that make a context, end one, or take or give up a reference to one.
#include <optional>

#include "shim/device/contexts.h"
#include "shim/hook/calls.h"

namespace cubfc {
namespace {

// Calls the driver's function to end a context, or to give up a reference to one.
template <typename... Args, typename... Given>
CUresult end_context(const ContextEnd::Which& which, ContextEnd::Call what,
                     CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  const NoCancellation no_cancellation;
  std::optional<ContextEnd> end;
  if (Process* process = Process::active(); process != nullptr) {
    end.emplace(process->contexts(), which, what);
  }
  const CUresult result = call(function, args...);
  if (end) {
    end->answered(result);
  }
  return result;
}
constexpr auto kEndsIt = ContextEnd::Call::kEndsIt;
constexpr auto kGivesUpReference = ContextEnd::Call::kGivesUpReference;

// Calls the driver's function to make a context, or to hand out the primary one.
template <typename... Args, typename... Given>
CUresult create_context(CUcontext* context, CUdevice device,
                        CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  if (Process::active() == nullptr && Process::refuses_memory()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return noted(call_with_room_on(device, function, args...), [=](Process& process) {
    if (context != nullptr) {
      process.contexts().created(*context, device);
    }
  });
}

}  // namespace

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device) {
  return create_context(context, device, &Functions::cuCtxCreate, context, flags, device);
}

CUresult cubfc_cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create_context(context, device, &Functions::cuCtxCreate_v2, context, flags, device);
}

CUresult cubfc_cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                              unsigned flags, CUdevice device) {
  return create_context(context, device, &Functions::cuCtxCreate_v3, context, affinity, count,
                        flags, device);
}

CUresult cubfc_cuCtxCreate_v4(CUcontext* context, CreateParameters parameters, unsigned flags,
                              CUdevice device) {
  return create_context(context, device, &Functions::cuCtxCreate_v4, context, parameters, flags,
                        device);
}

CUresult cubfc_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return noted(
      create_context(context, device, &Functions::cuDevicePrimaryCtxRetain, context, device),
      [=](Process& process) { process.contexts().reference_taken(device); });
}

// From now on the work of the current context may use memory of the peer's device, so frees there
// must wait for that work, too.
CUresult cubfc_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  if (Process* process = Process::active(); process != nullptr) {
    const NoCancellation no_cancellation;
    try {
      process->contexts().peer_access_will_be_enabled(peer);
    } catch (const std::bad_alloc&) {
      return CUDA_ERROR_OUT_OF_MEMORY;  // the host has no memory
    }
  }
  return call(&Functions::cuCtxEnablePeerAccess, peer, flags);
}

CUresult cubfc_cuCtxDestroy(CUcontext context) {
  return end_context({context}, kEndsIt, &Functions::cuCtxDestroy, context);
}

CUresult cubfc_cuCtxDestroy_v2(CUcontext context) {
  return end_context({context}, kEndsIt, &Functions::cuCtxDestroy_v2, context);
}

CUresult cubfc_cuCtxDetach(CUcontext context) {
  return end_context({context}, kGivesUpReference, &Functions::cuCtxDetach, context);
}

CUresult cubfc_cuCtxAttach(CUcontext* context, unsigned flags) {
  return observe(
      [](Process& process) {
        if (Context* const current = process.contexts().current(); current != nullptr) {
          process.contexts().reference_taken(*current);
        }
      },
      &Functions::cuCtxAttach, context, flags);
}

// cuda.h, cuGreenCtxCreate: a green context retains the primary context until it is destroyed.
CUresult cubfc_cuGreenCtxCreate(GreenContext* context, ResourceDescription resources,
                                CUdevice device, unsigned flags) {
  return noted(
      call_with_room_on(device, &Functions::cuGreenCtxCreate, context, resources, device, flags),
      [=](Process& process) {
        process.contexts().greens().made(*context, device);  // if this throws, nothing is counted
        process.contexts().reference_taken(device);
      });
}

CUresult cubfc_cuGreenCtxDestroy(GreenContext context) {
  Process* const process = Process::active();
  const auto device =
      process == nullptr ? std::nullopt : process->contexts().greens().device_of(context);
  if (process != nullptr) {
    // From the driver's call on, another context may have this handle.
    process->contexts().greens().will_end(context);
  }
  return end_context({nullptr, device}, kGivesUpReference, &Functions::cuGreenCtxDestroy, context);
}

CUresult cubfc_cuCtxFromGreenCtx(CUcontext* context, GreenContext green) {
  return observe([&](Process& p) { p.contexts().turned_green(*context); },
                 &Functions::cuCtxFromGreenCtx, context, green);
}

// For such a stream cuStreamGetCtx returns the same context as cuCtxFromGreenCtx (cuda.h).
CUresult cubfc_cuGreenCtxStreamCreate(CUstream* stream, GreenContext green, unsigned flags,
                                      int priority) {
  return observe(
      [&](Process& p) {
        CUcontext context = nullptr;
        if (p.driver().cuStreamGetCtx(*stream, &context) == CUDA_SUCCESS) {
          p.contexts().turned_green(context);
        }
      },
      &Functions::cuGreenCtxStreamCreate, stream, green, flags, priority);
}

CUresult cubfc_cuDevicePrimaryCtxRelease(CUdevice device) {
  return end_context({nullptr, device}, kGivesUpReference, &Functions::cuDevicePrimaryCtxRelease,
                     device);
}

CUresult cubfc_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return end_context({nullptr, device}, kGivesUpReference, &Functions::cuDevicePrimaryCtxRelease_v2,
                     device);
}

CUresult cubfc_cuDevicePrimaryCtxReset(CUdevice device) {
  return end_context({nullptr, device}, kEndsIt, &Functions::cuDevicePrimaryCtxReset, device);
}

CUresult cubfc_cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return end_context({nullptr, device}, kEndsIt, &Functions::cuDevicePrimaryCtxReset_v2, device);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
