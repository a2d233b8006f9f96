// The list of entry points against the toolkit's headers: nothing that allocates, frees or
// describes device memory is forgotten, and each row says what cudaTypedefs.h says.
#include "shim/driver/entry_points.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "catch.h"
#include "shim/driver/memory_contents.h"
#include "shim/hook/routes.h"
#include "shim/passed_through.h"
#include "shim/sleep/linked_functions.h"

namespace {

std::string read_header(const char* name) {
  std::ifstream file(std::string(CUBFC_TEST_CUDA_INCLUDE "/") + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The symbols that cuda.h declares, macros resolved: cuMemAlloc is declared and means
// cuMemAlloc_v2.
std::set<std::string> declared_symbols() {
  const std::string text = read_header("cuda.h");
  std::map<std::string, std::set<std::string>> macros;
  const std::regex define("#\\s*define\\s+(cu[A-Z]\\w*)\\s+(?:__CUDA_API_PT[DS][SZ]\\()?(cu\\w+)");
  for (std::sregex_iterator match(text.begin(), text.end(), define), end; match != end; ++match) {
    macros[(*match)[1]].insert((*match)[2]);
  }
  std::set<std::string> symbols;
  const std::regex declaration("CUresult\\s+CUDAAPI\\s+(cu\\w+)\\s*\\(");
  for (std::sregex_iterator match(text.begin(), text.end(), declaration), end; match != end;
       ++match) {
    const std::string name = (*match)[1];
    symbols.insert(name);
    if (const auto macro = macros.find(name); macro != macros.end()) {
      symbols.insert(macro->second.begin(), macro->second.end());
    }
  }
  return symbols;
}

bool concerns_memory(const std::string& name) {
  static const std::regex kWanted(
      "cuMem(?!cpy|set)\\w*|cu\\w*(Array|Mipmap)\\w*(Create|Destroy|MemoryReq)\\w*|"
      "cuArray3DCreate\\w*|"
      "cuMulticast\\w*|"
      "cuIpc\\w*Mem\\w*|cuPointer\\w*|cuDevice\\w*Mem(?!ory\\w*Host)\\w*|cuGraph\\w*Mem(Alloc|Free)"
      "\\w*|"
      "cuGetProcAddress\\w*|cuCtx(Create|Destroy|Detach|Attach|FromGreen)\\w*|cuGreenCtx(Create|"
      "Destroy)\\w*|"
      "cuDevicePrimaryCtx\\w*|cuStream(Begin|End)Capture\\w*|cuStreamDestroy\\w*|"
      "cu(Import|Destroy|)ExternalMemory\\w*");
  return std::regex_match(name, kWanted);
}

std::set<std::string> listed_symbols() {
  std::set<std::string> names;
#define CUBFC_NAME(name, base, version, per_thread, parameters) names.insert(#name);
  CUBFC_ENTRY_POINTS(CUBFC_NAME)
#undef CUBFC_NAME
#define CUBFC_NAME(name) names.insert(#name);
  CUBFC_PASSED_THROUGH(CUBFC_NAME)
#undef CUBFC_NAME
  return names;
}

}  // namespace

TEST_CASE("each function of cuda.h that allocates, frees or describes device memory is listed") {
  const std::set<std::string> declared = declared_symbols();
  REQUIRE(declared.size() > 300);
  REQUIRE(declared.count("cuMemAlloc_v2") == 1);
  const std::set<std::string> listed = listed_symbols();
  std::string missing;
  for (const std::string& name : declared) {
    if (concerns_memory(name) && listed.count(name) == 0) {
      missing += name + "\n";
    }
  }
  INFO("cuda.h has functions that neither entry_points.h nor passed_through.h lists:\n" << missing);
  CHECK(missing.empty());
}

TEST_CASE("of each function of cuda.h it is said what it does with the contents of memory") {
  std::map<std::string, int> said;
  const auto read = [&](const auto& names) {
    CHECK(std::is_sorted(names.begin(), names.end()));
    for (const std::string_view name : names) {
      CHECK(++said[std::string(name)] == 1);
    }
  };
  read(cubfc::memory_contents::kUses);
  read(cubfc::memory_contents::kNeedsMapped);
  read(cubfc::memory_contents::kHandsOut);
  read(cubfc::memory_contents::kNone);
  const std::regex suffixes("(_v[0-9]+)?(_ptsz|_ptds)?$");
  std::string missing;
  for (const std::string& name : declared_symbols()) {
    const std::string base = std::regex_replace(name, suffixes, "");
    missing += said.count(base) == 0 ? base + "\n" : "";
  }
  INFO("cuda.h has functions that shim/driver/memory_contents.h does not list:\n" << missing);
  CHECK(missing.empty());
}

TEST_CASE(
    "each function of cuda.h that needs a gate has one, which passes all of its arguments on") {
  std::set<std::string> needing;
  const auto read = [&](const auto& names) { needing.insert(names.begin(), names.end()); };
  read(cubfc::memory_contents::kUses);
  read(cubfc::memory_contents::kNeedsMapped);
  read(cubfc::memory_contents::kHandsOut);
  std::set<std::string> exported;
#define CUBFC_NAME(name, base, version, per_thread, parameters) exported.insert(#name);
  CUBFC_ENTRY_POINTS(CUBFC_NAME)
#undef CUBFC_NAME
#define CUBFC_NAME(name) exported.insert(#name);
  CUBFC_LINKED_FUNCTIONS(CUBFC_NAME)
#undef CUBFC_NAME
  const auto base_of = [](const std::string& name) { return name.substr(0, name.find('_')); };
  std::string missing;
  for (const std::string& name : declared_symbols()) {
    missing += needing.count(base_of(name)) > 0 && exported.count(name) == 0 ? name + "\n" : "";
  }
  INFO("cuda.h has functions that neither entry_points.h nor linked_functions.h lists:\n"
       << missing);
  CHECK(missing.empty());
  // A gate passes on six arguments in registers and five on the stack (sleep/gates.S).
  const std::string text = read_header("cuda.h");
  const std::regex declaration("CUresult\\s+CUDAAPI\\s+(cu\\w+)\\s*\\(([^;]*)\\);");
  int seen = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), declaration), end; match != end;
       ++match) {
    const std::string parameters = (*match)[2];
    if (needing.count(base_of((*match)[1])) > 0) {
      ++seen;
      INFO((*match)[1] << "(" << parameters << ")");
      const auto commas = std::count(parameters.begin(), parameters.end(), ',');
      CHECK(commas <= 10);
      constexpr const auto& kWide = cubfc::memory_contents::kMoreThanSixParameters;
      CHECK((commas <= 5 || std::binary_search(kWide.begin(), kWide.end(), base_of((*match)[1]))));
      CHECK(parameters.find("float") == std::string::npos);
    }
  }
  CHECK(seen > 100);
}

TEST_CASE("no function is both intercepted and passed through") {
  std::set<std::string> passed;
#define CUBFC_NAME(name) CHECK(passed.insert(#name).second);
  CUBFC_PASSED_THROUGH(CUBFC_NAME)
#undef CUBFC_NAME
  for (const cubfc::EntryPoint& entry : cubfc::entry_points()) {
    INFO(entry.name);
    CHECK(passed.insert(std::string(entry.name)).second);
  }
}

TEST_CASE("each row has the version under which cudaTypedefs.h knows its ABI") {
  const std::string typedefs = read_header("cudaTypedefs.h");
  for (const cubfc::EntryPoint& entry : cubfc::entry_points()) {
    if (entry.version > CUDA_VERSION) {
      continue;  // newer than these headers
    }
    // Of a synchronous function the per-thread form is named otherwise.
    const bool of_data = entry.name.ends_with("_ptds");
    const std::string suffix = entry.per_thread ? (of_data ? "_ptds" : "_ptsz") : "";
    const std::string type =
        "PFN_" + std::string(entry.base) + "_v" + std::to_string(entry.version) + suffix + ")";
    INFO(type);
    CHECK(typedefs.find(type) != std::string::npos);
  }
}

TEST_CASE("the 32-bit forms are never intercepted") {
  for (const char* name : {"cuMemAlloc", "cuMemFree", "cuMemGetInfo", "cuMemAllocPitch",
                           "cuMemGetAddressRange", "cuDeviceTotalMem"}) {
    CHECK(cubfc::exported_wrapper(name) == nullptr);
    CHECK(cubfc::exported_wrapper(std::string(name) + "_v2") != nullptr);
  }
}
