#include "arena/results.h"

namespace cubfc::arena {

const char* describe(Failure failure) {
  switch (failure) {
    case Failure::kNone:
      return "none";
    case Failure::kOverLimit:
      return "over the limit";
    case Failure::kFragmented:
      return "fragmentation: enough is free, not in one piece";
    case Failure::kExhausted:
      return "device full";
    case Failure::kTooLarge:
      return "larger than the device, or than the limit";
    case Failure::kSourceError:
      return "the driver failed";
    case Failure::kHostMemory:
      return "the host has no memory";
  }
  return "unknown";
}

}  // namespace cubfc::arena
