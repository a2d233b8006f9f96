#include "cli/fit/gpus.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "cli/failure.h"
#include "config/values.h"

namespace cubfc::cli::fit {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Row {
  const char* name;
  const char* device_name;
  int capability;
  int multiprocessors;
  int threads;
  std::uint64_t bytes;
  std::uint64_t context_mib;
  bool context_was_seen;
  bool is_usual;
  const char* source;
};

constexpr Row kGpus[] = {
#define GPU(...) {__VA_ARGS__},
#include "cli/fit/gpus.inc"
#undef GPU
};

struct Slice {
  const char* gpu;
  const char* profile;
  int multiprocessors;
  std::uint64_t mib;
};

constexpr Slice kSlices[] = {
#define MIG(...) {__VA_ARGS__},
#include "cli/fit/mig.inc"
#undef MIG
};

Gpu gpu_of(const Row& row) {
  return {row.name,  row.device_name,        row.capability,       row.multiprocessors, row.threads,
          row.bytes, row.context_mib * kMiB, row.context_was_seen, row.source};
}

// The name for comparisons: letters and digits alone, in lower case, without words that many names
// of NVIDIA's have.
std::string key_of(std::string_view name) {
  std::string key;
  for (const char letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  for (const std::string_view word : {"nvidia", "geforce", "rtx", "tesla"}) {
    if (const std::size_t at = key.find(word); at != std::string::npos) {
      key.erase(at, word.size());
    }
  }
  return key;
}

std::vector<Gpu> sorted(std::vector<Gpu> gpus) {
  std::ranges::stable_sort(gpus, {}, &Gpu::total_bytes);
  return gpus;
}

std::string names_of(const std::vector<Gpu>& gpus) {
  std::string names;
  for (const Gpu& gpu : gpus) {
    names += (names.empty() ? "" : ", ") + gpu.name;
  }
  return names;
}

[[noreturn]] void refuse_name(std::string_view text, const std::vector<Gpu>& those) {
  refuse("fit: --gpu " + config::quoted(std::string(text)) +
         (those.empty() ? " is no GPU that is known, and no size such as 24GiB; known are "
                        : " is one of these: ") +
         names_of(those.empty() ? all_gpus() : those));
}

const Row& find_row(std::string_view text, std::string_view name) {
  const std::string key = key_of(name);
  std::vector<Gpu> those;
  const Row* begins = nullptr;
  for (const Row& row : kGpus) {
    if (key_of(row.name) == key || key_of(row.device_name) == key) {
      return row;
    }
    if (!key.empty() && key_of(row.name).starts_with(key)) {
      begins = &row;
      those.push_back(gpu_of(row));
    }
  }
  if (those.size() != 1) {
    refuse_name(text, those);
  }
  return *begins;
}

}  // namespace

std::vector<Gpu> all_gpus() {
  std::vector<Gpu> gpus;
  for (const Row& row : kGpus) {
    gpus.push_back(gpu_of(row));
  }
  return sorted(gpus);
}

std::vector<Gpu> usual_gpus() {
  std::vector<Gpu> gpus;
  for (const Row& row : kGpus) {
    if (row.is_usual) {
      gpus.push_back(gpu_of(row));
    }
  }
  return sorted(gpus);
}

Gpu find_gpu(std::string_view text) {
  // A number alone, such as "4090", is a name and no size.
  const bool is_number =
      std::ranges::all_of(text, [](unsigned char letter) { return std::isdigit(letter) != 0; });
  if (const std::optional<std::uint64_t> size = config::read_size(text);
      size && *size > 0 && !is_number) {
    Gpu gpu = gpu_of(find_row(text, "A100-80GB"));
    gpu.name = text;
    gpu.total_bytes = *size;
    return gpu;
  }
  const std::size_t colon = text.find(':');
  Gpu gpu = gpu_of(find_row(text, text.substr(0, colon)));
  if (colon == std::string_view::npos) {
    return gpu;
  }
  const std::string_view profile = text.substr(colon + 1);
  std::string profiles;
  for (const Slice& slice : kSlices) {
    if (gpu.name != slice.gpu) {
      continue;
    }
    if (profile == slice.profile) {
      // A slice has a part of the multiprocessors, and is taken to have the same part of the
      // context.
      gpu.context_bytes = gpu.context_bytes * static_cast<std::uint64_t>(slice.multiprocessors) /
                          static_cast<std::uint64_t>(gpu.multiprocessors);
      gpu.context_was_seen = false;
      gpu.name += ':' + std::string(profile);
      gpu.multiprocessors = slice.multiprocessors;
      gpu.total_bytes = slice.mib * kMiB;
      return gpu;
    }
    profiles += (profiles.empty() ? "" : ", ") + std::string(slice.profile);
  }
  refuse("fit: --gpu " + config::quoted(std::string(text)) + ": " +
         (profiles.empty() ? gpu.name + " has no slices that are known"
                           : "the slices of " + gpu.name + " are " + profiles));
}

}  // namespace cubfc::cli::fit
