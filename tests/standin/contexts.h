// The life of contexts. All functions want state().mutex held.
#pragma once

#include "state.h"

namespace standin {

// Null where the device lacks what a context takes of it (STANDIN_CONTEXT).
std::shared_ptr<Context> NewContext(int device, unsigned flags, CUcontext handle);

// Whether cuda.h has them, and they name one way to wait at most.
bool AreContextFlags(unsigned flags);

// What a green context holds of the device's primary context.
CUresult RetainPrimary(CUdevice device, Context*& out);
CUresult ReleasePrimary(Lock& lock, CUdevice device);

// Waits for the context's work and frees all that it owns.
void DestroyContext(Lock& lock, std::shared_ptr<Context> context);

}  // namespace standin
