#include "shim/environment.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "shim/policy_on_disk.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// All code that runs in every process that inherits the preload, with CUDA or without, is in one
// section of the library (.text.startup), here and in other files. So such a process reads it with
// one page fault.

// Strings of the environment, the last one nullptr.
using Entries = char* const*;
constinit std::atomic<Entries> kept_entries{nullptr};
constexpr char* kNoEntries[] = {nullptr};

// Copies the strings that concern cubfc, and does no more: this runs in every process that inherits
// the preload, most of which never use CUDA. In a setuid program copies nothing: the user who runs
// it must not decide what it does. Strings for which the host has no memory are left out.
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

// The strings, copied at the first call. That may come before our own constructor runs, from
// another library's constructor.
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

namespace {

std::atomic<const config::Policy*> kept_policy{nullptr};

std::vector<std::string> strings_of(Entries all) {
  std::vector<std::string> strings;
  for (Entries entry = all; *entry != nullptr; ++entry) {
    strings.emplace_back(*entry);
  }
  return strings;
}

std::unique_ptr<const config::Policy> read_policy_of(const std::vector<std::string>& strings) {
  return std::make_unique<const config::Policy>(
      config::read_policy(config::Environment(strings), read_policy_file()));
}

}  // namespace

const config::Policy& policy_of_process() {
  const config::Policy* known = kept_policy.load(std::memory_order_acquire);
  if (known == nullptr) {
    // If several threads read the policy at once, the first one's is kept. There is no lock: a
    // child that is forked meanwhile would inherit it locked, and never get it.
    auto made = read_policy_of(strings_of(entries()));
    if (kept_policy.compare_exchange_strong(known, made.get())) {
      known = made.release();
    }
  }
  return *known;
}

bool set_limit_of_process(const char* limit) {
  constexpr std::string_view kName = "CUBFC_MEM_LIMIT=";
  std::vector<std::string> strings = strings_of(entries());
  std::erase_if(strings, [&](const std::string& entry) { return entry.starts_with(kName); });
  strings.push_back(std::string(kName) + limit);
  auto made = read_policy_of(strings);
  if (made->limit_unusable || made->mem_limit.value.empty()) {
    return false;
  }
  kept_policy.store(made.release(),
                    std::memory_order_release);  // the old one stays for its readers
  return true;
}

}  // namespace cubfc
