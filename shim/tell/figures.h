// The figures of a process under cubfc: what its program uses of each device, by what function and
// by whom. One block of memory without pointers, so that it can lie in a file that other processes
// read while it is written, as `cubfc top` and `cubfc metrics` do. The summary at exit is written
// from it, too. Knows nothing of CUDA, nor of files.
//
// Sizes are in bytes. Every figure is right by itself at any moment; two of them may be of
// different moments.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arena/figures.h"
#include "shim/tell/trace_format.h"

namespace cubfc::figures {

using arena::Figure;
using arena::put;
using arena::read;

// The version of the layout is in the files' names, so a reader that knows another version does not
// open them.
inline constexpr std::string_view kFileKind = "figures-5-";
inline constexpr std::uint32_t kMagic = 0x63756266;

inline constexpr std::size_t kDevices = 16;
inline constexpr std::size_t kArenas = 64;  // contexts at one time: each takes some 100 MB of a GPU
inline constexpr std::size_t kMapCells = 256;

// Text that is written once, before readers are told that it is there; cut if it is too long.
template <std::size_t kBytes>
struct Text {
  std::array<char, kBytes> characters;  // zeros after the text

  void set(std::string_view text) noexcept {
    const std::size_t length = text.size() < kBytes ? text.size() : kBytes - 1;
    text.copy(characters.data(), length);
  }
  // Never more than kBytes, whatever is in the file.
  std::string_view get() const noexcept {
    const std::string_view all(characters.data(), kBytes);
    return all.substr(0, all.find('\0'));
  }
};

// What the program has by one kind of function. For Memory::kArena only the peak is here; for the
// rest see ArenaFigures.
struct MemoryFigures {
  Figure bytes_in_use;
  Figure peak_bytes_in_use;
  Figure num_allocs;
  Figure num_frees;
  Figure num_failures;
};

struct DeviceFigures {
  // Set once.
  std::atomic<std::uint32_t> ready;  // 1: the device is known
  std::int32_t number;
  std::array<unsigned char, 16> uuid;  // zeros: not known
  Text<64> name;
  std::uint64_t total_bytes;
  Text<16> allocator;
  Text<16> free_mode;
  Text<32> limit_origin;        // the variable of the least limit when the device became known
  Text<72> group;               // the group whose budget the process shares; empty: none
  Text<32> group_limit_origin;  // the variable of the group's limit

  // These two change only if the group's limit is changed while its programs run.
  Figure limit_bytes;  // ~0: none
  Figure group_limit_bytes;

  // All kinds together: their peak, each kind's part of it, and how many peaks there have been.
  Figure peak_bytes_in_use;
  std::array<Figure, trace::kMemories> at_peak;
  Figure peaks;
  std::array<MemoryFigures, trace::kMemories> of;

  // Taken of the device: by arenas, by the program beside them, and by preallocation.
  Figure bytes_taken;
  Figure peak_bytes_taken;
  Figure bytes_reserved;  // preallocated and in no arena
  Figure bytes_asleep;    // of arenas: on the host while the program sleeps, and not taken
  Figure driver_calls;    // by which arenas took memory and gave it back
  Figure refused;         // requests that failed for lack of memory
  Figure last_refused_bytes;
  Figure free_waits;  // frees that waited for the device for some 10 µs and more
  Figure free_waits_ns;

  std::array<arena::CallerFigures, arena::kCallers> callers;  // in bytes, without what is in arenas

  // The map of the device's arenas: kMapCells characters of '*', 'x' and '_' (see draw_map()). A
  // reader that wants a new one sets `map_wanted` to `map_drawn` + 1; MapDrawer draws it some time
  // later.
  std::atomic<std::uint32_t> map_wanted;
  std::atomic<std::uint32_t> map_drawn;
  std::array<char, kMapCells> map;
};

// Of a context's arena.
struct ArenaFigures {
  std::atomic<std::uint32_t> device;  // 1 + its device's index in `devices`; 0: entry is not used
  arena::Figures figures;
};

struct ProcessFigures {
  std::atomic<std::uint32_t> magic;  // kMagic, once all that never changes is there
  std::uint32_t bytes;               // sizeof(ProcessFigures)
  std::int32_t pid;                  // in its own namespace
  std::int32_t run_pid;              // of the `cubfc run` that it comes from; 0: none
  std::atomic<std::uint32_t> told;   // 1: a command has shown these figures after the process ended
  std::uint32_t is_forked;           // 1: it was forked, and has executed no program since
  std::uint64_t start_unix_ns;
  Text<32> version;
  Text<64> host;
  Text<256> program;  // the command line, with spaces
  Text<256> labels;   // CUBFC_LABELS
  std::atomic<std::uint32_t> num_callers;
  // The file names of the shared objects that ask for memory. The first stands for all that are not
  // known, the last for all that came when no other was left.
  std::array<Text<96>, arena::kCallers> callers;
  std::array<DeviceFigures, kDevices> devices;
  std::array<ArenaFigures, kArenas> arenas;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && Figure::is_always_lock_free);

// The variable that has set limit_bytes.
std::string_view limit_origin(const DeviceFigures& device) noexcept;

// "GPU-7374616e-6469-...", as NVIDIA's tools write it; empty if it is not known.
std::string uuid_text(const DeviceFigures& device);

// What is added up from several figures of a device, for whoever shows them.
struct Sums {
  std::uint64_t in_use = 0;
  std::array<std::uint64_t, trace::kMemories> of{};  // the parts of in_use
  std::uint64_t waiting = 0;                         // of in_use: freed, and not to be used yet
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;
  std::uint64_t arena_bytes = 0;   // which arenas have of the device
  std::uint64_t usable_bytes = 0;  // what blocks can use of them
  std::uint64_t largest_free = 0;  // the largest free block of an arena
  struct Caller {
    std::uint64_t now = 0;
    std::uint64_t at_peak = 0;
  };
  std::array<Caller, arena::kCallers> by_caller{};
};
Sums sum_of(const ProcessFigures& process, std::size_t device) noexcept;
// The bytes that arenas have of the device and no block uses. Blocks that wait count as used.
std::uint64_t idle_bytes(const Sums& sums) noexcept;
// The share of idle_bytes() that no single request could have: 0 if all is in one piece.
double fragmentation(const Sums& sums) noexcept;

// The objects that have asked for what is in use now, or was at the peak, the most first. Empty if
// objects are not told apart.
struct CallerPart {
  std::string_view name;  // lies in the figures
  std::uint64_t bytes;
};
enum class When : bool { kNow, kAtPeak };
std::vector<CallerPart> callers_of(const ProcessFigures& process, const Sums& sums, When when);

}  // namespace cubfc::figures
