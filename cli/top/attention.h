// What of a process needs a look: said in words, in the order of how soon.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/line.h"
#include "cli/top/look.h"

namespace cubfc::cli::top {

enum class Concern { kNearLimit, kRefused, kFragmented, kIdle };

std::vector<Concern> concerns_of(const Row& row);

// In a table: "near limit".
std::string_view note_of(Concern concern);
// In a sentence, with what may be done.
std::string explain(Concern concern, const Row& row);
// The column that shows it.
Key column_of(Concern concern);
Style style_of(Concern concern);

// Whether so much of a limit is in use that little more can be had.
bool is_near(std::uint64_t in_use, std::uint64_t limit);

}  // namespace cubfc::cli::top
