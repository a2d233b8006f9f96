#include "cli/check/tell_enforced.h"

#include "cli/check/enforced.h"
#include "cli/check/findings.h"
#include "cli/failure.h"
#include "config/values.h"

namespace cubfc::cli::check {
namespace {

constexpr int kCannotBeKnown = 3;                  // an exit status
constexpr std::uint64_t kMostProcess = 1U << 22U;  // Linux's PID_MAX_LIMIT

Subject subject_of(const EnforcedWords& words) {
  if (const auto process = config::read_count(words.whom)) {
    if (*process == 0 || *process > kMostProcess) {
      refuse("check: --enforced " + words.whom + ": there is no such process");
    }
    return subject_of_process(static_cast<pid_t>(*process));
  }
  return subject_of_program(words.whom);
}

}  // namespace

void tell_enforced(const EnforcedWords& words) {
  const Subject subject = subject_of(words);
  const auto driver = ask_child({"check", "--child=limits", "--cgroup=" + subject.cgroup},
                                {{"CUBFC_DISABLE", "1"}}, Errors::kCatch, words.patience);
  const Enforcement found = find_enforcers(subject, driver);
  Findings findings;
  auto& json = findings.json();
  json = {{"of", subject.name},
          {"enforced", nlohmann::ordered_json::array()},
          {"notes", found.notes},
          {"unknown", found.unknown}};
  findings.say("of", subject.name);
  for (const Enforcer& each : found.enforcers) {
    json["enforced"].push_back({{"by", each.by}, {"limit", each.limit}});
    findings.say(each.by, each.limit);
  }
  for (const std::string& note : found.notes) {
    findings.say("note", note);
  }
  for (const std::string& unknown : found.unknown) {
    findings.say("unknown", unknown);
  }
  const bool is_known = found.unknown.empty();
  findings.say("enforced", !found.enforcers.empty() ? "yes"
                           : is_known               ? "by nobody"
                                                    : "cannot be known");
  findings.finish(words.json);
  if (found.enforcers.empty()) {
    throw Failure{"", is_known ? kFailed : kCannotBeKnown};
  }
}

}  // namespace cubfc::cli::check
