// How the answer is told: a text for people, JSON for scripts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/fit/answer.h"

namespace cubfc::cli::fit {

// Lines of at most 80 columns.
std::string text_of(const Program& program, const Answer& answer);
// The names in it do not change; docs/fit.md tells what they mean.
nlohmann::ordered_json json_of(const Program& program, const Answer& answer);
// What is known, one line a GPU.
std::string text_of(const std::vector<Gpu>& gpus);

}  // namespace cubfc::cli::fit
