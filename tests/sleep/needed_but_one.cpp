// In a libcubfc_sleep.so for ungated_test.py, in place of sleep/needed.cpp: one function that needs
// a gate gets none, the one that CUBFC_TEST_UNGATED names.
#include <cstdlib>

#define needed_by needed_by_all  // NOLINT(readability-identifier-naming)
#include "shim/sleep/needed.cpp"
#undef needed_by

namespace cubfc {

Needed needed_by(std::string_view base) noexcept {
  const char* const ungated = std::getenv("CUBFC_TEST_UNGATED");
  return ungated != nullptr && base == ungated ? Needed{Needed::What::kNothing, {}}
                                               : needed_by_all(base);
}

}  // namespace cubfc
