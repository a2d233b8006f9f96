#include "shim/environment.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "config/environment.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// Copies the strings and does no more: this runs in every process that inherits the preload, most
// of which never use CUDA.
const std::vector<std::string>& captured() {
  static const std::vector<std::string>& kept = *[] {
    auto* entries = new std::vector<std::string>;
    // Who runs a setuid program does not decide what is done in its name.
    const bool secure = getauxval(AT_SECURE) != 0;
    for (char** entry = secure ? nullptr : environ; entry != nullptr && *entry != nullptr;
         ++entry) {
      if (config::is_our_entry(*entry)) {
        entries->emplace_back(*entry);
      }
    }
    return entries;
  }();
  return kept;
}

__attribute__((constructor)) void capture_at_load() noexcept {
  log::at_load();
  try {
    captured();
  } catch (...) {  // without memory for a few strings the program has other worries
  }
}

}  // namespace

const char* watching_tool() noexcept {
  for (const char* variable : {"CUDA_INJECTION64_PATH", "NV_SANITIZER_INJECTION_PORT_BASE",
                               "NV_COMPUTE_PROFILER_PERFWORKS_DIR"}) {
    if (secure_getenv(variable) != nullptr) {
      return variable;
    }
  }
  return nullptr;
}

const config::Policy& policy_of_process() {
  static std::atomic<const config::Policy*> kept{nullptr};
  const config::Policy* known = kept.load(std::memory_order_acquire);
  if (known == nullptr) {
    // Of several threads that read it, the first one's is kept. No lock: a child that is forked
    // meanwhile would inherit it, with nobody to let it go.
    auto made =
        std::make_unique<config::Policy>(config::read_policy(config::Environment(captured())));
    if (kept.compare_exchange_strong(known, made.get())) {
      known = made.release();
    }
  }
  return *known;
}

}  // namespace cubfc
