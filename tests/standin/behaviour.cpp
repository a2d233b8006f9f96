#include "behaviour.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
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

const Table& table() {
  static const Table instance =
      settings().behaviour.empty() ? Table{kResults, kValues} : Load(settings().behaviour);
  return instance;
}

template <typename Entry>
const Entry& Find(std::span<const Named<Entry>> entries, std::string_view id) {
  const auto found = std::ranges::lower_bound(entries, id, {}, &Named<Entry>::id);
  if (found == entries.end() || found->id != id) Refuse("has no entry " + std::string(id));
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
