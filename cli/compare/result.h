// The result of comparing a program's runs, and how it is shown.
#pragma once

#include <string>
#include <vector>

#include "cli/compare/lines.h"
#include "cli/compare/run_once.h"

namespace cubfc::cli::compare {

// Exit statuses of `cubfc compare` beside those of Exit (cli/failure.h).
inline constexpr int kDiffers = 1;
inline constexpr int kNothingToSay = 3;

// A run under cubfc, compared to those without.
struct Compared {
  std::string mode;
  Run run;
  Lines out;  // what differs
  Lines err;
  bool is_equal = false;
};

class Result {
 public:
  // The two runs without cubfc.
  Result(Run bare, Run again);

  // A run under cubfc, in this mode.
  void add(const std::string& mode, Run run);

  int exit_status() const;
  // A sentence. `timeout`: the seconds that it names where a run without cubfc did not end.
  std::string verdict(double timeout) const;
  std::string table() const;
  // What differs, and what cubfc said; empty where there is neither.
  std::string details() const;
  // The table and the verdict.
  std::string json(const std::vector<std::string>& program, const std::string& verdict) const;

 private:
  bool can_be_told() const;
  bool is_equal() const;

  std::string bare_ended_;
  std::string again_ended_;
  bool is_late_;
  double bare_seconds_;
  Twice out_;
  Twice err_;
  std::vector<Compared> compared_;
};

}  // namespace cubfc::cli::compare
