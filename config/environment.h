// The variables that a program was started with, as far as they concern cubfc. Knows names of
// variables; knows nothing of what they mean, and never reads the process's environment itself: the
// loader copies the strings (see is_ours) and hands the copies in; tests pass strings of their own.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubfc::config {

/// The start of every name of our own.
inline constexpr std::string_view kOwnPrefix = "CUBFC_";

/// The process id of the program that `cubfc run` started. By it the library knows that it is in
/// that program, and says so at exit if the program has allocated nothing. Not an option.
inline constexpr std::string_view kRunVariable = "CUBFC_RUN_PID";

/// The names of other projects that are honoured: of JAX, XLA and TensorFlow, and those by which
/// HAMi, KAI, MPS and NVIDIA's container toolkit limit memory. The table of options (options.cpp)
/// says what each means; a static_assert there checks that the table has the same names.
inline constexpr std::array kHonouredNames = std::to_array<std::string_view>({
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "TF_GPU_ALLOCATOR",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "JAX_PREALLOCATION_SIZE_LIMIT_BYTES",
    "TF_DEVICE_MIN_SYS_MEMORY_IN_MB",
    "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC",
    "TF_FORCE_UNIFIED_MEMORY",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "GPU_MEMORY_LIMIT",
    "NVIDIA_GPU_MEMORY_LIMIT",
    "NVIDIA_GPU_MEMORY_REQUEST",
});

/// Names of other projects that say something of memory and have no meaning here: known_names.h
/// says of each why.
inline constexpr std::array kKnownNames = std::to_array<std::string_view>({
    "CUDA_DISABLE_CONTROL",
    "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB",
    "JAX_PJRT_CLIENT_CREATE_OPTIONS",
    "TF_GPU_HOST_MEM_LIMIT_IN_MB",
    "TF_CUDA_HOST_MEM_LIMIT_IN_MB",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
});

/// The start of names that are honoured with a device's number behind them.
inline constexpr std::string_view kNumberedPrefix = "CUDA_DEVICE_MEMORY_LIMIT_";

/// Whether a name with this first character may be one of ours.
constexpr bool may_begin_ours(char first) noexcept {
  switch (first) {
    case 'C':
    case 'G':
    case 'J':
    case 'N':
    case 'P':
    case 'T':
    case 'X':
      return true;
    default:
      return false;
  }
}

/// True for each name that begins with CUBFC_, and for the names above. Cheap enough to be asked
/// for every variable of every process that inherits the preload: most names are ruled out by their
/// first character. Never throws, allocates nothing, any thread.
constexpr bool is_ours(std::string_view name) noexcept {
  if (name.empty() || !may_begin_ours(name.front())) {
    return false;
  }
  if (name.starts_with(kOwnPrefix) || name.starts_with(kNumberedPrefix)) {
    return true;
  }
  for (const std::string_view honoured : kHonouredNames) {
    if (name == honoured) {
      return true;
    }
  }
  for (const std::string_view known : kKnownNames) {
    if (name == known) {
      return true;
    }
  }
  return false;
}

/// is_ours for a NUL-terminated "NAME=VALUE" as it stands in `environ`. The string is not read past
/// its name, and not past its first character when that rules it out. NULL is not ours.
constexpr bool is_our_entry(const char* entry) noexcept {
  if (entry == nullptr || !may_begin_ours(*entry)) {
    return false;
  }
  const char* end = entry;
  while (*end != '\0' && *end != '=') {
    ++end;
  }
  return is_ours(std::string_view(entry, static_cast<std::size_t>(end - entry)));
}

/// A copied list of variables. Immutable once made, so any thread may read it.
class Environment {
 public:
  Environment() = default;

  /// From "NAME=VALUE" strings; the value is what follows the first '='. A string without a name or
  /// without '=' is left out. Of two with one name the first counts, as for getenv.
  explicit Environment(std::span<const std::string> entries);
  Environment(std::initializer_list<std::string_view> entries);

  /// The value, as it was written, or nothing when the variable is not there. An empty value is a
  /// value here; that it means "unset" is the reader's rule. The view lives as long as this object.
  [[nodiscard]] std::optional<std::string_view> lookup(std::string_view name) const;

  /// Every name, in the order given, each once. The views live as long as this object.
  [[nodiscard]] std::vector<std::string_view> names() const;

 private:
  void add(std::string_view entry);

  std::vector<std::pair<std::string, std::string>> variables_;
};

}  // namespace cubfc::config
