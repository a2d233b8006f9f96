// From an environment to a policy, driven by the table of options: which of several names counts,
// what is said about a value that cannot be used, and what is in force then.
#include <algorithm>

#include "config/environment.h"
#include "config/options.h"
#include "config/policy.h"

namespace cubfc::config {
namespace {

// What is wrong with one variable. Which value is in force instead is known only after all were
// read.
struct Complaint {
  const Option* option;
  std::string text;
};

struct Candidate {
  const Spelling* spelling;
  std::string_view text;
  std::optional<Value> value;
};

std::string assignment(const Candidate& candidate) {
  return std::string(candidate.spelling->name) + "=" + quoted(candidate.text);
}

class PolicyReader {
 public:
  explicit PolicyReader(const Environment& environment) : environment_(environment) {}

  Policy read() {
    // A fraction's range depends on whether memory is unified, so what limits is read last.
    for (const bool limits : {false, true}) {
      for (const Option& option : options()) {
        if (option.limits == limits) {
          read_option(option);
        }
      }
    }
    write_warnings();
    return std::move(policy_);
  }

 private:
  // The variables that are set for this option, the one that counts most first. An empty value is
  // as good as none: it is how a variable is switched off in a shell script or a container.
  std::vector<Candidate> candidates(const Option& option) const {
    std::vector<Candidate> found;
    const auto add = [&](const Spelling& spelling) {
      const std::string_view text = trimmed(environment_.lookup(spelling.name).value_or(""));
      if (!text.empty()) {
        found.push_back({&spelling, text, spelling.read(text, policy_)});
      }
    };
    add(option.own);
    std::ranges::for_each(option.honoured, add);
    return found;
  }

  void read_option(const Option& option) {
    const std::vector<Candidate> found = candidates(option);
    const Candidate* counts = nullptr;
    for (const Candidate& candidate : found) {
      if (!candidate.value) {
        reject(option, candidate);
      } else if (counts == nullptr) {
        counts = &candidate;
      } else if (counts->spelling != &option.own && *counts->value != *candidate.value) {
        complaints_.push_back({&option, assignment(*counts) + " and " + assignment(candidate) +
                                            " disagree, and the newer name counts"});
      }
    }
    if (counts != nullptr) {
      take(option, *counts);
    }
  }

  void take(const Option& option, const Candidate& candidate) {
    option.store(policy_, *candidate.value,
                 Origin{.variable = std::string(candidate.spelling->name),
                        .value = std::string(candidate.text),
                        .own_name = candidate.spelling == &option.own});
  }

  void reject(const Option& option, const Candidate& candidate) {
    const std::string accepted = "; accepted: " + std::string(candidate.spelling->accepted);
    const std::string what = assignment(candidate) + " cannot be used";
    if (!option.limits || candidate.spelling != &option.own) {
      complaints_.push_back({&option, what + accepted});
    } else if (!policy_.limit_unusable) {
      policy_.limit_unusable = true;
      policy_.limit_explanation = what + " as a limit, so no device memory is given" + accepted;
    }
  }

  void write_warnings() {
    for (const Option& option : options()) {
      for (const Complaint& complaint : complaints_) {
        if (complaint.option == &option) {
          policy_.warnings.push_back(complaint.text + "; in force: " + in_force(option, policy_));
        }
      }
    }
    for (const std::string_view name : environment_.names()) {
      // CUBFC_TRACES and CUBFC_TEST_ are the tests' and benchmarks' own.
      const bool of_tests = name == "CUBFC_TRACES" || name.starts_with("CUBFC_TEST_");
      if (name.starts_with(kOwnPrefix) && find_option(name) == nullptr && !of_tests &&
          name != kRunVariable) {
        policy_.warnings.push_back(shown(name) +
                                   " is not an option of cubfc and has no effect; the nearest "
                                   "known name is " +
                                   std::string(nearest_name(name)));
      }
    }
  }

  const Environment& environment_;
  Policy policy_;
  std::vector<Complaint> complaints_;
};

}  // namespace

Policy read_policy(const Environment& environment) {
  return PolicyReader(environment).read();
}

}  // namespace cubfc::config
