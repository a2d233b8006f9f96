// `cubfc limit`: shows the limit that a group of processes has on each GPU, and changes it while
// they run.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/live/processes.h"
#include "cli/option_flags.h"
#include "cli/report/wording.h"
#include "config/options.h"
#include "shim/meet/group_control.h"
#include "shim/meet/rendezvous.h"
#include "shim/tell/format.h"

namespace cubfc::cli {
namespace {

using config::size_text;
using nlohmann::ordered_json;
using report::bytes_text;

// How often processes are asked at most. A process may be able to give up some of its memory only
// after other memory was given up in an earlier round.
constexpr int kMostRounds = 8;

struct LimitWords {
  std::string group;
  std::string limit;  // empty: show it
  bool json = false;
};

// The group's budget on one GPU, and what became of it.
struct Budget {
  GroupControl control;
  std::string uuid;
  // The GPU's number in the processes of the group. Nothing where none of them shares its figures,
  // or where they count GPUs differently.
  std::optional<int> number = {};
  std::optional<std::uint64_t> total = {};  // bytes of the GPU
  std::vector<GroupControl::Member> members = {};
  std::uint64_t before = 0;  // the limit in bytes, before a change
  std::optional<std::uint64_t> wanted = {};
  std::uint64_t came_back = 0;

  std::string gpu() const { return number ? "GPU " + std::to_string(*number) : uuid; }
};

const config::Option& group_option(const char* name) {
  return *config::find_option(name);
}

template <typename Type>
Type read_word(const char* option, const std::string& flag, const std::string& text) {
  return std::get<Type>(read_flag(group_option(option), flag, text, {}));
}

// Sets the numbers and sizes of the budgets' GPUs, from the figures of the group's processes.
// Processes with CUBFC_SHARE_STATS=false have none. Where two budgets get the same number, all
// budgets lose their numbers.
void ask_members(std::vector<Budget>& budgets, const std::string& group) {
  const live::Processes processes = live::read_processes();
  for (const live::Process& process : processes.all) {
    for (const std::size_t place : process.devices()) {
      const figures::DeviceFigures& device = process.figures->devices[place];
      for (Budget& budget : budgets) {
        if (device.group.get() == group &&
            std::memcmp(device.uuid.data(), budget.control.device().data(),
                        budget.control.device().size()) == 0) {
          const bool is_first = !budget.total;
          budget.number = is_first || budget.number == device.number
                              ? std::optional<int>(device.number)
                              : std::nullopt;
          budget.total = device.total_bytes;
        }
      }
    }
  }
  for (const Budget& budget : budgets) {
    const auto is_same = [&](const Budget& other) { return other.number == budget.number; };
    if (budget.number && std::ranges::count_if(budgets, is_same) > 1) {
      for (Budget& each : budgets) {
        each.number.reset();
      }
      return;
    }
  }
}

[[noreturn]] void give_up_on(const Budget& budget) {
  const bool is_stuck = errno == EAGAIN || errno == EACCES;
  throw Failure{"limit: " + (is_stuck
                                 ? budget.control.path() +
                                       ": a process of the group, or another `cubfc limit`, has "
                                       "it locked and does not go on; is one stopped?"
                                 : GroupFile::why_unusable(budget.control.path(), errno))};
}

std::string uuid_of(const DeviceId& device) {
  figures::DeviceFigures figures{};
  std::copy(device.begin(), device.end(), figures.uuid.begin());
  return figures::uuid_text(figures);
}

// The budgets of the group that have a living member, by the GPU's number. Throws Failure where
// there are none.
std::vector<Budget> find_budgets(const std::string& group) {
  std::vector<std::string> unusable;
  std::vector<Budget> budgets;
  for (GroupControl& control : GroupControl::all_of(group, unusable)) {
    Budget budget{std::move(control), ""};
    if (!budget.control.look(budget.members)) {
      give_up_on(budget);
    }
    if (!budget.members.empty()) {
      budget.uuid = uuid_of(budget.control.device());
      budget.before = budget.control.limit();
      budgets.push_back(std::move(budget));
    }
  }
  if (budgets.empty()) {
    throw Failure{
        unusable.empty()
            ? "limit: no process of this user's and of this XDG_RUNTIME_DIR runs in a group " +
                  config::quoted(group) + "; `cubfc top --once` lists those that do"
            : "limit: " + unusable.front()};
  }
  ask_members(budgets, group);
  std::ranges::stable_sort(budgets, {}, [](const Budget& budget) { return budget.number; });
  return budgets;
}

// Sets Budget::wanted, before any limit is changed. Throws Failure where one limit cannot be set.
void choose_limits(std::vector<Budget>& budgets, const LimitWords& words) {
  const auto amounts =
      read_word<config::DeviceAmounts>("CUBFC_GROUP_LIMIT", "limit: SIZE", words.limit);
  for (const auto& [number, amount] : amounts.listed) {
    if (std::ranges::none_of(budgets, [number = static_cast<int>(number)](const Budget& budget) {
          return budget.number == number;
        })) {
      const bool are_counted = std::ranges::all_of(
          budgets, [](const Budget& budget) { return budget.number.has_value(); });
      throw Failure{"limit: no process of group " + config::quoted(words.group) + " uses GPU " +
                    std::to_string(number) +
                    (are_counted ? "" : ", or they count GPUs differently (CUDA_VISIBLE_DEVICES)")};
    }
  }
  for (Budget& budget : budgets) {
    const bool is_listed =
        budget.number && amounts.listed.contains(static_cast<unsigned>(*budget.number));
    const std::optional<config::Amount> amount =
        is_listed ? amounts.listed.at(static_cast<unsigned>(*budget.number)) : amounts.others;
    if (amount && amount->share > 0 && !budget.total) {
      throw Failure{"limit: the size of " + budget.gpu() +
                    " is not known, since no process of the group shares its figures "
                    "with this one (CUBFC_SHARE_STATS, XDG_RUNTIME_DIR); give the limit as a size"};
    }
    if (amount) {
      budget.wanted = amount->of(budget.total.value_or(0));
    }
    if (budget.wanted == std::uint64_t{0}) {
      throw Failure{"limit: " + config::quoted(words.limit) + " of " + budget.gpu() +
                    " is less than a byte"};
    }
    const auto largest = std::ranges::max_element(budget.members, {}, [](const auto& member) {
      return member.is_sealed ? member.own_limit_bytes : GroupTable::kMostBytes;
    });
    if (budget.wanted && *budget.wanted > budget.before && largest->is_sealed &&
        *budget.wanted > largest->own_limit_bytes) {
      throw Failure{"limit: " + budget.gpu() + ": a policy file enforces the limit of process " +
                    std::to_string(largest->pid) + ", " + size_text(largest->own_limit_bytes) +
                    "; it cannot be raised to " + size_text(*budget.wanted) +
                    ". Nothing is changed"};
    }
  }
}

// Has the group's processes give up memory that they do not use, until they have claimed no more
// than the new limit, or give up nothing more.
void ask_for_unused(Budget& budget, const std::string& group) {
  Rendezvous rendezvous;
  for (int round = 0; round < kMostRounds && budget.control.used() > *budget.wanted; ++round) {
    const std::uint64_t given = rendezvous.ask(
        budget.control.device(), budget.control.used() - *budget.wanted, GroupFile::key_of(group));
    budget.came_back += given;
    if (given == 0) {
      break;
    }
  }
  rendezvous.leave();
}

void change(Budget& budget, const std::string& group) {
  const GroupControl::Changed changed = budget.control.change_limit(*budget.wanted);
  if (changed == GroupControl::Changed::kNot) {
    give_up_on(budget);
  } else if (changed == GroupControl::Changed::kIsSealed) {  // by a member that has just joined
    throw Failure{"limit: " + budget.gpu() +
                  ": a policy file enforces the limit of a process of the group; it cannot be "
                  "raised to " +
                  size_text(*budget.wanted)};
  }
  if (*budget.wanted < budget.before) {
    budget.control.ask_for_unused([&] { ask_for_unused(budget, group); });
  }
  budget.members.clear();
  if (!budget.control.look(budget.members)) {
    give_up_on(budget);
  }
}

std::string row(std::string_view gpu, std::string_view before, std::string_view limit,
                std::string_view came_back, std::string_view taken, std::string_view processes) {
  return format("{:>3} {:>12} {:>12} {:>12} {:>12} {:>10}\n", gpu, before, limit, came_back, taken,
                processes);
}

std::string text_of(const std::vector<Budget>& budgets) {
  std::string text = row("GPU", "LIMIT WAS", "LIMIT", "CAME BACK", "TAKEN", "PROCESSES");
  std::string notes;
  for (const Budget& budget : budgets) {
    const std::uint64_t limit = budget.control.limit();
    const std::uint64_t taken = budget.control.used();
    text += row(budget.number ? std::to_string(*budget.number) : budget.uuid,
                bytes_text(budget.before), bytes_text(limit), bytes_text(budget.came_back),
                bytes_text(taken), std::to_string(budget.members.size()));
    if (taken > limit) {
      notes +=
          budget.gpu() + ": " + bytes_text(taken - limit) +
          " more than the limit is taken; its processes keep what of it is in use, and no other "
          "gets it\n";
    }
    for (const GroupControl::Member& member : budget.members) {
      if (member.limit_bytes < limit) {
        notes += budget.gpu() + ": process " + std::to_string(member.pid) +
                 " has joined with a limit of " + bytes_text(member.own_limit_bytes) +
                 ", and keeps to it\n";
      }
    }
  }
  return text + notes;
}

ordered_json json_of(const std::vector<Budget>& budgets, const std::string& group) {
  ordered_json devices = ordered_json::array();
  for (const Budget& budget : budgets) {
    ordered_json processes = ordered_json::array();
    for (const GroupControl::Member& member : budget.members) {
      processes.push_back({{"pid", member.pid},
                           {"limit_bytes", member.limit_bytes},
                           {"bytes_taken", member.held_bytes}});
    }
    devices.push_back({{"number", budget.number ? ordered_json(*budget.number) : ordered_json()},
                       {"uuid", budget.uuid},
                       {"limit_was_bytes", budget.before},
                       {"limit_bytes", budget.control.limit()},
                       {"bytes_came_back", budget.came_back},
                       {"bytes_taken", budget.control.used()},
                       {"processes", processes}});
  }
  return {{"group", group}, {"devices", devices}};
}

void limit(LimitWords words) {
  if (words.group.empty()) {
    throw Failure{"limit: which group? --group NAME; `cubfc top --once` lists them", kUsage};
  }
  words.group = read_word<std::string>("CUBFC_GROUP", "limit: --group", words.group);
  if (!words.limit.empty()) {  // reports a wrong SIZE even where there is no such group
    read_word<config::DeviceAmounts>("CUBFC_GROUP_LIMIT", "limit: SIZE", words.limit);
  }
  std::vector<Budget> budgets = find_budgets(words.group);
  if (!words.limit.empty()) {
    choose_limits(budgets, words);
    for (Budget& budget : budgets) {
      if (budget.wanted) {
        change(budget, words.group);
      }
    }
  }
  const std::string text =
      words.json ? json_text(json_of(budgets, words.group), 2) + "\n" : text_of(budgets);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

void add_limit(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("limit", "Shows a group's limit, or changes it while its processes run.");
  const auto words = std::make_shared<LimitWords>();
  command->add_option("--group", words->group, "the group (CUBFC_GROUP)")->type_name("NAME");
  command->add_option("SIZE", words->limit, "the new limit: 8GiB, 25% or 0=8GiB,1=4GiB")
      ->type_name("");
  command->add_flag("--json", words->json, "the same as JSON");
  command->footer(R"(
The processes of the group go by the new limit from their next request on. Each goes on seeing a GPU
of the size that it saw first, of which as much is free as the new limit leaves. Lowered below what
they have, it takes nothing away: what cubfc holds for them and no block uses goes back, what they use
they keep, and may have again when they free it; no process gets more than the limit besides. A
process that has joined with a lower limit than the others keeps to its own when the group's is
raised. What a policy file enforces cannot be raised. The limit holds for who joins later, too, until
the last process of the group has gone.

Exit status: 0 done; 1 there is no such group, or its limit cannot be changed.

Examples:
  cubfc limit --group job
  cubfc limit --group job 12GiB)");
  command->callback([words] { limit(*words); });
}

}  // namespace cubfc::cli
