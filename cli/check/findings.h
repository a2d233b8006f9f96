// What `cubfc check` finds out and tells, and how it asks its children.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/check/child.h"

namespace cubfc::cli::check {

// Collects findings as lines and as JSON.
class Findings {
 public:
  void say(const std::string& about, const std::string& text);
  // Adds a problem, also as a line.
  void object(std::string_view text);
  nlohmann::ordered_json& json() { return json_; }

  // Prints the lines or the JSON. Throws Failure where that fails, and, without a message, where
  // there is a problem.
  void finish(bool as_json);

 private:
  std::string lines_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
  std::vector<std::string> problems_;
};

// Runs a child (run_child()) and returns the JSON that the child wrote, with "stderr" added. If the
// child has failed, is late or wrote no JSON, returns JSON with "error". Throws Failure.
nlohmann::ordered_json ask_child(const std::vector<std::string>& words, const Variables& variables,
                                 Errors errors, std::chrono::seconds most);

}  // namespace cubfc::cli::check
