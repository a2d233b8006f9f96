#include "cli/check/count_gpus.h"

#include "cli/check/findings.h"

namespace cubfc::cli::check {

unsigned count_gpus_of_driver() {
  constexpr std::chrono::seconds kPatience{30};
  const auto told =
      ask_child({"check", "--child=count"}, {{"CUBFC_DISABLE", "1"}, {"LD_PRELOAD", ""}},
                Errors::kCatch, kPatience);
  return told.contains("count") ? told["count"].get<unsigned>() : 0;
}

}  // namespace cubfc::cli::check
