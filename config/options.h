// The one table of options. The reading of the environment, the warnings and the table of
// docs/options.md all come from it, so that they cannot disagree. Knows what each option is called
// and means; knows nothing of CUDA.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "config/policy.h"

namespace cubfc::config {

/// A value of any option, as its reader gives it.
using Value = std::variant<bool, std::uint64_t, std::int64_t, std::chrono::milliseconds, Fraction,
                           Allocator, Preallocate, FreeMode, StreamOrdered, Ipc, LimitCounts, Nvml,
                           FractionOf, LogLevel, DeviceAmounts, std::string>;

/// Reads a value that is not empty; nothing if the value is not accepted. `so_far`: when a limit is
/// read, all options that are no limits are in it. A fraction above 1 is
/// accepted only if `so_far` has unified memory.
using Reader = std::optional<Value> (*)(std::string_view text, const Policy& so_far);

/// Two names of another project, both with a number of MiB as their value. Neither counts unless
/// both are set.
struct Pair {
  std::string_view request;  ///< its value must not be above that of `limit`
  std::string_view limit;
};

/// One name under which an option may be set, with the words that its users know.
struct Spelling {
  std::string_view name;
  Reader read;
  std::string_view accepted;  ///< the accepted values, for people
  std::string_view note;      ///< how its values differ from ours, for the table; or empty
  /// True: a limit under this name does not change the size that the program sees of the device.
  bool hides_limit = false;
  /// True: the name with "_N" behind it sets the option for device N alone.
  bool is_numbered = false;
  /// The pair to which this name belongs; nullptr: none.
  const Pair* pair = nullptr;
  /// Returns, for a warning, what a value means to the project whose name this is, if users would
  /// not expect that meaning; else empty.
  std::string_view (*surprise)(std::string_view text) = nullptr;
};

/// What an option has to do with hard limits. A limit that is unreadable under our own name fails
/// closed: no device memory is given.
enum class Limits {
  kNot,
  kProcess,  ///< is a limit of the process. There may be three of them: an enforced one, the
             ///< container's, and another one; the lowest of these holds
  kGroup,    ///< is part of what limits a group
  kSheds,    ///< can take a limit's effect away (CUBFC_DISABLE, CUBFC_LIMIT_COUNTS). While a
             ///< limit is enforced, such an option counts only if it is enforced, too
};

struct Option {
  Spelling own;
  std::span<const Spelling> honoured;  ///< others' names, the newest first
  std::string_view default_text;       ///< a value; words where there is no default value
  std::string_view meaning;            ///< one line
  Limits limits;
  void (*store)(Policy&, const Value&, const Origin&);
  std::string (*show)(
      const Policy&);  ///< the value in force, as it would be written; "unset" if there is none
  const Origin& (*origin)(const Policy&);
};

/// All options, in the order in which they are shown. Static storage; any thread.
[[nodiscard]] std::span<const Option> options() noexcept;

/// The option of this CUBFC_ name, or nullptr.
[[nodiscard]] const Option* find_option(std::string_view own_name) noexcept;

/// The known CUBFC_ name that is spelled most like this one.
[[nodiscard]] std::string_view nearest_name(std::string_view name);

/// Whether sizes under this name are whole MiB without a unit.
[[nodiscard]] bool is_in_mebibytes(std::string_view name) noexcept;

/// Whether the option is a limit, or part of one.
[[nodiscard]] bool is_limit(const Option& option) noexcept;

/// Whether the option is set, by the environment or by a policy file.
[[nodiscard]] bool is_set(const Option& option, const Policy& policy);

/// What is in force for one option: "0.5 (XLA_CLIENT_MEM_FRACTION=0.5)", "bfc (default)".
[[nodiscard]] std::string in_force(const Option& option, const Policy& policy);

/// The table of docs/options.md, in Markdown, each line ended.
[[nodiscard]] std::string markdown_table();

}  // namespace cubfc::config
