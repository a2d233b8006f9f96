// `cubfc replay`: would this recording have fitted, on another GPU or under another policy?
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/progress.h"
#include "cli/recordings/open_recording.h"
#include "cli/recordings/tensors.h"
#include "cli/replay/fit.h"
#include "cli/replay/played_trace.h"
#include "cli/replay/print.h"
#include "config/options.h"
#include "config/values.h"

namespace cubfc::cli {
namespace {

using config::Policy;

constexpr int kOutOfMemory = 3;

constexpr const char* kAbout =
    "Plays what a program asked for through the arena of the library, under another policy and "
    "without a GPU. FILE is a trace (CUBFC_TRACE), a log of RMM's logging adaptor, or a memory "
    "snapshot of PyTorch.";

constexpr const char* kReplayFooter = R"(
Without --allocator, --preallocate, --mem-fraction and --free, several policies are
tried and shown side by side; the exit status is that of the first, cubfc's default.

Of a device, only its size is modelled: it gives what is asked for, without rounding
or fragmentation of its own, and modules, contexts and other processes take nothing.
A free waits for no work. Under --free deferred a freed block is free when the next
blocks have gathered, as many as the library would gather, or when memory is needed.
cuda_async is not modelled: how the driver's pools place blocks is not known.
Memory that is in no arena (cuMemCreate, managed, arrays, cuMemAllocAsync) counts
with the bytes asked for. What failed when it was recorded is tried, too.

Exit status: 0 all requests got their memory, 1 a file cannot be read or written,
2 the command line is wrong, 3 out of memory.

Example:
  cubfc replay run.cubfc --limit 40GiB --allocator vmm
)";

struct ReplayWords {
  std::string file;
  std::string limit;
  std::string total;
  std::string allocator;
  std::string preallocate;
  std::string mem_fraction;
  std::string free;
  std::string trace;
  bool fit = false;
  bool all_policies = false;
  bool segments = false;
  bool json = false;

  bool names_policy() const {
    return !allocator.empty() || !preallocate.empty() || !mem_fraction.empty() || !free.empty();
  }
  bool wants_table() const { return all_policies || (!names_policy() && trace.empty()); }
};

// Sets an option of the policy from a flag's text, as if the variable were set in the environment.
// Does nothing where the text is empty. Throws Failure.
void set(Policy& policy, const char* variable, const char* flag, const std::string& text) {
  if (text.empty()) {
    return;
  }
  const config::Option& option = *config::find_option(variable);
  option.store(policy, read_flag(option, std::string("replay: ") + flag, text, policy),
               {.variable = flag, .value = text, .own_name = true});
}

std::uint64_t total_of(const ReplayWords& words) {
  if (words.total.empty()) {
    return 0;
  }
  const std::optional<std::uint64_t> total = config::read_size(words.total);
  if (!total || *total == 0) {
    refuse("replay: --total " + config::quoted(words.total) + " is no size, such as 80GiB");
  }
  return *total;
}

// Sets the limit from --limit: a size, or a share of --total, or else of the recorded devices'
// total, where all have the same. Throws Failure.
void set_limit(Policy& policy, const ReplayWords& words, const replay::Workload& workload) {
  const std::optional<double> share =
      config::read_size(words.limit) ? std::nullopt : config::read_share(words.limit);
  if (!share) {
    return set(policy, "CUBFC_MEM_LIMIT", "--limit", words.limit);
  }
  std::uint64_t total = total_of(words);
  if (total == 0 && !workload.devices.empty()) {
    total = workload.devices[0].total_bytes;
    const bool differ = std::ranges::any_of(
        workload.devices, [&](const replay::Device& each) { return each.total_bytes != total; });
    total = differ ? 0 : total;
  }
  if (total == 0) {
    refuse("replay: --limit " + config::quoted(words.limit) + " is a share; --total says of what");
  }
  if (*share <= 0 || *share > 1) {
    refuse("replay: --limit " + config::quoted(words.limit) + " is not between 0 and 1");
  }
  set(policy, "CUBFC_MEM_LIMIT", "--limit",
      std::to_string(static_cast<std::uint64_t>(static_cast<double>(total) * *share)));
}

std::string name_of(const Policy& policy) {
  std::string name(config::name_of(policy.allocator.value));
  if (policy.preallocate.is_set()) {
    name += ", preallocate " + std::string(config::name_of(policy.preallocate.value));
  }
  if (policy.mem_fraction.value) {
    name += ", fraction " + config::fraction_text(*policy.mem_fraction.value);
  }
  if (policy.free_mode.value != config::FreeMode::kSync) {
    name += ", free " + std::string(config::name_of(policy.free_mode.value));
  }
  return name;
}

// Lines "NAME=value (origin)" of the options that are set, for the trace that --trace writes.
std::string settings_of(const Policy& policy) {
  std::string lines;
  for (const config::Option& option : config::options()) {
    if (!option.origin(policy).variable.empty()) {
      lines += std::string(option.own.name) + "=" + config::in_force(option, policy) + "\n";
    }
  }
  return lines;
}

std::vector<replay::Conditions> policies_of(const ReplayWords& words,
                                            const replay::Workload& workload) {
  replay::Conditions base;
  base.total_bytes = total_of(words);
  set_limit(base.policy, words, workload);
  if (!words.wants_table()) {
    set(base.policy, "CUBFC_ALLOCATOR", "--allocator", words.allocator);
    set(base.policy, "CUBFC_PREALLOCATE", "--preallocate", words.preallocate);
    set(base.policy, "CUBFC_MEM_FRACTION", "--mem-fraction", words.mem_fraction);
    set(base.policy, "CUBFC_FREE", "--free", words.free);
    if (base.policy.allocator.value == config::Allocator::kCudaAsync) {
      refuse(
          "replay: --allocator cuda_async is not modelled: how the driver's pools place blocks is "
          "not "
          "known");
    }
    return {base};
  }
  std::vector<replay::Conditions> all;
  const auto add = [&](const char* allocator, const char* preallocate, const char* free) {
    replay::Conditions conditions = base;
    set(conditions.policy, "CUBFC_ALLOCATOR", "--allocator", allocator);
    set(conditions.policy, "CUBFC_PREALLOCATE", "--preallocate", preallocate);
    set(conditions.policy, "CUBFC_FREE", "--free", free);
    all.push_back(conditions);
  };
  add("", "", "");
  add("", "", "deferred");
  add("", "whole", "");
  add("vmm", "", "");
  add("vmm", "", "deferred");
  add("platform", "", "");
  return all;
}

// The recording as requests to the device: without PyTorch's tensors, which are served from
// PyTorch's cache.
recordings::Recording recording_of(const std::string& file) {
  recordings::Recording recording = recordings::open_recording(file);
  recordings::leave_out_tensors(recording);
  return recording;
}

class Replay {
 public:
  explicit Replay(const ReplayWords& words)
      : words_(words),
        recording_(recording_of(words.file)),
        workload_(replay::make_workload(
            recording_, words.segments ? replay::Requests::kSegments : replay::Requests::kBlocks)) {
    if (workload_.allocations == 0 && workload_.failures == 0) {
      throw recordings::BadRecording(
          words.file + ": " + (words.segments ? "no segment" : "nothing") + " is allocated in it");
    }
  }

  bool run() {
    for (const replay::Conditions& conditions : policies_of(words_, workload_)) {
      results_.push_back(result_of(conditions));
    }
    return results_[0].outcome.fits();
  }

  void print() const {
    const bool in_color = ::isatty(STDOUT_FILENO) == 1 && no_color_is_unset();
    std::string text;
    if (words_.json) {
      text = replay::json(recording_, workload_, results_);
    } else {
      text = replay::describe(recording_, workload_);
      text += words_.wants_table() ? replay::table(workload_, results_, in_color)
                                   : replay::describe(workload_, results_[0], in_color);
    }
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
      throw Failure{"replay: what was found cannot be written to stdout"};
    }
  }

 private:
  // https://no-color.org: NO_COLOR counts where it is set and not empty.
  static bool no_color_is_unset() {
    const char* const value = std::getenv("NO_COLOR");
    return value == nullptr || *value == '\0';
  }

  replay::Result result_of(const replay::Conditions& conditions) const {
    replay::Result result;
    result.name = name_of(conditions.policy);
    result.conditions = conditions;
    ProgressLine line;
    const auto told = [&](const char* what) {
      return line.is_on() ? replay::Progress([&line, what, &result](double share) {
        line.show("cubfc: " + std::string(what) + " " + result.name, share);
      })
                          : replay::Progress();
    };
    if (words_.trace.empty()) {
      result.outcome = replay::play(recording_, workload_, conditions, told("replaying under"));
    } else {
      const recordings::Recording names =
          replay::names_of(recording_, workload_, conditions, settings_of(conditions.policy));
      recordings::TraceWriter writer(words_.trace, names);
      result.outcome =
          replay::play(recording_, workload_, conditions, told("replaying under"), &writer);
      writer.close();
    }
    result.looked_for_least = words_.fit || words_.wants_table();
    if (result.looked_for_least) {
      result.least_limit = replay::least_limit(recording_, workload_, conditions,
                                               told("looking for the least limit of"));
    }
    return result;
  }

  const ReplayWords& words_;
  const recordings::Recording recording_;
  const replay::Workload workload_;
  std::vector<replay::Result> results_;
};

void run(const ReplayWords& words) {
  if (!words.trace.empty() && words.all_policies) {
    refuse("replay: --trace is for one policy, --all-policies for several");
  }
  if (words.names_policy() && words.all_policies) {
    refuse("replay: --all-policies is for all of them; name none");
  }
  bool fits = false;
  try {
    Replay replay(words);
    fits = replay.run();
    replay.print();
  } catch (const recordings::BadRecording& bad) {
    throw Failure{bad.what()};
  } catch (const recordings::CannotWrite& cannot) {
    throw Failure{cannot.what()};
  }
  if (!fits) {
    throw Failure{"", kOutOfMemory};
  }
}

}  // namespace

void add_replay(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("replay", "would a recording fit, here or under another policy?");
  const auto words = std::make_shared<ReplayWords>();
  command.description(kAbout);
  command.footer(kReplayFooter);
  command.add_option("FILE", words->file, "the recording")->type_name("")->required();
  command.add_option("--limit", words->limit, "a limit for each GPU: 40GiB, or a share: 0.5, 50%")
      ->type_name("SIZE|SHARE");
  command
      .add_option("--total", words->total,
                  "what each GPU has: 80GiB (what was recorded; else the limit, or twice the peak)")
      ->type_name("SIZE");
  command.add_option("--allocator", words->allocator, "bfc, vmm or platform")->type_name("VALUE");
  command.add_option("--preallocate", words->preallocate, "soft, true, false or whole")
      ->type_name("VALUE");
  command.add_option("--mem-fraction", words->mem_fraction, "as CUBFC_MEM_FRACTION")
      ->type_name("VALUE");
  command.add_option("--free", words->free, "sync or deferred")->type_name("VALUE");
  command.add_flag("--fit", words->fit, "look for the least limit that would do");
  command.add_flag("--all-policies", words->all_policies,
                   "several policies side by side, with the least limit of each");
  command.add_flag("--segments", words->segments,
                   "play what PyTorch's cache, or an arena, took from the driver instead of the "
                   "blocks that it gave");
  command.add_flag("--json", words->json, "print JSON");
  command.add_option("--trace", words->trace, "write what happens to this file, as a trace")
      ->type_name("FILE");
  command.callback([words] { run(*words); });
}

}  // namespace cubfc::cli
