#include "shim/environment.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "config/environment.h"
#include "shim/policy_on_disk.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// What runs in every process that inherits the preload, CUDA or not, stands in one section of the
// library, here and in other files: reading it costs such a process one page fault.

// Strings of the environment, the last one nullptr.
using Entries = char* const*;
constinit std::atomic<Entries> kept_entries{nullptr};
constexpr char* kNoEntries[] = {nullptr};

// Copies the strings and does no more: this runs in every process that inherits the preload, most
// of which never use CUDA. Who runs a setuid program does not decide what is done in its name.
// Without memory for a few strings none is kept: the program has other worries.
[[gnu::section(".text.startup")]] Entries copy_entries() noexcept {
  char** const all = getauxval(AT_SECURE) != 0 ? nullptr : environ;
  std::size_t count = 0;
  for (char** entry = all; entry != nullptr && *entry != nullptr; ++entry) {
    count += config::is_our_entry(*entry) ? 1 : 0;
  }
  auto* const copies =
      count == 0 ? nullptr : static_cast<char**>(std::calloc(count + 1, sizeof(char*)));
  if (copies == nullptr) {
    return kNoEntries;
  }
  std::size_t copied = 0;
  for (char** entry = all; *entry != nullptr && copied < count; ++entry) {
    if (config::is_our_entry(*entry)) {
      copies[copied] = strdup(*entry);
      copied += copies[copied] != nullptr ? 1 : 0;
    }
  }
  return copies;
}

// Those of the first call. Another library's constructor may need them before ours has run.
[[gnu::section(".text.startup")]] Entries entries() noexcept {
  Entries known = kept_entries.load(std::memory_order_acquire);
  if (known == nullptr) {
    Entries const copies = copy_entries();
    known = kept_entries.compare_exchange_strong(known, copies) ? copies : known;
  }
  return known;
}

std::atomic<pid_t> loaded_in{0};

[[gnu::section(".text.startup")]] __attribute__((constructor)) void capture_at_load() noexcept {
  loaded_in.store(getpid(), std::memory_order_relaxed);
  log::at_load();
  entries();
}

}  // namespace

[[gnu::section(".text.startup")]] pid_t run_of_process() noexcept {
  for (Entries entry = entries(); *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, config::kRunVariable.data(), config::kRunVariable.size()) == 0 &&
        (*entry)[config::kRunVariable.size()] == '=') {
      return static_cast<pid_t>(std::atol(*entry + config::kRunVariable.size() + 1));
    }
  }
  return 0;
}

bool is_forked_process() noexcept {
  return loaded_in.load(std::memory_order_relaxed) != getpid();
}

[[gnu::section(".text.startup")]] bool is_process_of_run() noexcept {
  return run_of_process() == getpid();
}

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
    std::vector<std::string> strings;
    for (Entries entry = entries(); *entry != nullptr; ++entry) {
      strings.emplace_back(*entry);
    }
    auto made = std::make_unique<config::Policy>(
        config::read_policy(config::Environment(strings), read_policy_file()));
    if (kept.compare_exchange_strong(known, made.get())) {
      known = made.release();
    }
  }
  return *known;
}

}  // namespace cubfc
