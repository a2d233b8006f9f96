// From an environment and a policy file to a policy, driven by the table of options: which of
// several names counts, what is said about a value that cannot be used, and what is in force then.
#include <algorithm>
#include <array>
#include <utility>

#include "config/environment.h"
#include "config/known_names.h"
#include "config/options.h"
#include "config/policy.h"
#include "config/policy_file.h"

namespace cubfc::config {
namespace {

// What is wrong with one variable. The warning is written only after all variables were read,
// because it also says which value is in force instead.
struct Complaint {
  const Option* option;
  std::string text;
};

// A place in which settings stand; layers_ has the place that counts most first.
struct Layer {
  const Environment& settings;
  std::string file;  // empty: the environment
  bool enforced;
};

struct Candidate {
  const Layer* layer;
  const Spelling* spelling;
  std::string name;  // as it was found
  std::string text;
  std::optional<Value> value;
  std::string why_not;  // why there is no value, though the text is readable
};

std::string assignment(const Candidate& candidate) {
  return candidate.name + "=" + quoted(candidate.text) +
         (candidate.layer->file.empty() ? "" : " in " + candidate.layer->file);
}

class PolicyReader {
 public:
  PolicyReader(const Environment& environment, const PolicyFile& file)
      : enforced_(file.enforced),
        settings_(file.settings),
        layers_{{{enforced_, file.path, true},
                 {environment, "", false},
                 {settings_, file.path, false}}},
        problems_(file.problems),
        unusable_(file.unusable) {}

  Policy read() {
    // First, whether a limit is enforced: then an option that can take a limit's effect away
    // (Limits::kSheds) counts only if it is enforced itself. Then the options that are no limits,
    // because the range of a fraction depends on whether memory is unified. Last the limits.
    for (const Option& option : options()) {
      for (const Candidate& candidate : candidates(option)) {
        enforces_limit_ = enforces_limit_ ||
                          (candidate.layer->enforced && (is_limit(option) || !candidate.value));
      }
    }
    if (!unusable_.empty()) {
      enforces_limit_ = true;
      fail_closed(unusable_ +
                  "; what the file enforces cannot be known, so no device memory is given");
    }
    for (const bool limits : {false, true}) {
      for (const Option& option : options()) {
        if (is_limit(option) == limits) {
          read_option(option);
        }
      }
    }
    policy_.enforced = {enforced_policy_.mem_limit, enforced_policy_.mem_fraction};
    follow_others();
    read_group();
    choose_allocator_for_sleep();
    name_limits();
    write_warnings();
    return std::move(policy_);
  }

 private:
  // The variables that are set for this option, the one that counts most first. A variable with an
  // empty value is left out: in a shell script or a container that is how a variable is switched
  // off.
  std::vector<Candidate> candidates(const Option& option) const {
    std::vector<Candidate> found;
    for (const Layer& layer : layers_) {
      const auto add = [&](const Spelling& spelling) {
        Candidate candidate{&layer, &spelling, std::string(spelling.name), {}, {}, {}};
        candidate.text = trimmed(layer.settings.lookup(spelling.name).value_or(""));
        if (spelling.is_numbered) {
          add_numbered(candidate);
        }
        if (!candidate.text.empty()) {
          candidate.value = spelling.read(candidate.text, policy_);
          if (spelling.pair != nullptr && candidate.value) {
            pair_up(candidate);
          }
          found.push_back(std::move(candidate));
        }
      };
      add(option.own);
      std::ranges::for_each(option.honoured, add);
    }
    return found;
  }

  // NVIDIA's container toolkit wants both names of a pair, and a request that is not above the
  // limit. Otherwise the candidate loses its value.
  void pair_up(Candidate& candidate) const {
    const Spelling& spelling = *candidate.spelling;
    const auto amount_of = [&](std::string_view name) {
      return read_count(trimmed(candidate.layer->settings.lookup(name).value_or("")));
    };
    const std::optional<std::uint64_t> request = amount_of(spelling.pair->request);
    const std::optional<std::uint64_t> limit = amount_of(spelling.pair->limit);
    if (request && limit && *limit > 0 && *request <= *limit) {
      return;
    }
    const bool is_limit = spelling.name == spelling.pair->limit;
    const std::string other(is_limit ? spelling.pair->request : spelling.pair->limit);
    candidate.value.reset();
    candidate.why_not =
        request && limit && *limit > 0
            ? "the request may be as much as the limit at most"
            : other + " is needed, too, a whole number of MiB" + (is_limit ? "" : ", and not 0");
  }

  // "NAME=20g" with "NAME_1=10g" is read as "NAME=20g,1=10g".
  static void add_numbered(Candidate& candidate) {
    const std::string prefix = std::string(candidate.spelling->name) + "_";
    bool is_alone = candidate.text.empty();
    for (const std::string_view name : candidate.layer->settings.names()) {
      const std::string_view text = trimmed(candidate.layer->settings.lookup(name).value_or(""));
      if (name.starts_with(prefix) && !text.empty()) {
        const std::string number(name.substr(prefix.size()));
        candidate.name = is_alone ? std::string(name) : std::string(candidate.spelling->name);
        candidate.text += (candidate.text.empty() ? "" : ",") + number + "=" + std::string(text);
        is_alone = false;
      }
    }
  }

  void read_option(const Option& option) {
    const Candidate* counts = nullptr;
    const Candidate* enforced = nullptr;
    const Candidate* container = nullptr;
    const std::vector<Candidate> found = candidates(option);
    for (const Candidate& candidate : found) {
      const bool is_beside = option.limits == Limits::kProcess;
      const Candidate*& wins = is_beside && candidate.layer->enforced             ? enforced
                               : is_beside && candidate.spelling->pair != nullptr ? container
                                                                                  : counts;
      if (!candidate.layer->enforced && option.limits == Limits::kSheds && enforces_limit_) {
        tell_of_shedding(option, candidate);
      } else if (!candidate.value) {
        reject(option, candidate);
      } else if (wins == nullptr) {
        wins = &candidate;
      } else if (*wins->value != *candidate.value) {
        tell_of_other(option, *wins, candidate);
      }
    }
    if (counts != nullptr) {
      take(option, *counts, policy_);
      const Spelling& spelling = *counts->spelling;
      if (const std::string_view surprise =
              spelling.surprise == nullptr ? "" : spelling.surprise(counts->text);
          !surprise.empty()) {
        complaints_.push_back({&option, assignment(*counts) + " " + std::string(surprise)});
      }
    }
    if (enforced != nullptr) {
      take(option, *enforced, enforced_policy_);
    }
    if (container != nullptr) {
      Policy taken;
      take(option, *container, taken);
      policy_.container_limit = taken.mem_limit;
    }
  }

  void tell_of_shedding(const Option& option, const Candidate& candidate) {
    Policy asked;
    if (candidate.value) {
      option.store(asked, *candidate.value, {});
    }
    if (!candidate.value || option.show(asked) != option.show({})) {
      complaints_.push_back({&option, assignment(candidate) +
                                          " is without effect beside the limit that " +
                                          layers_[0].file + " enforces"});
    }
  }

  // Warns of a setting that another one overrides, in two cases: both stand in one place under
  // other projects' names, or the environment disagrees with what the file enforces.
  void tell_of_other(const Option& option, const Candidate& counts, const Candidate& other) {
    if (counts.layer->enforced && other.layer->file.empty()) {
      complaints_.push_back({&option, assignment(other) + " is without effect, since " +
                                          assignment(counts) + " is enforced"});
    } else if (counts.layer == other.layer && counts.spelling != &option.own) {
      complaints_.push_back({&option, assignment(counts) + " and " + assignment(other) +
                                          " disagree, and the newer name counts"});
    }
  }

  static void take(const Option& option, const Candidate& candidate, Policy& into) {
    // If only "NAME_N" is set, its value is shown as it was written, without the "N=" that
    // add_numbered() has put in front.
    const std::string shown = candidate.name == candidate.spelling->name
                                  ? candidate.text
                                  : candidate.text.substr(candidate.text.find('=') + 1);
    option.store(into, *candidate.value,
                 Origin{.variable = candidate.name,
                        .value = shown,
                        .own_name = candidate.spelling == &option.own,
                        .sizes_device = !candidate.spelling->hides_limit,
                        .file = candidate.layer->file,
                        .enforced = candidate.layer->enforced});
  }

  void reject(const Option& option, const Candidate& candidate) {
    const std::string accepted = candidate.why_not.empty()
                                     ? "; accepted: " + std::string(candidate.spelling->accepted)
                                     : ": " + candidate.why_not;
    const std::string what = assignment(candidate) + " cannot be used";
    if (candidate.layer->enforced) {
      fail_closed(what + ", and it is enforced, so no device memory is given" + accepted);
    } else if (is_limit(option) && candidate.spelling == &option.own) {
      fail_closed(what + " as a limit, so no device memory is given" + accepted);
    } else {
      complaints_.push_back({&option, what + accepted});
    }
  }

  void fail_closed(std::string explanation) {
    if (!policy_.limit_unusable) {
      policy_.limit_unusable = true;
      policy_.limit_explanation = std::move(explanation);
    }
  }

  // A setting under another project's name may also set a second option, unless that is set itself:
  // JAX's fraction is one of the total, and JAX's `vmm` preallocates nothing. Without another limit
  // the container's limit is mem_limit. CUBFC_LOG_FILE=stderr means the default.
  void follow_others() {
    const auto is_theirs = [](const Origin& origin) {
      return !origin.variable.empty() && !origin.own_name;
    };
    if (is_theirs(policy_.mem_fraction.origin) && !policy_.mem_fraction_of.is_set()) {
      policy_.mem_fraction_of = {FractionOf::kTotal, policy_.mem_fraction.origin};
    }
    if (is_theirs(policy_.allocator.origin) && policy_.allocator.value == Allocator::kVmm &&
        !policy_.preallocate.is_set()) {
      policy_.preallocate = {Preallocate::kNo, policy_.allocator.origin};
    }
    const bool is_groups = policy_.group.value && policy_.group_limit.value.empty();
    if (!policy_.mem_limit.is_set() && !is_groups) {
      policy_.mem_limit = std::exchange(policy_.container_limit, {});
    }
    if (policy_.log_file.value == "stderr") {
      policy_.log_file.value.reset();
    }
  }

  // In a group nothing is preallocated, because other members could not have what one has
  // preallocated. A limit under another project's name is the limit of the container, so it becomes
  // the group's limit when CUBFC_GROUP_LIMIT is not set: NVIDIA's, if there are two.
  void read_group() {
    if (policy_.group.value && policy_.group_limit.value.empty() &&
        !policy_.container_limit.value.empty()) {
      policy_.group_limit = std::exchange(policy_.container_limit, {});
    } else if (policy_.group.value && policy_.group_limit.value.empty() &&
               !policy_.mem_limit.value.empty() && !policy_.mem_limit.origin.own_name) {
      policy_.group_limit = std::exchange(policy_.mem_limit, {});
    } else if (policy_.group.value && policy_.group_limit.value.empty() &&
               !policy_.enforced.mem_limit.value.empty() &&
               !policy_.enforced.mem_limit.origin.own_name) {
      policy_.group_limit = policy_.enforced.mem_limit;
    }
    const auto needs = [&](const Origin& origin, const char* what) {
      fail_closed(origin.variable + "=" + quoted(origin.value) +
                  (origin.file.empty() ? "" : " in " + origin.file) + " needs " + what +
                  ", so no device memory is given; set both or neither");
    };
    const bool has_limit = !policy_.group_limit.value.empty();
    if (policy_.group.value && !has_limit) {
      needs(policy_.group.origin, "CUBFC_GROUP_LIMIT");
    } else if (has_limit && !policy_.group.value) {
      needs(policy_.group_limit.origin, "CUBFC_GROUP");
    }
    if (!policy_.group.value) {
      return;
    }
    if (policy_.preallocate.value == Preallocate::kYes ||
        policy_.preallocate.value == Preallocate::kWhole) {
      policy_.warnings.push_back(
          policy_.preallocate.origin.text() +
          " is without effect in a group, whose members take memory as they need it");
    }
    policy_.preallocate = {Preallocate::kNo, policy_.group.origin};
  }

  // Only vmm can take memory away from under blocks, so it is the allocator of a program that can
  // sleep, unless another one is asked for.
  void choose_allocator_for_sleep() {
    if (policy_.sleep.value && !policy_.allocator.is_set()) {
      policy_.allocator = {Allocator::kVmm, policy_.sleep.origin};
    } else if (policy_.sleep.value && policy_.allocator.value != Allocator::kVmm) {
      policy_.warnings.push_back(policy_.sleep.origin.text() + " is without effect beside " +
                                 policy_.allocator.origin.text() + ": only vmm can do it");
    }
  }

  // CUBFC_LIMIT_ORIGIN says who has set the limits that stand in the same place. If it is set in
  // the environment, it says nothing of limits in a policy file.
  void name_limits() {
    if (!policy_.limit_origin.value) {
      return;
    }
    for (Origin* const origin :
         {&policy_.mem_limit.origin, &policy_.mem_fraction.origin, &policy_.group_limit.origin,
          &policy_.enforced.mem_limit.origin, &policy_.enforced.mem_fraction.origin}) {
      if (origin->own_name && origin->file == policy_.limit_origin.origin.file) {
        origin->by = *policy_.limit_origin.value;
      }
    }
  }

  void write_warnings() {
    policy_.warnings.insert(policy_.warnings.begin(), problems_.begin(), problems_.end());
    for (const Option& option : options()) {
      for (const Complaint& complaint : complaints_) {
        if (complaint.option == &option) {
          policy_.warnings.push_back(complaint.text + "; in force: " + in_force(option, policy_));
        }
      }
    }
    for (const Layer& layer : layers_) {
      for_each_known_name([&](const KnownName& known) {
        const std::string_view text = trimmed(layer.settings.lookup(known.name).value_or(""));
        if (!text.empty() && known.concerns(text)) {
          policy_.notes.push_back(std::string(known.name) + "=" + quoted(text) +
                                  (layer.file.empty() ? "" : " in " + layer.file) + " " +
                                  std::string(known.meaning));
        }
      });
      for (const std::string_view name : layer.settings.names()) {
        // CUBFC_TRACES and CUBFC_TEST_ are the tests' and benchmarks' own.
        const bool of_tests = name == "CUBFC_TRACES" || name.starts_with("CUBFC_TEST_");
        if (name.starts_with(kOwnPrefix) && find_option(name) == nullptr && !of_tests &&
            name != kRunVariable) {
          policy_.warnings.push_back(shown(name) + (layer.file.empty() ? "" : " in " + layer.file) +
                                     " is not an option of cubfc and has no effect; the nearest "
                                     "known name is " +
                                     std::string(nearest_name(name)));
        }
      }
    }
  }

  const Environment enforced_;
  const Environment settings_;
  const std::array<Layer, 3> layers_;
  const std::vector<std::string>& problems_;
  const std::string& unusable_;
  Policy policy_;
  Policy enforced_policy_;
  bool enforces_limit_ = false;
  std::vector<Complaint> complaints_;
};

}  // namespace

Policy read_policy(const Environment& environment, const PolicyFile& file) {
  return PolicyReader(environment, file).read();
}

Policy read_policy(const Environment& environment) {
  return read_policy(environment, PolicyFile{});
}

}  // namespace cubfc::config
