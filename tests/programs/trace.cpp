// Reading and making up traces.
#include "trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <istream>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace programs {
namespace {

constexpr std::size_t kFields = 6;

std::optional<std::array<std::string_view, kFields>> split(std::string_view line) {
  std::array<std::string_view, kFields> fields;
  for (std::size_t i = 0; i < kFields; ++i) {
    const std::size_t comma = line.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == kFields)) {
      return std::nullopt;
    }
    fields.at(i) = line.substr(0, comma);
    line.remove_prefix(comma == std::string_view::npos ? line.size() : comma + 1);
  }
  return fields;
}

std::optional<std::uint64_t> number(std::string_view text, int base) {
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) {
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return value;
}

class TraceReader {
 public:
  // What is wrong with the line, or nothing.
  std::optional<std::string_view> take(std::string_view line) {
    const auto fields = split(line);
    if (!fields) {
      return "six fields are wanted: Thread,Time,Action,Pointer,Size,Stream";
    }
    const std::string_view action = (*fields)[2];
    if (action == "allocate failure") {
      ++trace_.recorded_failures;
      return std::nullopt;
    }
    const std::optional<std::uint64_t> pointer = number((*fields)[3], 16);
    if (!pointer) {
      return "the pointer is not a hexadecimal number";
    }
    const std::optional<std::uint64_t> bytes = number((*fields)[4], 10);
    if (!bytes) {
      return "the size is not a number";
    }
    if (action == "allocate") {
      return allocate(*pointer, *bytes);
    }
    if (action == "free") {
      free(*pointer);
      return std::nullopt;
    }
    return "the action is not allocate, free or allocate failure";
  }

  Trace finish() { return std::move(trace_); }

 private:
  std::optional<std::string_view> allocate(std::uint64_t pointer, std::uint64_t bytes) {
    if (!live_.emplace(pointer, trace_.blocks).second) {
      return "the pointer is allocated already";
    }
    trace_.ops.push_back({TraceOp::Action::kAllocate, trace_.blocks, bytes});
    ++trace_.blocks;
    return std::nullopt;
  }

  void free(std::uint64_t pointer) {
    const auto found = live_.find(pointer);
    if (found == live_.end()) {
      ++trace_.unknown_frees;
      return;
    }
    trace_.ops.push_back({TraceOp::Action::kFree, found->second, 0});
    live_.erase(found);
  }

  Trace trace_;
  std::unordered_map<std::uint64_t, std::uint32_t> live_;
};

// splitmix64: the standard library's distributions differ between implementations, this does not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t below(std::uint64_t bound) {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return (z ^ (z >> 31U)) % bound;
  }

 private:
  std::uint64_t state_;
};

std::uint64_t size_like_training(Random& random) {
  const std::uint64_t kind = random.below(100);
  if (kind < 60) {
    return 1 + random.below(std::uint64_t{16} << 10U);
  }
  if (kind < 95) {
    return std::uint64_t{4096} << random.below(10);
  }
  return (1 + random.below(8)) << 20U;
}

}  // namespace

std::variant<Trace, TraceError> read_trace(std::istream& input) {
  TraceReader reader;
  std::string line;
  for (std::uint64_t count = 1; std::getline(input, line); ++count) {
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    const bool header = count == 1 && line.starts_with("Thread,");
    if (line.empty() || header) {
      continue;
    }
    if (const std::optional<std::string_view> wrong = reader.take(line)) {
      return TraceError{"line " + std::to_string(count) + ": " + std::string(*wrong)};
    }
  }
  return reader.finish();
}

Trace synthetic_trace(std::uint64_t ops, std::uint64_t seed) {
  constexpr std::size_t kMostLive = 400;
  Random random(seed);
  Trace trace;
  trace.ops.reserve(ops);
  std::vector<std::uint32_t> live;
  while (trace.ops.size() < ops) {
    const bool free = !live.empty() && (live.size() >= kMostLive || random.below(100) < 48);
    if (!free) {
      trace.ops.push_back({TraceOp::Action::kAllocate, trace.blocks, size_like_training(random)});
      live.push_back(trace.blocks++);
      continue;
    }
    // Mostly among the youngest, as activations go; sometimes any.
    const std::size_t reach =
        random.below(10) == 0 ? live.size() : std::min<std::size_t>(16, live.size());
    const std::size_t index = live.size() - 1 - random.below(reach);
    trace.ops.push_back({TraceOp::Action::kFree, live[index], 0});
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
  }
  return trace;
}

}  // namespace programs
