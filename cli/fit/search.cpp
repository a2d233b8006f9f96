#include "cli/fit/search.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/failure.h"
#include "cli/run/temporary_folder.h"
#include "config/values.h"

namespace cubfc::cli::fit {
namespace {

constexpr std::uint64_t kMostValues = 1'000'000;
constexpr std::size_t kMostGuesses = 8;  // before values in the middle are tried

[[noreturn]] void refuse_search(const std::string& text) {
  refuse("fit: --search " + config::quoted(text) +
         " is not of the form batch=1..256, batch=8..256/8 (every eighth) or batch=1,2,4,8");
}

std::uint64_t value_in(const std::string& part, const std::string& text) {
  const std::optional<std::uint64_t> value = config::read_count(part);
  if (!value) {
    refuse_search(text);
  }
  return *value;
}

std::vector<std::uint64_t> list_in(const std::string& list, const std::string& text) {
  std::vector<std::uint64_t> values;
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t end = std::min(list.find(',', from), list.size());
    values.push_back(value_in(list.substr(from, end - from), text));
    from = end + 1;
  }
  std::ranges::sort(values);
  return values;
}

std::vector<std::uint64_t> range_in(const std::string& range, const std::string& text) {
  const std::size_t dots = range.find("..");
  const std::size_t slash = std::min(range.find('/', dots), range.size());
  const std::uint64_t first = value_in(range.substr(0, dots), text);
  const std::uint64_t last = value_in(range.substr(dots + 2, slash - dots - 2), text);
  const std::uint64_t step = slash == range.size() ? 1 : value_in(range.substr(slash + 1), text);
  if (step == 0 || last < first || (last - first) / step >= kMostValues) {
    refuse_search(text);
  }
  std::vector<std::uint64_t> values;
  for (std::uint64_t n = 0; n <= (last - first) / step; ++n) {
    values.push_back(first + n * step);
  }
  return values;
}

// The program's words with `value` in place of "{NAME}".
std::vector<std::string> words_with(std::vector<std::string> words, const std::string& name,
                                    std::uint64_t value) {
  const std::string place = '{' + name + '}';
  for (std::string& word : words) {
    for (std::size_t at = word.find(place); at != std::string::npos; at = word.find(place, at)) {
      word.replace(at, place.size(), std::to_string(value));
    }
  }
  return words;
}

// How many bytes of the GPU are left with a value.
struct Left {
  double value = 0;
  double bytes = 0;
};

// The index in [least, most) of the value to try next. It is the last value with which bytes would
// be left, if they fell in a straight line, as between the last two values that were tried. Where
// these do not fall, it is the middle.
std::size_t next_by_line(const std::vector<std::uint64_t>& values, const std::vector<Left>& tried,
                         std::size_t least, std::size_t most) {
  if (tried.size() < 2) {
    return std::min(2 * least, most - 1);  // of 1..256, first 1, then 3
  }
  const Left& one = tried[tried.size() - 2];
  const Left& other = tried.back();
  const double of_one = (one.bytes - other.bytes) / (other.value - one.value);
  if (!(of_one > 0)) {
    return least + (most - least) / 2;
  }
  const double last = other.value + other.bytes / of_one;
  const auto at = std::ranges::upper_bound(
      values, last, {}, [](std::uint64_t value) { return static_cast<double>(value); });
  const auto index = static_cast<std::size_t>(at - values.begin());
  return std::clamp(index, least + 1, most) - 1;
}

}  // namespace

Search read_search(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    refuse_search(text);
  }
  const std::string values = text.substr(equals + 1);
  const bool is_range = values.find("..") != std::string::npos;
  return {text.substr(0, equals), is_range ? range_in(values, text) : list_in(values, text)};
}

std::vector<Found> search(const Program& program, const Search& search,
                          const std::vector<Gpu>& gpus, const std::string& folder,
                          const Telling& telling) {
  if (words_with(program.words, search.name, 0) == program.words) {
    refuse("fit: --search " + search.name + ": no word of the program has {" + search.name +
           "} in it; for example: cubfc fit --gpu 4090 --search " + search.name +
           "=1..256 -- python3 train.py --" + search.name + " {" + search.name + "}");
  }
  std::vector<Found> all;
  std::size_t runs = 0;
  for (const Gpu& gpu : gpus) {
    Found found;
    found.gpu = gpu;
    const auto fits_with = [&](std::uint64_t value) {
      Program tried = program;
      tried.words = words_with(program.words, search.name, value);
      const std::string which = search.name + ' ' + std::to_string(value) + ", ";
      const std::string of_files = folder_within(folder, "search-" + std::to_string(++runs));
      const Answer answer = answer_for(tried, {gpu}, true, of_files,
                                       [&](const std::string& what) { telling(which + what); });
      std::error_code ignored;
      std::filesystem::remove_all(of_files, ignored);
      ++found.tried;
      const Fits& cache = answer.verdicts.front().cache;
      (cache.answer == Fits::Answer::kYes ? found.largest : found.next) =
          Found::Tried{value, cache};
      return cache;
    };
    // All values before `least` fit, and none from `most` on does. The smallest is tried first:
    // where it does not fit, or does not run, no other is tried. The bytes that are left fall
    // nearly in a straight line as the value rises.
    std::vector<Left> left;
    std::size_t least = 0;
    std::size_t most = search.values.size();
    while (least < most && (least > 0 || left.empty())) {
      const std::size_t next = left.size() < kMostGuesses
                                   ? next_by_line(search.values, left, least, most)
                                   : least + (most - least) / 2;
      const Fits fits = fits_with(search.values[next]);
      left.push_back(
          {static_cast<double>(search.values[next]), static_cast<double>(fits.least_left)});
      (fits.answer == Fits::Answer::kYes ? least : most) =
          fits.answer == Fits::Answer::kYes ? next + 1 : next;
    }
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace cubfc::cli::fit
