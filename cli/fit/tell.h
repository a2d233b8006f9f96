// How the answer is told: a text for people, JSON for scripts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/fit/answer.h"
#include "cli/fit/search.h"

namespace cubfc::cli::fit {

// Lines of at most 80 columns.
std::string text_of(const Program& program, const Answer& answer);
// The names in it do not change; docs/fit.md tells what they mean.
nlohmann::ordered_json json_of(const Program& program, const Answer& answer);
// The largest value on each GPU.
std::string text_of(const Search& search, const std::vector<Found>& found);
nlohmann::ordered_json json_of(const Program& program, const Search& search,
                               const std::vector<Found>& found);
// What is known, one line a GPU.
std::string text_of(const std::vector<Gpu>& gpus);

}  // namespace cubfc::cli::fit
