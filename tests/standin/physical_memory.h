// Physical memory, for what maps it to addresses.
#pragma once

#include "state.h"

namespace standin {

// Bytes in a file, so that they can be mapped at any address, several times, and by other
// processes.
struct Physical {
  CUmemAllocationProp properties;
  std::size_t bytes;
  int fd;
  bool counted;  // by this process: not when it was imported
  unsigned references = 1;
  unsigned mappings = 0;
};

// The functions below want state().mutex held.

std::map<CUmemGenericAllocationHandle, Physical>& physical();

// Ends what has neither references nor mappings.
void EndPhysicalIfUnused(CUmemGenericAllocationHandle handle);

bool IsMultipleOfGranularity(std::size_t value);

}  // namespace standin
