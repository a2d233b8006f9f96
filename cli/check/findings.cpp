#include "cli/check/findings.h"

#include <cstdio>

#include "cli/failure.h"
#include "cli/json_text.h"
#include "cli/report/wording.h"
#include "config/values.h"

namespace cubfc::cli::check {

using nlohmann::ordered_json;
using report::printable;

void Findings::say(const std::string& about, const std::string& text) {
  lines_ += about + std::string(about.size() < 10 ? 10 - about.size() : 1, ' ') + text + "\n";
}

void Findings::object(std::string_view text) {
  problems_.emplace_back(printable(text));
  say("problem", problems_.back());
}

void Findings::finish(bool as_json) {
  if (as_json) {
    json_["problems"] = problems_;
    lines_ = json_text(json_) + "\n";
  }
  if (std::fputs(lines_.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    throw Failure{"standard output cannot be written to"};
  }
  if (!problems_.empty()) {
    throw Failure{"", kFailed};
  }
}

ordered_json ask_child(const std::vector<std::string>& words, const Variables& variables,
                       Errors errors, std::chrono::seconds most) {
  const ChildEnd end = run_child(words, variables, errors, most);
  ordered_json told = ordered_json::parse(end.output, nullptr, false);
  if (end.is_late) {
    told = {
        {"error", "it hangs: it has not answered within " + std::to_string(most.count()) +
                      " s (--timeout); `nvidia-smi` and the kernel's log (dmesg) may tell why"}};
  } else if (!end.problem().empty() || !told.is_object()) {
    told = {
        {"error", "a process that was to try it: " + end.problem() +
                      (end.errors.empty() ? "" : ": " + std::string(config::trimmed(end.errors)))}};
  }
  told["stderr"] = printable(config::trimmed(end.errors));
  return told;
}

}  // namespace cubfc::cli::check
