// The memory policy: what is in force, and where each part of it came from. Plain data and the
// arithmetic on it. Knows nothing of CUDA, of the process, or of how a value is written (values.h)
// and found (options.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/choices.h"
#include "config/setting.h"
#include "config/values.h"

namespace cubfc::config {

class Environment;
struct PolicyFile;

/// The share of the free memory that is preallocated when no fraction is set.
inline constexpr double kDefaultFraction = 0.75;

/// The largest size of a trace in bytes, unless set.
inline constexpr std::uint64_t kDefaultTraceLimit = std::uint64_t{4} << 30;

/// Everything that the environment can ask for, as it is in force. A value type; concurrent reads
/// are safe. Sizes are in bytes.
struct Policy {
  Setting<Allocator> allocator;
  Setting<Preallocate> preallocate;
  /// Nothing unless set.
  Setting<std::optional<Fraction>> mem_fraction;
  Setting<FractionOf> mem_fraction_of;
  Setting<DeviceAmounts> mem_limit;
  /// The limit that NVIDIA's container toolkit gives the container. It is here only if another
  /// name sets mem_limit; the lower of the two holds. If no other name does, the container's limit
  /// is in mem_limit.
  Setting<DeviceAmounts> container_limit;
  /// The group of processes of a user that share a limit, and that limit. Both are set, or
  /// neither.
  Setting<std::optional<std::string>> group;
  Setting<DeviceAmounts> group_limit;
  /// Limits that a policy file enforces. They hold beside mem_limit and mem_fraction.
  struct Enforced {
    Setting<DeviceAmounts> mem_limit;
    Setting<std::optional<Fraction>> mem_fraction;
  } enforced;
  /// So much of the memory that the process has taken is not given to other processes that ask for
  /// it.
  Setting<DeviceAmounts> mem_request;
  Setting<std::optional<std::uint64_t>> preallocate_limit;
  /// The bytes that are left free on each device, for others.
  Setting<std::uint64_t> reserve;
  /// The bytes that are left to the host, where a device's memory is the host's.
  Setting<std::uint64_t> host_reserve;
  /// -1: as much as bfc would preallocate.
  Setting<std::int64_t> async_preallocate;
  /// When the program has neither allocated nor freed for so long, the process gives unused memory
  /// back. Never unless set.
  Setting<std::optional<std::chrono::milliseconds>> trim_after;
  /// Whether the program's memory can be taken away and put back (`cubfc sleep`).
  Setting<bool> sleep;
  /// When the program has done nothing for so long, it sleeps by itself. Never unless set.
  Setting<std::optional<std::chrono::milliseconds>> sleep_after;
  /// The folder for the bytes meanwhile, as CUBFC_LOG_FILE; nothing: they are in host memory.
  Setting<std::optional<std::string>> sleep_host;
  Setting<bool> unified_memory;
  Setting<FreeMode> free_mode;
  Setting<StreamOrdered> stream_ordered;
  Setting<Ipc> ipc;
  Setting<LimitCounts> limit_counts;
  /// Who has set the limits under cubfc's own names, in their words; see Origin::by.
  Setting<std::optional<std::string>> limit_origin;
  Setting<Nvml> nvml;
  Setting<LogLevel> log_level{.value = LogLevel::kWarn, .origin = {}};
  /// A path as the user wrote it, %p and %h not replaced; nothing means stderr.
  Setting<std::optional<std::string>> log_file;
  Setting<bool> show_stats;
  /// The file of the summary at exit, as CUBFC_LOG_FILE; nothing: none is written.
  Setting<std::optional<std::string>> summary;
  /// The file of the reports of failed requests, as CUBFC_LOG_FILE; nothing: none is written.
  Setting<std::optional<std::string>> oom_report;
  /// The file of the trace, as CUBFC_LOG_FILE; nothing: none is written.
  Setting<std::optional<std::string>> trace;
  /// The largest size of the trace, in bytes.
  Setting<std::uint64_t> trace_limit{.value = kDefaultTraceLimit, .origin = {}};
  /// Frames that are recorded for each allocation.
  Setting<std::uint64_t> trace_stacks;
  /// Where stacks are recorded, each tensor that PyTorch's cache hands out is recorded, too.
  Setting<bool> trace_tensors{.value = true, .origin = {}};
  /// Figures for cubfc top and cubfc metrics.
  Setting<bool> share_stats{.value = true, .origin = {}};
  /// Figures are kept for each library that asks for memory.
  Setting<bool> track_callers{.value = true, .origin = {}};
  /// "name=value,name=value", for cubfc metrics; nothing unless set.
  Setting<std::optional<std::string>> labels;
  Setting<bool> disable;

  /// A limit under cubfc's own name, or something that is enforced, cannot be used. Every device
  /// allocation is to be refused then, because a mistyped limit that limits nothing would harm the
  /// neighbour on the device. `limit_explanation` says why, in one line without an end of line, and
  /// is not in `warnings`.
  bool limit_unusable = false;
  std::string limit_explanation;

  /// One complete line each, in the order of the options, for the log at level warn.
  std::vector<std::string> warnings;
  /// Names of other projects that are set and have no meaning here, one complete line each, for
  /// level info.
  std::vector<std::string> notes;

  /// The limit on this device of `total_bytes`; nothing if there is none. A fraction does not count
  /// beside CUBFC_MEM_LIMIT. Of the limits that count, the container's, the enforced ones and the
  /// group's limit included, the least holds. Never above the total, unless memory is unified. 0
  /// while limit_unusable. Its origin is in this object.
  [[nodiscard]] std::optional<HardLimit> hard_limit(std::uint64_t total_bytes,
                                                    int device = 0) const;

  /// The same without the group's limit.
  [[nodiscard]] std::optional<HardLimit> process_limit(std::uint64_t total_bytes,
                                                       int device = 0) const;

  /// The bytes of this device that are not given to other processes that ask; 0 unless set.
  [[nodiscard]] std::uint64_t kept_from_others(std::uint64_t total_bytes, int device = 0) const;

  /// Whether there may be a limit for some device.
  [[nodiscard]] bool limits() const noexcept;

  /// Whether NVML is to show this limit, which hard_limit() gave, in place of the device's memory.
  [[nodiscard]] bool is_shown_by_nvml(const HardLimit& limit) const noexcept;

  /// The origin of a limit that only cubfc keeps: one that is enforced by a policy file, a group's,
  /// or one under cubfc's own name. nullptr if there is none, or only one under another project's
  /// name. It points into this object.
  [[nodiscard]] const Origin* firm_limit() const noexcept;

  /// The bytes to take from a device at its first allocation, when `free_bytes` of `total_bytes`
  /// are free: the fraction (0.75 when unset) of the free or of the total memory, cut to the
  /// preallocation limit, to the hard limit, and to what the reserve leaves. 0 without
  /// preallocation, and while limit_unusable.
  [[nodiscard]] std::uint64_t preallocation(std::uint64_t free_bytes, std::uint64_t total_bytes,
                                            int device = 0) const;

  /// Whether memory is preallocated by default: no setting asks for that, or says how much.
  [[nodiscard]] bool preallocates_by_default() const noexcept {
    return preallocate.value == Preallocate::kSoft && !mem_fraction.is_set();
  }

  /// Whether the memory that this process does not use goes to other processes of the user under
  /// cubfc that ask for it. In a group it always does. Outside of groups it does unless a setting
  /// asks for memory to be held: CUBFC_PREALLOCATE (true or whole), a fraction, or
  /// CUBFC_ASYNC_PREALLOCATE.
  [[nodiscard]] bool gives_to_others() const noexcept;

  /// Whether any setting needs figures of what the program uses.
  [[nodiscard]] bool observes() const noexcept {
    return share_stats.value || track_callers.value || show_stats.value ||
           summary.value.has_value() || trace.value.has_value();
  }

  /// This policy for a process in which a runtime of XLA's or TensorFlow's takes memory itself.
  /// What the environment sets under XLA's and TensorFlow's names then sets no limit, no allocator
  /// and no unified memory for cubfc. The runtime applies these settings to its own requests, and
  /// its libraries take memory beside those requests. Settings under cubfc's own names, and in a
  /// policy file, stay.
  [[nodiscard]] Policy beside_xla() const;

  /// How many of `free_bytes` the reserve leaves to be taken, now or at any later growth.
  [[nodiscard]] std::uint64_t beyond_reserve(std::uint64_t free_bytes) const noexcept;
};

/// The policy that an environment and a policy file ask for. What the file enforces comes first,
/// then the environment, then the rest of the file; but an enforced limit holds beside another one.
/// Never fails: a value that cannot be used is in `warnings`, or, if it is a limit under cubfc's
/// own name or enforced, in `limit_explanation`. Throws only std::bad_alloc.
[[nodiscard]] Policy read_policy(const Environment& environment);
[[nodiscard]] Policy read_policy(const Environment& environment, const PolicyFile& file);

}  // namespace cubfc::config
