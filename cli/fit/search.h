// `cubfc fit --search batch=1..256`: the largest value in the program's command line with which the
// program fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/fit/answer.h"
#include "cli/fit/gpus.h"
#include "cli/fit/program_run.h"

namespace cubfc::cli::fit {

struct Search {
  std::string name;  // "batch": "{batch}" stands for the value in the program's words
  std::vector<std::uint64_t> values;  // in rising order; a larger one is taken to need more
};

// "batch=1..256", "batch=8..256/8" (every eighth) or "batch=1,2,4,8". Throws Failure.
Search read_search(const std::string& text);

// What was found for one GPU.
struct Found {
  // How the program fits with one value.
  struct Tried {
    std::uint64_t value = 0;
    Fits cache;  // with PyTorch's cache
  };
  Gpu gpu;
  std::optional<Tried> largest;  // the largest value that fits
  std::optional<Tried> next;     // the least value that was tried and does not fit
  std::size_t tried = 0;         // how many values were tried
};

// For each GPU tries the smallest value, and if that fits, others until the largest that fits is
// known. Files go into `folder`. Throws Failure as answer_for() does, and where no word of the
// program has {NAME} in it.
std::vector<Found> search(const Program& program, const Search& search,
                          const std::vector<Gpu>& gpus, const std::string& folder,
                          const Telling& telling);

}  // namespace cubfc::cli::fit
