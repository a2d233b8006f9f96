#include "config/known_names.h"

#include <cstddef>

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

// Not a table: the dynamic linker would have to fill in its addresses in every process that is
// preloaded.
KnownName known_name(std::size_t number) noexcept {
  switch (number) {
    case 0:
      return {kKnownNames[0], "HAMi", &is_true,
              "switches off HAMi's library and not cubfc, which keeps the limit of "
              "CUDA_DEVICE_MEMORY_LIMIT; what switches cubfc off is CUBFC_DISABLE"};
    case 1:
      return {kKnownNames[1], "XLA", &names_fraction,
              "is a policy of XLA's own pool, which XLA applies itself; a limit of cubfc's is "
              "CUBFC_MEM_LIMIT"};
    case 2:
      return {kKnownNames[2], "JAX", &always, "is a part of JAX's own pool, for its collectives"};
    case 3:
      return {kKnownNames[3], "JAX", &always,
              "is for JAX's client, which applies it to what it asks for; cubfc reads "
              "XLA_CLIENT_MEM_FRACTION and its own names"};
    case 4:
      return {kKnownNames[4], "TensorFlow", &always,
              "limits memory of the host, which cubfc does not serve"};
    case 5:
      return {kKnownNames[5], "TensorFlow", &always,
              "limits memory of the host, which cubfc does not serve"};
    case 6:
      return {kKnownNames[6], "PyTorch", &names_fraction,
              "is kept by PyTorch's own cache; a limit that holds for all of the process is "
              "CUBFC_MEM_LIMIT"};
    case 7:
      return {kKnownNames[7], "PyTorch", &names_fraction,
              "is kept by PyTorch's own cache; a limit that holds for all of the process is "
              "CUBFC_MEM_LIMIT"};
    default:
      return {};
  }
}

}  // namespace

void for_each_known_name(const std::function<void(const KnownName&)>& look) {
  for (std::size_t i = 0; i < kKnownNames.size(); ++i) {
    look(known_name(i));
  }
}

std::string known_names_table() {
  std::string table =
      "| variable | whose | what it means here |\n"
      "|---|---|---|\n";
  for_each_known_name([&table](const KnownName& known) {
    table += "| `" + std::string(known.name) + "` | " + std::string(known.owner) + " | it " +
             std::string(known.meaning) + " |\n";
  });
  return table;
}

}  // namespace cubfc::config
