// The answer as a text for people, and as JSON for scripts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/fit/answer.h"
#include "cli/fit/search.h"

namespace cubfc::cli::fit {

// For people: what is needed, which GPUs have it, and which guesses that rests on.
std::string text_of(const Program& program, const Answer& answer);
// The names in it must not change: scripts read them.
nlohmann::ordered_json json_of(const Program& program, const Answer& answer);
// The largest value on each GPU.
std::string text_of(const Search& search, const std::vector<Found>& found);
nlohmann::ordered_json json_of(const Program& program, const Search& search,
                               const std::vector<Found>& found);
// The table of --list-gpus, one line for each GPU.
std::string text_of(const std::vector<Gpu>& gpus);

}  // namespace cubfc::cli::fit
