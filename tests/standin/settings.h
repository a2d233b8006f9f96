// What the user of the software driver asked for by environment variables (README.md lists them).
// Knows no CUDA and no state of the driver.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace standin {

inline constexpr int kMaxDevices = 16;
inline constexpr std::uint64_t kForEver = UINT64_MAX;

struct LatencyRule {
  std::string function;
  std::chrono::nanoseconds latency;
};

// Calls number `first` (from 1) and the `times - 1` after it return `error`.
struct FailureRule {
  std::string function;
  int error;
  std::uint64_t first;
  std::uint64_t times;
};

// The answer of one entry of the behaviour file, in the place of the file's own.
struct OtherAnswer {
  std::string entry;
  std::uint64_t number;
  std::optional<bool> capture_survives;  // as the file says if unset
};

struct Settings {
  int devices = 1;
  int driver_version = 13000;
  int integrated = 0;                 // 1: the devices' memory is the host's
  int decompression = 0;              // 1: the devices decompress in hardware
  int capability = 90;                // ten times the major number, and the minor one
  int multiprocessors = 132;          // of each device
  int threads = 2048;                 // that a multiprocessor has at once
  bool keeps_data = true;             // contents.h
  std::vector<std::size_t> memory;    // bytes of each device, not empty; the last one repeats
  std::vector<std::size_t> reserved;  // bytes of each device that others hold, in the same form
  // Bytes of each device that the driver gives at most, in the same form; empty: all.
  std::vector<std::size_t> limits;
  std::size_t context_bytes = 0;  // of its device, that a context takes
  bool works_when_asked = false;  // a stream's work begins once somebody asks for its end
  std::chrono::nanoseconds work_delay{0};
  std::chrono::nanoseconds teardown{0};  // until what a process had comes back after its end
  std::vector<LatencyRule> latencies;
  std::vector<FailureRule> failures;
  std::optional<std::vector<std::pair<int, int>>> peers;  // that can reach each other; all if unset
  std::string report;                                     // path; %p in it is the process id
  std::string shared;                                     // path of the usage that processes share
  std::string behaviour;  // path of the behaviour data; what was built in if empty
  std::vector<OtherAnswer> answers;
  bool maps = true;            // the devices have virtual memory management
  bool has_pools = true;       // the devices have memory pools
  bool shares_managed = true;  // host and device use managed memory at the same time
  bool has_dma_buf = true;     // memory can be exported as a dma-buf
  std::string asked;           // path to which each entry goes that is asked for; none if empty
  std::string name = "standin software GPU";  // of each device
  std::string refused;  // path to which goes who asks for private tables; none if empty
  std::string jit;      // path of libnvJitLink; none if empty

  std::size_t memory_of(int device) const { return At(memory, device); }
  // What the driver keeps from this process by its limit, and with what others hold.
  std::size_t withheld_of(int device) const;
  std::size_t reserved_of(int device) const;
  // Whether the hardware lets one device reach another's memory.
  bool are_peers(int one, int other) const;

 private:
  static std::size_t At(const std::vector<std::size_t>& list, int device) {
    const auto index = static_cast<std::size_t>(device);
    return index < list.size() ? list[index] : list.back();
  }
};

// Read from the environment, and the profile that it names, at first use. A bad value ends the
// process with one line that names the variable. The reference may be written to until the driver
// is initialized.
Settings& settings();

// Sets one variable as if it stood in the environment. False if name or value is not valid.
bool Apply(Settings& settings, std::string_view name, std::string_view value);

}  // namespace standin
