// The table of options and what is printed from it.
#include "config/options.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "config/environment.h"
#include "config/option_readers.h"
#include "config/spellings.h"

namespace cubfc::config {
namespace {

std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(std::uint64_t bytes) {
  return size_text(bytes);
}
std::string text_of(std::int64_t bytes) {
  return bytes < 0 ? "-1" : size_text(static_cast<std::uint64_t>(bytes));
}
std::string text_of(std::chrono::milliseconds time) {
  return time_text(time);
}
std::string text_of(const DeviceAmounts& amounts) {
  return device_amounts_text(amounts);
}
std::string text_of(const Fraction& value) {
  return fraction_text(value);
}
std::string text_of(const std::string& value) {
  return shown(value, readers::kLongestPath);
}
template <class T>
requires std::is_enum_v<T> std::string text_of(T value) {
  return std::string(name_of(value));
}

template <class T>
struct InnerOf {
  using Type = T;
};
template <class T>
struct InnerOf<std::optional<T>> {
  using Type = T;
};

template <auto kMember>
void store(Policy& policy, const Value& value, const Origin& origin) {
  using Held = std::remove_reference_t<decltype((policy.*kMember).value)>;
  (policy.*kMember).value = std::get<typename InnerOf<Held>::Type>(value);
  (policy.*kMember).origin = origin;
}

template <auto kMember>
std::string show(const Policy& policy) {
  const auto& value = (policy.*kMember).value;
  if constexpr (requires { value.has_value(); }) {
    return value ? text_of(*value) : std::string("unset");
  } else {
    return text_of(value);
  }
}

template <auto kMember>
const Origin& origin(const Policy& policy) {
  return (policy.*kMember).origin;
}

// An option whose `store`, `show` and `origin` are those of a member of Policy.
template <auto kMember>
constexpr Option row(Spelling own, std::span<const Spelling> honoured,
                     std::string_view default_text, std::string_view meaning) {
  return Option{.own = own,
                .honoured = honoured,
                .default_text = default_text,
                .meaning = meaning,
                .limits = Limits::kNot,
                .store = store<kMember>,
                .show = show<kMember>,
                .origin = origin<kMember>};
}

constexpr Option limiting(Option option, Limits limits = Limits::kProcess) {
  option.limits = limits;
  return option;
}

constexpr std::span<const Spelling> kNoneHonoured;

constexpr std::array kOptions = std::to_array<Option>({
    row<&Policy::allocator>(
        {"CUBFC_ALLOCATOR", readers::allocator, "bfc, vmm, cuda_async or platform", ""},
        kAllocatorHonoured, "bfc",
        "`bfc`: best fit with coalescing over regions from the driver. `vmm`: the same over one "
        "address range in which memory moves to where it is needed, so that fragmentation makes no "
        "request fail. `cuda_async`: the driver's stream-ordered "
        "pool, one of its own whose limit is enforced. "
        "`platform`: every call goes to the driver, still logged, counted and limited"),
    row<&Policy::preallocate>(
        {"CUBFC_PREALLOCATE", readers::preallocate,
         "soft, true, false (also 1/0, yes/no, on/off) or whole", ""},
        kPreallocateHonoured, "soft",
        "`soft`: take a share of the device at the first allocation; what of it holds no block "
        "goes back when the program needs memory elsewhere, and to other processes of the user "
        "that ask for it. `true`: the same, but others get nothing. `false`: take memory as it is "
        "needed. `whole`: take the share in one piece, which goes back only when it holds no "
        "block"),
    limiting(
        row<&Policy::mem_fraction>({"CUBFC_MEM_FRACTION", readers::fraction, kFractionForms, ""},
                                   kFractionHonoured, "unset (0.75)",
                                   "this share of the free memory is preallocated; set, it is "
                                   "also a hard limit: this share of "
                                   "the device's total")),
    row<&Policy::mem_fraction_of>(
        {"CUBFC_MEM_FRACTION_OF", readers::fraction_of, "free or total", ""}, kNoneHonoured, "free",
        "what the preallocation is a share of; the limit is always a share of the total"),
    limiting(row<&Policy::mem_limit>(
        {"CUBFC_MEM_LIMIT", readers::device_amounts, kDeviceLimitForms, ""}, kLimitHonoured,
        "unset",
        "the hard limit for each device, as a size or a share of it (or `0=8GiB,1=25%`); wins over "
        "a fraction")),
    row<&Policy::mem_request>(
        {"CUBFC_MEM_REQUEST", readers::device_amounts, kDeviceLimitForms, ""}, kRequestHonoured,
        "unset",
        "so much of what the process has taken of a device is not given to others that ask for it"),
    limiting(row<&Policy::group>(
                 {"CUBFC_GROUP", readers::group_name, kGroupForms, ""}, kNoneHonoured, "unset",
                 "the processes of a user that name the same group share one limit on each "
                 "device, `CUBFC_GROUP_LIMIT`; nothing is preallocated, and what one does not use "
                 "the others have by asking"),
             Limits::kGroup),
    limiting(row<&Policy::group_limit>(
                 {"CUBFC_GROUP_LIMIT", readers::device_amounts, kDeviceLimitForms, ""},
                 kNoneHonoured, "unset",
                 "that limit, as `CUBFC_MEM_LIMIT`: a hard limit for all processes of the group "
                 "together"),
             Limits::kGroup),
    row<&Policy::preallocate_limit>({"CUBFC_PREALLOCATE_LIMIT", readers::size, kSizeForms, ""},
                                    kPreallocateLimitHonoured, "unset",
                                    "preallocate at most this much; growth goes on to the limit"),
    row<&Policy::reserve>({"CUBFC_RESERVE", readers::size, kSizeForms, ""}, kReserveHonoured, "0",
                          "leave this much of the device free, for a display or for libraries' "
                          "workspaces"),
    row<&Policy::host_reserve>(
        {"CUBFC_HOST_RESERVE", readers::size, kSizeForms, ""}, kNoneHonoured, "0",
        "on a GPU whose memory is the host's: what would leave the host less than this is refused"),
    row<&Policy::async_preallocate>(
        {"CUBFC_ASYNC_PREALLOCATE", readers::size_or_minus_one,
         "a size such as 8GiB, or -1 for as much as bfc preallocates", ""},
        kAsyncHonoured, "0",
        "with `cuda_async`: how much to warm the pool with; `-1`: as much as `bfc` would "
        "preallocate"),
    row<&Policy::trim_after>(
        {"CUBFC_TRIM_AFTER", readers::time_above_zero, kTimeForms, ""}, kNoneHonoured, "unset",
        "when the program has neither allocated nor freed for so long, memory that it does not use "
        "goes back to the device, but for what was preallocated; a thread of cubfc's sees to it"),
    row<&Policy::sleep>(
        {"CUBFC_SLEEP", readers::boolean, kBooleanForms, ""}, kNoneHonoured, "false",
        "`cubfc sleep` can take the memory of the program away while it is idle; the "
        "next call that needs the memory, or `cubfc wake`, brings it back to the "
        "same addresses. `vmm` is the allocator then. Needs `libcubfc_sleep.so` in "
        "place of `libcubfc.so`, which `cubfc run --sleep` sees to (not yet "
        "confirmed on a GPU)"),
    row<&Policy::sleep_after>(
        {"CUBFC_SLEEP_AFTER", readers::time_above_zero, kTimeForms, ""}, kNoneHonoured, "unset",
        "with `CUBFC_SLEEP`: that is done when the program has called nothing for so long"),
    row<&Policy::sleep_host>(
        {"CUBFC_SLEEP_HOST", readers::path, "the path of a folder", ""}, kNoneHonoured,
        "unset (memory)",
        "with `CUBFC_SLEEP`: the folder in whose file system the bytes lie meanwhile, in place of "
        "the host's memory"),
    row<&Policy::unified_memory>(
        {"CUBFC_UNIFIED_MEMORY", readers::boolean, kBooleanForms, ""}, kUnifiedHonoured, "false",
        "regions of managed memory, which the driver moves between device and host; allows a share "
        "above 1"),
    row<&Policy::free_mode>({"CUBFC_FREE", readers::free_mode, "sync or deferred", ""},
                            kNoneHonoured, "sync",
                            "`sync`: a free waits for the device, as the driver's does. "
                            "`deferred`: it returns at once, "
                            "and the block is reused when all work submitted before has finished"),
    row<&Policy::stream_ordered>(
        {"CUBFC_STREAM_ORDERED", readers::stream_ordered, "driver or arena", ""}, kNoneHonoured,
        "driver",
        "what serves `cuMemAllocAsync`. `driver`: its pools, counted and limited. `arena`: the "
        "arena, in stream order, as long as the program leaves the default pool as it is (not yet "
        "confirmed on a GPU)"),
    limiting(
        row<&Policy::limit_counts>(
            {"CUBFC_LIMIT_COUNTS", readers::limit_counts, "all or arena", ""}, kNoneHonoured, "all",
            "what a hard limit counts. `all`: also pools, "
            "`cuMemCreate`, managed memory and arrays. "
            "`arena`: only what `cuMemAlloc` and its like give"),
        Limits::kSheds),
    row<&Policy::limit_origin>(
        {"CUBFC_LIMIT_ORIGIN", readers::short_text, kShortTextForms, ""}, kNoneHonoured, "unset",
        "what the limit comes from, in the words of what has started the program, for messages: "
        "`num_gpus=0.25`, `shard:2`"),
    row<&Policy::nvml>(
        {"CUBFC_NVML", readers::nvml, "auto, true or false", ""}, kNoneHonoured, "auto",
        "whether NVML tells the program of the limit that it sees, as the GPU's memory: nvidia-smi "
        "and its like, started in that environment, show the limit and what is used of it. `auto`: "
        "a limit of the environment's, and not one of a policy file's"),
    row<&Policy::ipc>(
        {"CUBFC_IPC", readers::ipc, "cubfc or driver", ""}, kNoneHonoured, "cubfc",
        "how memory is shared with other processes. `cubfc`: by handles that only a process under "
        "cubfc can open. `driver`: by the driver's, for a peer without cubfc: requests of 1 MiB "
        "and more get allocations of their own, smaller blocks cannot be shared, and nothing is "
        "preallocated unless asked for"),
    row<&Policy::log_level>(
        {"CUBFC_LOG_LEVEL", readers::log_level, "trace, debug, info, warn, error, critical or off",
         ""},
        kNoneHonoured, "warn",
        "how much is logged: from `warn` on what is wrong and reports of failed allocations, from "
        "`info` on a line for each arena, from `debug` on regions, from `trace` on every call"),
    row<&Policy::log_file>({"CUBFC_LOG_FILE", readers::path, kPathForms, ""}, kNoneHonoured,
                           "stderr", "where the log goes; `%p` is the process id, `%h` the host"),
    row<&Policy::show_stats>({"CUBFC_SHOW_STATS", readers::boolean, kBooleanForms, ""},
                             kNoneHonoured, "false", "a summary at exit, where the log goes"),
    row<&Policy::summary>(
        {"CUBFC_SUMMARY", readers::path, kPathForms, ""}, kNoneHonoured, "unset",
        "write the summary at exit to this file, as JSON if its name ends in `.json`; `%p` is the "
        "process id, `%h` the host"),
    row<&Policy::oom_report>({"CUBFC_OOM_REPORT", readers::path, kPathForms, ""}, kNoneHonoured,
                             "unset",
                             "append what is told of each failed allocation to this file, in full "
                             "and as a line of JSON; "
                             "`%p` is the process id, `%h` the host"),
    row<&Policy::trace>({"CUBFC_TRACE", readers::path, kPathForms, ""}, kNoneHonoured, "unset",
                        "record every allocation and free to this file, for `cubfc report` and "
                        "`cubfc replay`; `%p` is the process id, `%h` the host"),
    row<&Policy::trace_limit>({"CUBFC_TRACE_LIMIT", readers::size_above_zero, kLimitForms, ""},
                              kNoneHonoured, "4GiB",
                              "nothing more is recorded when the trace has so many bytes (32 for "
                              "each allocation or free)"),
    row<&Policy::trace_stacks>({"CUBFC_TRACE_STACKS", readers::frames, kFramesForms, ""},
                               kNoneHonoured, "0",
                               "record so many frames of the stack of each allocation, too"),
    row<&Policy::trace_tensors>(
        {"CUBFC_TRACE_TENSORS", readers::boolean, kBooleanForms, ""}, kNoneHonoured, "true",
        "with stacks, record each tensor that PyTorch takes from its own cache, too: most of what "
        "a training allocates, at the cost of a stack each"),
    row<&Policy::share_stats>(
        {"CUBFC_SHARE_STATS", readers::boolean, kBooleanForms, ""}, kNoneHonoured, "true",
        "figures that `cubfc top` and `cubfc metrics` read while the program runs, in a file of "
        "the user's own that goes with the process"),
    row<&Policy::track_callers>(
        {"CUBFC_TRACK_CALLERS", readers::boolean, kBooleanForms, ""}, kNoneHonoured, "true",
        "tell apart which library asked for memory, in the summary, in reports of failed "
        "allocations and in `cubfc top`"),
    row<&Policy::labels>({"CUBFC_LABELS", readers::label_list, kLabelForms, ""}, kNoneHonoured,
                         "unset",
                         "labels for `cubfc metrics`, such as `pod=trainer-0,namespace=ml`"),
    limiting(
        row<&Policy::disable>({"CUBFC_DISABLE", readers::boolean, kBooleanForms, ""}, kNoneHonoured,
                              "false", "a real off switch: nothing is intercepted"),
        Limits::kSheds),
});

// environment.h decides by its own short list which variables are copied at load. This checks that
// the list and the table agree.
constexpr bool lists_agree() {
  std::size_t honoured = 0;
  for (const Option& option : kOptions) {
    if (!is_ours(option.own.name)) {
      return false;
    }
    for (const Spelling& spelling : option.honoured) {
      ++honoured;
      if (spelling.is_numbered && !kNumberedPrefix.starts_with(spelling.name)) {
        return false;
      }
      if (!is_ours(spelling.name)) {
        return false;
      }
    }
  }
  return honoured == kHonouredNames.size();
}
static_assert(lists_agree(), "kHonouredNames must list the honoured names of the table of options");

// Limits that hold beside the policy's own ones, each as a Policy with nothing else in it.
struct Beside {
  std::string_view what;
  Policy limits;
};
std::array<Beside, 2> limits_beside(const Policy& policy) {
  std::array<Beside, 2> beside = {{{"enforced", {}}, {"and", {}}}};
  beside[0].limits.mem_limit = policy.enforced.mem_limit;
  beside[0].limits.mem_fraction = policy.enforced.mem_fraction;
  beside[1].limits.mem_limit = policy.container_limit;
  return beside;
}

}  // namespace

std::span<const Option> options() noexcept {
  return kOptions;
}

const Option* find_option(std::string_view own_name) noexcept {
  const auto* const found = std::ranges::find_if(
      kOptions, [own_name](const Option& option) { return option.own.name == own_name; });
  return found == kOptions.end() ? nullptr : found;
}

std::string_view nearest_name(std::string_view name) {
  // The distance costs the product of the lengths, and a name may be as long as the kernel allows.
  constexpr std::size_t kLongEnough = 64;
  const std::string_view start = name.substr(0, kLongEnough);
  return std::ranges::min_element(
             kOptions, {},
             [start](const Option& option) { return edit_distance(start, option.own.name); })
      ->own.name;
}

bool is_set(const Option& option, const Policy& policy) {
  const auto has = [&option](const Policy& of) { return !option.origin(of).variable.empty(); };
  return has(policy) || std::ranges::any_of(limits_beside(policy), has, &Beside::limits);
}

bool is_in_mebibytes(std::string_view name) noexcept {
  return name == kNvidiaPair.limit || name == kNvidiaPair.request;
}

bool is_limit(const Option& option) noexcept {
  return option.limits == Limits::kProcess || option.limits == Limits::kGroup;
}

std::string in_force(const Option& option, const Policy& policy) {
  const Origin& from = option.origin(policy);
  const std::string shown = option.show(policy);
  const std::string value =
      from.variable.empty() || shown == "unset" ? std::string(option.default_text) : shown;
  std::string text = value + " (" + from.text() + ")";
  for (const auto& [what, limits] : limits_beside(policy)) {
    const Origin& origin = option.origin(limits);
    if (!origin.variable.empty()) {
      text += "; " + std::string(what) + ": " + option.show(limits) + " (" + origin.text() + ")";
    }
  }
  return text;
}

std::string markdown_table() {
  std::string table =
      "| variable | default | also honoured | meaning |\n"
      "|---|---|---|---|\n";
  for (const Option& option : kOptions) {
    std::string honoured;
    for (const Spelling& spelling : option.honoured) {
      honoured += (honoured.empty() ? "`" : ", `") + std::string(spelling.name) + "`";
      if (!spelling.note.empty()) {
        honoured += " (" + std::string(spelling.note) + ")";
      }
    }
    table += "| `" + std::string(option.own.name) + "` | `" + std::string(option.default_text) +
             "` | " + (honoured.empty() ? "–" : honoured) + " | " + std::string(option.meaning) +
             " |\n";
  }
  return table;
}

}  // namespace cubfc::config
