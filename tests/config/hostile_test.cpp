// Whatever stands in the environment, reading it ends, and what is said about it is one clean line.
#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "config/environment.h"
#include "config/options.h"
#include "config/values.h"

namespace config = cubfc::config;

namespace {

class HostileText {
 public:
  explicit HostileText(unsigned seed) : random_(seed) {}

  std::string name() {
    static const std::vector<std::string> names = all_names();
    std::string name = names[below(names.size())];
    if (below(8) == 0 && name.starts_with(config::kOwnPrefix)) {
      name += bytes(below(6), true);
    }
    return name;
  }

  std::string value() {
    switch (below(4)) {
      case 0:
        return bytes(below(40), false);
      case 1:
        return bytes(below(12), true);
      default: {
        // Parts of real values in a wrong order find more than noise does.
        static constexpr std::array<std::string_view, 30> kParts = {"0",
                                                                    "1",
                                                                    "0.5",
                                                                    ".",
                                                                    "9223372036854775807",
                                                                    "18446744073709551615",
                                                                    "G",
                                                                    "iB",
                                                                    "KB",
                                                                    "%",
                                                                    "+",
                                                                    "-",
                                                                    "true",
                                                                    "off",
                                                                    "bfc",
                                                                    "vmm",
                                                                    "nan",
                                                                    "inf",
                                                                    "e9",
                                                                    "0x",
                                                                    " ",
                                                                    "\t",
                                                                    "\n",
                                                                    "\x1b[0m",
                                                                    ",",
                                                                    "sync",
                                                                    "err",
                                                                    "-1",
                                                                    "/tmp/%p",
                                                                    "cuda_malloc"};
        std::string text;
        for (std::size_t parts = below(5); parts > 0; --parts) {
          text += kParts.at(below(kParts.size()));
        }
        return text;
      }
    }
  }

  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

 private:
  static std::vector<std::string> all_names() {
    std::vector<std::string> names;
    for (const config::Option& option : config::options()) {
      names.emplace_back(option.own.name);
      for (const config::Spelling& spelling : option.honoured) {
        names.emplace_back(spelling.name);
      }
    }
    return names;
  }

  std::string bytes(std::size_t count, bool from_values) {
    static constexpr std::string_view kOfValues = "0123456789.%+-GMKTiBtruefalsyno \t_";
    std::string text;
    for (; count > 0; --count) {
      text += from_values ? kOfValues[below(kOfValues.size())] : static_cast<char>(1 + below(255));
    }
    return text;
  }

  std::mt19937 random_;
};

bool is_one_clean_line(const std::string& line) {
  return !line.empty() && line.size() < 800 &&
         std::ranges::all_of(line, [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

TEST_CASE("no environment crashes the reading of it or spoils the log", "[config]") {
  HostileText text(20260801);
  for (int round = 0; round < (CUBFC_TEST_SANITIZED ? 2000 : 20000); ++round) {
    std::vector<std::string> entries;
    for (std::size_t count = text.below(6); count > 0; --count) {
      entries.push_back(text.name() + "=" + text.value());
    }
    const config::Policy policy = config::read_policy(config::Environment(entries));
    const bool clean = std::ranges::all_of(policy.warnings, is_one_clean_line);
    const bool described =
        std::ranges::all_of(config::options(), [&](const config::Option& option) {
          return std::ranges::all_of(config::in_force(option, policy),
                                     [](char c) { return c >= 0x20 && c < 0x7f; });
        });
    const std::uint64_t total = std::uint64_t{80} << 30U;
    const auto hard_limit = policy.hard_limit(total);
    const std::uint64_t limit = hard_limit ? hard_limit->bytes : total;
    const bool sane = limit <= total && policy.preallocation(total / 2, total) <= total / 2 &&
                      policy.preallocation(total, total) <= limit &&
                      policy.limit_unusable == !policy.limit_explanation.empty();
    if (!clean || !described || !sane) {
      for (const std::string& entry : entries) {
        UNSCOPED_INFO(config::quoted(entry, 1000));
      }
      CHECK(clean);
      CHECK(described);
      CHECK(sane);
      break;
    }
  }
  SUCCEED();
}

TEST_CASE("an environment of the greatest size is read in good time", "[config]") {
  std::vector<std::string> entries;
  entries.reserve(2001);
  for (int i = 0; i < (CUBFC_TEST_SANITIZED ? 200 : 2000); ++i) {
    entries.push_back("CUBFC_" + std::string(200, 'A') + std::to_string(i) + "=" +
                      std::string(1000, 'b'));
  }
  entries.push_back("CUBFC_LOG_FILE=" + std::string(131072, '/'));
  const config::Policy policy = config::read_policy(config::Environment(entries));
  CHECK(policy.warnings.size() == entries.size());
}
