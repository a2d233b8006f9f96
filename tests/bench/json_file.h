// What the benchmarks' JSON files have in common.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cubfc::bench {

using Json = nlohmann::ordered_json;

// The processor and the compiler, which times depend on.
Json json_of_machine();

// False when the file cannot be written.
bool write_json_file(const Json& json, const std::string& file);

}  // namespace cubfc::bench
