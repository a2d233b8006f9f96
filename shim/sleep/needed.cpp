// Which functions of the driver's need a gate: by the lists of driver/memory_contents.h. Only in
// libcubfc_sleep.so.
#include <algorithm>

#include "shim/driver/memory_contents.h"
#include "shim/sleep/linked.h"

namespace cubfc {
namespace {

using What = Needed::What;

template <typename Names>
bool find_in(const Names& list, std::string_view base, What what, Needed& needed) noexcept {
  const auto* const found = std::lower_bound(list.begin(), list.end(), base);
  if (found == list.end() || *found != base) {
    return false;
  }
  needed = {what, *found, false};
  return true;
}

}  // namespace

Needed needed_by(std::string_view base) noexcept {
  namespace lists = memory_contents;
  Needed needed{What::kUnknown, {}};
  find_in(lists::kUses, base, What::kGate, needed) ||
      find_in(lists::kNeedsMapped, base, What::kGate, needed) ||
      find_in(lists::kHandsOut, base, What::kGateAlways, needed) ||
      find_in(lists::kNone, base, What::kNothing, needed);
  needed.is_wide = std::binary_search(lists::kMoreThanSixParameters.begin(),
                                      lists::kMoreThanSixParameters.end(), base);
  return needed;
}

}  // namespace cubfc
