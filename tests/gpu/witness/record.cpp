#include "record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace witness {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, kCallers> kNames{"by_cubfc", "past_cubfc", "unknown"};

std::string text_of_line(const Json& line) {
  // A program's name need not be UTF-8, and JSON must.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// One write, so that the lines of processes that end together do not mix (open(2), O_APPEND).
void append(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) {
    return;
  }
  [[maybe_unused]] const ssize_t written = ::write(file, line.data(), line.size());
  close(file);
}

Json first_members() {
  return {{"pid", getpid()}, {"program", program_invocation_name}};
}

}  // namespace

Record::Record(std::string path) : path_(std::move(path)), pid_(getpid()) {}

Record::Function* Record::function_named(const char* name) noexcept {
  for (Function& function : functions_) {
    const char* found = nullptr;
    if (function.name.compare_exchange_strong(found, name) || std::strcmp(found, name) == 0) {
      return &function;
    }
  }
  return nullptr;
}

void Record::count(const char* function, const Finding& finding) noexcept {
  if (Function* const counted = function_named(function)) {
    ++counted->calls[static_cast<std::size_t>(finding.caller)];
  }
  // Asked first, so that the number does not go round.
  if (finding.caller == Caller::kCubfc || stacks_begun_ >= stacks_.size()) {
    return;
  }
  if (const std::size_t number = stacks_begun_++; number < stacks_.size()) {
    KeptStack& kept = stacks_[number];
    kept.function = function;
    kept.finding = finding;
    kept.complete.store(true, std::memory_order_release);
  }
}

std::string Record::line() const {
  Json line = first_members();
  line["functions"] = Json::object();
  for (const Function& function : functions_) {
    if (const char* name = function.name) {
      for (std::size_t i = 0; i < kCallers; ++i) {
        line["functions"][name][kNames[i]] = function.calls[i].load();
      }
    }
  }
  line["stacks"] = Json::array();
  for (const KeptStack& kept : stacks_) {
    if (!kept.complete.load(std::memory_order_acquire)) {
      continue;
    }
    Json frames = Json::array();
    for (std::size_t i = 0; i < kept.finding.stack.depth; ++i) {
      frames.push_back(text_of(kept.finding.stack.addresses[i]));
    }
    line["stacks"].push_back({{"function", kept.function},
                              {"class", kNames[static_cast<std::size_t>(kept.finding.caller)]},
                              {"frames", std::move(frames)}});
  }
  return text_of_line(line);
}

void Record::write() noexcept {
  if (getpid() != pid_ || written_.exchange(true)) {
    return;
  }
  try {
    append(path_, line());
  } catch (...) {  // the program's end goes on
  }
}

void Record::write_error(const std::string& path, const std::string& error) {
  Json line = first_members();
  line["error"] = error;
  append(path, text_of_line(line));
}

}  // namespace witness
