#include "config/setting.h"

#include "config/values.h"

namespace cubfc::config {

std::string Origin::text() const {
  if (variable.empty()) {
    return "default";
  }
  // A value under another project's name may mean something else than under ours (inverted, MiB),
  // so it is shown.
  return variable + (own_name ? "" : "=" + shown(value)) + (file.empty() ? "" : " in " + file) +
         (by.empty() ? "" : ", by " + shown(by));
}

}  // namespace cubfc::config
