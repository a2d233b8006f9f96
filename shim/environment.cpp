#include "shim/environment.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "config/environment.h"

namespace cubfc {
namespace {

// Copies the strings and does no more: this runs in every process that inherits the preload, most
// of which never use CUDA.
const std::vector<std::string>& captured() {
  static const std::vector<std::string>& kept = *[] {
    auto* entries = new std::vector<std::string>;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      if (config::is_our_entry(*entry)) {
        entries->emplace_back(*entry);
      }
    }
    return entries;
  }();
  return kept;
}

__attribute__((constructor)) void capture_at_load() noexcept {
  try {
    captured();
  } catch (...) {  // without memory for a few strings the program has other worries
  }
}

}  // namespace

const config::Policy& policy_of_process() {
  static const config::Policy& kept =
      *new config::Policy(config::read_policy(config::Environment(captured())));
  return kept;
}

}  // namespace cubfc
