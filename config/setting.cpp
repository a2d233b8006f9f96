#include "config/setting.h"

#include "config/values.h"

namespace cubfc::config {

std::string Origin::text() const {
  if (variable.empty()) {
    return "default";
  }
  // Of another project's value the words can differ from ours (inverted, MiB), so it is shown.
  return variable + (own_name ? "" : "=" + shown(value)) + (file.empty() ? "" : " in " + file) +
         (by.empty() ? "" : ", by " + shown(by));
}

}  // namespace cubfc::config
