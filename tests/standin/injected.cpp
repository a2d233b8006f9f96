// A library that the driver is to load (CUDA_INJECTION64_PATH). Says how often it was initialized;
// INJECTED_FAILS in the environment makes that fail.
#include <cstdlib>

namespace {
int initialized = 0;
}

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  ++initialized;
  return std::getenv("INJECTED_FAILS") == nullptr ? 1 : 0;
}

extern "C" __attribute__((visibility("default"))) int times_initialized() {
  return initialized;
}
