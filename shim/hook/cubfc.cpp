// What a program may ask of cubfc: cubfc.h.
#include "shim/cubfc.h"

#include "shim/hook/no_cancellation.h"
#include "shim/process.h"
#include "shim/serve/unused_memory.h"

extern "C" {

__attribute__((visibility("default"))) unsigned long long cubfc_trim(unsigned flags) {
  cubfc::Process* process = cubfc::Process::active();
  const cubfc::NoCancellation no_cancellation;
  const bool preallocated = (flags & CUBFC_TRIM_PREALLOCATED) != 0;
  return process == nullptr ? 0 : process->unused().trim(preallocated);
}

}  // extern "C"
