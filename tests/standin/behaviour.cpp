#include "behaviour.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "settings.h"

namespace standin {
namespace {

struct Answer {
  CUresult result;
  bool capture_survives;
};

template <typename Entry>
struct Named {
  std::string_view id;
  Entry entry;
};

// kResults and kValues: what tests/gpu/behaviour/documented.json has (behaviour_table.cmake).
#include "behaviour_table.inc"

// Both sorted by id.
struct Table {
  std::span<const Named<Answer>> results;
  std::span<const Named<std::size_t>> values;
};

template <typename Entries>
constexpr bool IsSorted(const Entries& entries) {
  return std::ranges::is_sorted(entries, {}, [](const auto& named) { return named.id; });
}
static_assert(IsSorted(kResults) && IsSorted(kValues));

[[noreturn]] void Refuse(std::string_view what) {
  std::fprintf(stderr, "standin: STANDIN_BEHAVIOUR: %s: %.*s\n",
               settings().behaviour.empty() ? "(what is built in)" : settings().behaviour.c_str(),
               static_cast<int>(what.size()), what.data());
  std::abort();
}

// What STANDIN_BEHAVIOUR names. It is kept until the process ends, for the table refers to it.
Table Load(const std::string& path) {
  std::ifstream file(path);
  const auto& json = *new auto(nlohmann::json::parse(file, nullptr, false));
  if (json.is_discarded() || json.value("format", "") != "cubfc-behaviour-1") {
    Refuse("is not a readable behaviour file of the format cubfc-behaviour-1");
  }
  auto& results = *new std::vector<Named<Answer>>;
  for (const auto& [id, answer] : json.at("results").items()) {
    const auto result = static_cast<CUresult>(answer.at("result").template get<int>());
    results.push_back({id, {result, answer.value("capture_survives", true)}});
  }
  auto& values = *new std::vector<Named<std::size_t>>;
  for (const auto& [id, answer] : json.at("values").items()) {
    const auto& value = answer.at("value");
    if (value.is_boolean()) values.push_back({id, value.template get<bool>() ? 1u : 0u});
    if (value.is_number_unsigned()) values.push_back({id, value.template get<std::size_t>()});
  }
  return {results, values};
}

// nullptr when there is none.
template <typename Entry>
const Named<Entry>* Lookup(std::span<const Named<Entry>> entries, std::string_view id) {
  const auto found = std::ranges::lower_bound(entries, id, {}, &Named<Entry>::id);
  return found == entries.end() || found->id != id ? nullptr : &*found;
}

// With the answers of STANDIN_ANSWERS in the place of the table's own. Kept as that is.
Table Changed(const Table& before) {
  static auto& results = *new std::vector(before.results.begin(), before.results.end());
  static auto& values = *new std::vector(before.values.begin(), before.values.end());
  const auto place_in = [](const auto& entries, const auto* entry) {
    return static_cast<std::size_t>(entry - entries.data());
  };
  for (const OtherAnswer& other : settings().answers) {
    if (const auto* const result = Lookup(before.results, other.entry)) {
      Answer& answer = results[place_in(before.results, result)].entry;
      answer = {static_cast<CUresult>(other.number),
                other.capture_survives.value_or(answer.capture_survives)};
    } else if (const auto* const value = Lookup(before.values, other.entry)) {
      values[place_in(before.values, value)].entry = other.number;
    } else {
      Refuse("has no entry " + other.entry + ", for which STANDIN_ANSWERS has an answer");
    }
  }
  return {results, values};
}

Table Read() {
  const Table read =
      settings().behaviour.empty() ? Table{kResults, kValues} : Load(settings().behaviour);
  return settings().answers.empty() ? read : Changed(read);
}

const Table& table() {
  static const Table instance = Read();
  return instance;
}

// Adds a line to the file of STANDIN_ASKED when the process asks for the entry for the first time.
void NoteAsked(std::string_view id) {
  static std::mutex& mutex = *new std::mutex;
  static auto& noted = *new std::set<std::string, std::less<>>;
  const std::lock_guard lock(mutex);
  if (!noted.emplace(id).second) return;
  std::ofstream(settings().asked, std::ios::app) << std::string(id) + "\n";
}

template <typename Entry>
const Entry& Find(std::span<const Named<Entry>> entries, std::string_view id) {
  const Named<Entry>* const found = Lookup(entries, id);
  if (found == nullptr) Refuse("has no entry " + std::string(id));
  if (!settings().asked.empty()) NoteAsked(id);
  return found->entry;
}

}  // namespace

CUresult Behaviour(std::string_view id) {
  return Find(table().results, id).result;
}
bool CaptureSurvives(std::string_view id) {
  return Find(table().results, id).capture_survives;
}
std::size_t BehaviourSize(std::string_view id) {
  return Find(table().values, id);
}
bool BehaviourFlag(std::string_view id) {
  return Find(table().values, id) != 0;
}

}  // namespace standin
