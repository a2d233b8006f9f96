// A value in force, and where it came from.
#pragma once

#include <cstdint>
#include <string>

namespace cubfc::config {

/// Where a setting's value came from.
struct Origin {
  std::string variable;   ///< its name; empty for the default
  std::string value;      ///< as the user wrote it, white space trimmed; may be hostile text
  bool own_name = false;  ///< the variable has a CUBFC_ name
  /// True: the program sees a limit of this origin as the size of the device.
  bool sizes_device = true;
  std::string file = {};  ///< the policy file that sets the variable; empty: the environment does
  bool enforced = false;  ///< that file enforces the value
  std::string by = {};    ///< who has set the variable, in their own words: "num_gpus=0.25"

  /// For a message: "default", "CUBFC_RESERVE", or "XLA_CLIENT_MEM_FRACTION=0.75+" where another
  /// project's name was honoured, "CUBFC_RESERVE in /etc/cubfc.conf", "CUBFC_MEM_LIMIT, by
  /// num_gpus=0.25". One line, fit for a terminal.
  [[nodiscard]] std::string text() const;

  bool operator==(const Origin&) const = default;
};

/// The value in force and its origin.
template <class T>
struct Setting {
  T value{};
  Origin origin;

  /// False when the value in force is the default.
  [[nodiscard]] bool is_set() const noexcept { return !origin.variable.empty(); }
};

/// The most that a process may hold of a device, and which setting says so. `origin` is nullptr if
/// a setting of a limit cannot be read (Policy::limit_unusable); `bytes` is 0 then.
struct HardLimit {
  std::uint64_t bytes;
  const Origin* origin;

  /// Whether the program sees the limit as the device's size. False for a fraction under a name of
  /// XLA's: JAX multiplies the device's size by the fraction itself, and the fraction would count
  /// twice.
  [[nodiscard]] bool is_seen() const noexcept { return origin != nullptr && origin->sizes_device; }
};

}  // namespace cubfc::config
