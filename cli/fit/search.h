// `cubfc fit --search batch=1..256`: the largest value of a word of the program's command line with
// which it still fits.
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
  std::string name;                   // "{batch}" stands for the value in the program's words
  std::vector<std::uint64_t> values;  // rising: more memory is needed with each
};

// "batch=1..256", "batch=8..256/8" (every eighth) or "batch=1,2,4,8". Throws Failure.
Search read_search(const std::string& text);

// Of one GPU.
struct Found {
  // With one value.
  struct Tried {
    std::uint64_t value = 0;
    Fits cache;  // by PyTorch's cache
  };
  Gpu gpu;
  std::optional<Tried> largest;  // that fits
  std::optional<Tried> next;     // the least that was tried and does not
  std::size_t tried = 0;         // how many values
};

// Tries as few values as it takes, on each GPU. Files go into `folder`. Throws Failure as
// answer_for() does, and where no word of the program has the name.
std::vector<Found> search(const Program& program, const Search& search,
                          const std::vector<Gpu>& gpus, const std::string& folder,
                          const Telling& telling);

}  // namespace cubfc::cli::fit
