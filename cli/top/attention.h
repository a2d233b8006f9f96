// Finds the concerns about a process: what of its figures the user should look at. Says them in
// words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/line.h"
#include "cli/top/look.h"

namespace cubfc::cli::top {

// In the order of how soon each needs a look.
enum class Concern { kAsleep, kNearLimit, kRefused, kFragmented, kIdle };

// Those that apply, in that order.
std::vector<Concern> concerns_of(const Row& row);

// For a table: "near limit".
std::string_view note_of(Concern concern);
// As a sentence, with what the user may do.
std::string explain(Concern concern, const Row& row);
// The column that shows the concern.
Key column_of(Concern concern);
Style style_of(Concern concern);

// Whether at least nine tenths of a limit are in use.
bool is_near(std::uint64_t in_use, std::uint64_t limit);

}  // namespace cubfc::cli::top
