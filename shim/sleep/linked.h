// Which of the two libraries this is. libcubfc_sleep.so exports all of the driver's functions that
// need a gate (linked_functions.h), so that calls of objects that are linked to the driver pass
// through gates, too. libcubfc.so exports only those that cubfc intercepts, and no program sleeps
// under it.
#pragma once

#include <cstdint>
#include <string_view>

namespace cubfc {

// The function that libcubfc_sleep.so exports under this name of the driver's; nullptr if there is
// none. libcubfc.so does not have it: its address is nullptr there (hook/gated_thunks.cpp).
__attribute__((weak, visibility("hidden"))) void* linked_thunk(std::string_view name) noexcept;

// What a function of the driver's needs, by its name without version (needed.cpp). libcubfc.so does
// not have this function either, so it need not load the list of names.
struct Needed {
  enum class What : std::uint8_t {
    kNothing,
    kGate,
    kGateAlways,  // which looks at the arguments of each call, because the call hands memory out
    kUnknown,     // it is newer than this cubfc
  };
  What what;
  std::string_view name;  // the same name, in static storage
  bool is_wide = false;   // it has arguments on the stack, or may have in one of its versions
};
__attribute__((weak, visibility("hidden"))) Needed needed_by(std::string_view base) noexcept;

inline bool is_sleep_library() noexcept {
  return &linked_thunk != nullptr;
}

}  // namespace cubfc
