// How the command writes JSON, everywhere: text that is not UTF-8, as paths and names may be,
// becomes U+FFFD.
#pragma once

#include <string>

namespace cubfc::cli {

// `json`: any nlohmann::basic_json. `indent`: columns for each level; -1: all in one line.
template <typename Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cubfc::cli
