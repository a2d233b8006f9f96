#include "cli/compare/result.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/failure.h"
#include "cli/json_text.h"
#include "cli/report/wording.h"
#include "shim/tell/format.h"

namespace cubfc::cli::compare {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostShown = 40;  // lines of what differs

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::string verdict_of(const std::vector<Compared>& all) {
  std::vector<std::string> different;
  std::vector<std::string> equal;
  for (const Compared& each : all) {
    (each.is_equal ? equal : different).push_back(each.mode);
  }
  const auto differs = [&](const char* mode) {
    return std::find(different.begin(), different.end(), mode) != different.end();
  };
  if (different.empty()) {
    return "equal in every mode";
  }
  std::string text = "differs in: " + listed(different);
  if (differs("disabled")) {
    text += "; also where cubfc is switched off, so it is the preload itself, or chance";
  } else if (differs("platform")) {
    text += "; also where the driver serves everything, so it is not the arena";
  } else if (!equal.empty()) {
    text += "; not in: " + listed(equal);
  }
  return text;
}

void add_lines(Lines& details, const std::string& mode, const char* what, const Lines& lines) {
  if (lines.empty()) {
    return;
  }
  details.push_back("-- " + mode + ", " + what);
  const std::size_t shown = std::min(lines.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) {
    details.push_back(report::printable(lines[i]));
  }
  if (lines.size() > shown) {
    details.push_back("... " + std::to_string(lines.size() - shown) + " lines more");
  }
}

std::string row(const std::string& mode, const std::string& ended, const char* out, const char* err,
                double seconds, double times) {
  return format("{:<15} {:>8} {:>8} {:>8} {:>9.2f} {:>7.2f}", mode, ended, out, err, seconds,
                times);
}

std::string row_of(const Compared& compared, double bare_seconds) {
  std::string text =
      row(compared.mode, compared.run.ended, compared.out.empty() ? "equal" : "differs",
          compared.err.empty() ? "equal" : "differs", compared.run.seconds,
          compared.run.seconds / std::max(bare_seconds, 1e-9));
  if (const auto& counts = compared.run.counts) {
    text += format(" {:>12}", report::count_text(counts->allocations));
    text +=
        counts->driver_calls > 0 ? format(" {:>13}", report::count_text(counts->driver_calls)) : "";
  }
  return text;
}

}  // namespace

Result::Result(Run bare, Run again)
    : bare_ended_(bare.ended),
      again_ended_(again.ended),
      is_late_(bare.is_late || again.is_late),
      bare_seconds_(std::min(bare.seconds, again.seconds)),
      out_(std::move(bare.out), std::move(again.out)),
      err_(std::move(bare.err), std::move(again.err)) {}

void Result::add(const std::string& mode, Run run) {
  Compared each;
  each.mode = mode;
  each.run = std::move(run);
  each.out = out_.differences_of(each.run.out);
  each.err = err_.differences_of(each.run.err);
  each.is_equal = each.run.ended == bare_ended_ && each.out.empty() && each.err.empty();
  compared_.push_back(std::move(each));
}

bool Result::can_be_told() const {
  return !is_late_ && bare_ended_ == again_ended_;
}

bool Result::is_equal() const {
  return std::all_of(compared_.begin(), compared_.end(),
                     [](const Compared& each) { return each.is_equal; });
}

int Result::exit_status() const {
  return !can_be_told() ? kNothingToSay : is_equal() ? static_cast<int>(kDone) : kDiffers;
}

std::string Result::verdict(double timeout) const {
  std::string text;
  if (is_late_) {
    text = format(
        "the program does not end within {:g} s without cubfc: nothing can be said "
        "(--timeout)",
        timeout);
  } else if (!can_be_told()) {
    text = "the program ends differently by itself (" + bare_ended_ + ", then " + again_ended_ +
           "): nothing can be said";
  } else {
    text = verdict_of(compared_);
  }
  const std::size_t loose = out_.num_loose() + err_.num_loose();
  return loose == 0 ? text
                    : text + " (" + std::to_string(loose) +
                          " lines that are different every time were left out)";
}

std::string Result::table() const {
  std::string text =
      format("{:<15} {:>8} {:>8} {:>8} {:>9} {:>7} {:>12} {:>13}\n", "mode", "exit", "stdout",
             "stderr", "seconds", "x bare", "allocations", "driver calls") +
      row("bare", bare_ended_, "", "", bare_seconds_, 1) + "\n";
  for (const Compared& each : compared_) {
    text += row_of(each, bare_seconds_) + "\n";
  }
  return text;
}

std::string Result::details() const {
  Lines details;
  for (const Compared& each : compared_) {
    add_lines(details, each.mode, "stdout", each.out);
    add_lines(details, each.mode, "stderr", each.err);
    add_lines(details, each.mode, "cubfc said", each.run.said);
  }
  std::string text;
  for (const std::string& line : details) {
    text += line + "\n";
  }
  return text;
}

std::string Result::json(const std::vector<std::string>& program,
                         const std::string& verdict) const {
  ordered_json rows = ordered_json::array();
  for (const Compared& each : compared_) {
    const auto& counts = each.run.counts;
    rows.push_back(
        {{"mode", each.mode},
         {"exit", each.run.ended},
         {"stdout_equal", each.out.empty()},
         {"stderr_equal", each.err.empty()},
         {"seconds", each.run.seconds},
         {"allocations", counts ? ordered_json(counts->allocations) : ordered_json()},
         {"driver_calls", counts ? ordered_json(counts->driver_calls) : ordered_json()}});
  }
  ordered_json words = ordered_json::array();
  for (const std::string& word : program) {
    words.push_back(report::printable(word, true));
  }
  const ordered_json all = {{"command", std::move(words)},
                            {"bare", {{"exit", bare_ended_}, {"seconds", bare_seconds_}}},
                            {"modes", std::move(rows)},
                            {"verdict", verdict}};
  return json_text(all, 2) + "\n";
}

}  // namespace cubfc::cli::compare
