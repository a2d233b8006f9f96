// What `cubfc check` finds out, and what it asks of its children.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/check/child.h"

namespace cubfc::cli::check {

// As lines and as JSON.
class Findings {
 public:
  void say(const std::string& about, const std::string& text);
  // Something is wrong: a line, too.
  void object(std::string_view text);
  nlohmann::ordered_json& json() { return json_; }

  // Prints either. Throws Failure where something is wrong: the lines have told it.
  void finish(bool as_json);

 private:
  std::string lines_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
  std::vector<std::string> problems_;
};

// What a child tells; {"error": ...} also where it came to no end. Throws Failure.
nlohmann::ordered_json ask_child(const std::vector<std::string>& words, const Variables& variables,
                                 Errors errors, std::chrono::seconds most);

}  // namespace cubfc::cli::check
