// The driver that the program has loaded, as a table of its functions. Knows how to find the driver
// in the process.
#pragma once

#include "shim/driver/called_functions.h"
#include "shim/driver/entry_points.h"

namespace cubfc {

// The addresses of the driver's functions, as the driver exports them; nullptr for a function that
// this driver does not have. Tests fill in other functions.
struct DriverFunctions {
#define CUBFC_MEMBER(name, base, version, per_thread, parameters) \
  CUresult(*name) parameters = nullptr;
#define CUBFC_CALLED_MEMBER(name, parameters) CUresult(*name) parameters = nullptr;
  CUBFC_ENTRY_POINTS(CUBFC_MEMBER)
  CUBFC_CALLED_FUNCTIONS(CUBFC_CALLED_MEMBER)
#undef CUBFC_MEMBER
#undef CUBFC_CALLED_MEMBER
};

// What a driver call answered, for a message: "CUDA_ERROR_INVALID_VALUE".
const char* name_of(const DriverFunctions& driver, CUresult result) noexcept;

// Immutable. Thread-safe; has no lock, because find() is called from inside dlsym.
class Driver {
 public:
  // The driver that the program has loaded, or nullptr as long as it has loaded none: cubfc never
  // loads one itself, because the program's may come from elsewhere (forward-compatibility
  // packages). `handle`, if not nullptr, is a dlopen handle in which to look for it, too.
  static const Driver* find(void* handle = nullptr);

  const DriverFunctions& call() const { return functions_; }
  int version() const { return version_; }
  // The driver's own function of this name, as it exports it; nullptr if there is none.
  void* function_named(const char* name) const noexcept;

 private:
  explicit Driver(void* handle);

  void* const handle_;  // of dlopen; never closed
  DriverFunctions functions_;
  int version_ = 0;
};

}  // namespace cubfc
