#include "behaviour.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "settings.h"

namespace standin {
namespace {

// The text of tests/gpu/behaviour/documented.json, which the assembler puts into the library.
extern "C" {
extern const char kDocumented[] __asm__("standin_documented") __attribute__((visibility("hidden")));
extern const char kDocumentedEnd[] __asm__("standin_documented_end")
    __attribute__((visibility("hidden")));
}
__asm__(
    ".pushsection .rodata\n"
    ".globl standin_documented\n"
    ".hidden standin_documented\n"
    "standin_documented:\n"
    ".incbin \"" STANDIN_BEHAVIOUR_FILE
    "\"\n"
    ".globl standin_documented_end\n"
    ".hidden standin_documented_end\n"
    "standin_documented_end:\n"
    ".popsection\n");

struct Answer {
  CUresult result;
  bool capture_survives;
};

struct Table {
  std::map<std::string, Answer, std::less<>> results;
  std::map<std::string, std::size_t, std::less<>> values;
};

[[noreturn]] void Refuse(std::string_view what) {
  std::fprintf(stderr, "standin: STANDIN_BEHAVIOUR: %s: %.*s\n",
               settings().behaviour.empty() ? "(what is built in)" : settings().behaviour.c_str(),
               static_cast<int>(what.size()), what.data());
  std::abort();
}

Table* Load() {
  const auto json = [] {
    if (settings().behaviour.empty()) {
      return nlohmann::json::parse(kDocumented, kDocumentedEnd, nullptr, false);
    }
    std::ifstream file(settings().behaviour);
    return nlohmann::json::parse(file, nullptr, false);
  }();
  if (json.is_discarded() || json.value("format", "") != "cubfc-behaviour-1") {
    Refuse("is not a readable behaviour file of the format cubfc-behaviour-1");
  }
  auto* table = new Table;
  for (const auto& [id, answer] : json.at("results").items()) {
    table->results[id] = {static_cast<CUresult>(answer.at("result").get<int>()),
                          answer.value("capture_survives", true)};
  }
  for (const auto& [id, answer] : json.at("values").items()) {
    const auto& value = answer.at("value");
    if (value.is_boolean()) table->values[id] = value.get<bool>() ? 1 : 0;
    if (value.is_number_unsigned()) table->values[id] = value.get<std::size_t>();
  }
  return table;
}

const Table& table() {
  static const Table* const instance = Load();
  return *instance;
}

template <typename Map>
const typename Map::mapped_type& Find(const Map& map, std::string_view id) {
  const auto found = map.find(id);
  if (found == map.end()) Refuse("has no entry " + std::string(id));
  return found->second;
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
