#include "config/known_names.h"

#include <array>

#include "config/environment.h"
#include "config/values.h"

namespace cubfc::config {
namespace {

bool always(std::string_view /*text*/) {
  return true;
}

bool is_true(std::string_view text) {
  return read_boolean(text).value_or(true);
}

bool names_fraction(std::string_view text) {
  return text.find("memory_fraction") != std::string_view::npos;
}

constexpr std::array kNames = std::to_array<KnownName>({
    {"CUDA_DISABLE_CONTROL", "HAMi", is_true,
     "switches off HAMi's library and not cubfc, which keeps the limit of "
     "CUDA_DEVICE_MEMORY_LIMIT; what switches cubfc off is CUBFC_DISABLE"},
    {"XLA_FLAGS", "XLA", names_fraction,
     "is a policy of XLA's own pool, which XLA applies itself; a limit of cubfc's is "
     "CUBFC_MEM_LIMIT"},
    {"XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "JAX", always,
     "is a part of JAX's own pool, for its collectives"},
    {"JAX_PJRT_CLIENT_CREATE_OPTIONS", "JAX", always,
     "is for JAX's client, which applies it to what it asks for; cubfc reads "
     "XLA_CLIENT_MEM_FRACTION and its own names"},
    {"TF_GPU_HOST_MEM_LIMIT_IN_MB", "TensorFlow", always,
     "limits memory of the host, which cubfc does not serve"},
    {"TF_CUDA_HOST_MEM_LIMIT_IN_MB", "TensorFlow", always,
     "limits memory of the host, which cubfc does not serve"},
    {"PYTORCH_CUDA_ALLOC_CONF", "PyTorch", names_fraction,
     "is kept by PyTorch's own cache; a limit that holds for all of the process is "
     "CUBFC_MEM_LIMIT"},
    {"PYTORCH_ALLOC_CONF", "PyTorch", names_fraction,
     "is kept by PyTorch's own cache; a limit that holds for all of the process is "
     "CUBFC_MEM_LIMIT"},
});

constexpr bool known_names_agree() {
  if (kNames.size() != kKnownNames.size()) {
    return false;
  }
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i).name != kKnownNames.at(i)) {
      return false;
    }
  }
  return true;
}
static_assert(known_names_agree(), "kKnownNames must list these names");

}  // namespace

std::span<const KnownName> known_names() noexcept {
  return kNames;
}

std::string known_names_table() {
  std::string table =
      "| variable | whose | what it means here |\n"
      "|---|---|---|\n";
  for (const KnownName& known : kNames) {
    table += "| `" + std::string(known.name) + "` | " + std::string(known.owner) + " | it " +
             std::string(known.meaning) + " |\n";
  }
  return table;
}

}  // namespace cubfc::config
