// What memory pools keep of what is freed. All functions want state().mutex held.
#pragma once

#include "state.h"

namespace standin {

// The pool keeps the memory of an allocation that was given back, up to its release threshold.
void KeepFreed(const Allocation& allocation);

}  // namespace standin
