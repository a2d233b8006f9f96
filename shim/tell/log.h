// What cubfc says: to stderr or to CUBFC_LOG_FILE, at the level of CUBFC_LOG_LEVEL. Nothing is
// opened or created before the first message that is written.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/policy.h"
#include "shim/tell/format.h"

namespace cubfc::log {

using Level = config::LogLevel;

// Called when the library is loaded: remembers which file stderr is. One system call.
void at_load() noexcept;

// Called before anything is written, by one thread at a time: by Process, or at the exit of a
// program in which no Process was made. A forked child, and a process that had no host memory for
// its Process, may call it again with the same arguments; such a call changes nothing. `file`: a
// path, in which %p becomes the process id and %h the host; empty for stderr.
void start(Level level, const std::string& file);

// Called in a forked child. A thread of the parent may have been in the middle of a message, and
// have held the logger's lock. So the child's next message makes another logger, which writes to
// stderr or to the file of the child's own process id.
void forked_in_child() noexcept;

// The level of CUBFC_LOG_LEVEL, from start() on.
inline std::atomic<Level> lowest{Level::kWarn};
inline bool enabled(Level level) noexcept {
  return level >= lowest.load(std::memory_order_acquire) && level != Level::kOff;
}

// Writes one message, given without "cubfc: " and end of line. If the host has no memory for the
// message, it is lost. Thread-safe, also in a forked child; never throws.
void write(Level level, std::string_view text) noexcept;

// A message that the user asked for or must see, whatever the level: reports and summaries.
void always(std::string_view text) noexcept;
// The same for several lines, each with prefix() before it. Writes nothing if there are none.
void always(const std::vector<std::string>& lines);

// What stands before each message: "cubfc: "; in a job of several processes also which one writes
// it, "cubfc: rank 3: ".
std::string prefix();

template <typename... Args>
[[gnu::noinline]] void put_together(Level level, fmt::format_string<Args...> format,
                                    Args&&... args) noexcept try {
  write(level, cubfc::format(format, std::forward<Args>(args)...));
} catch (...) {
  write(Level::kError, "a message could not be put together");
}

template <typename... Args>
void at(Level level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (enabled(level)) {
    put_together(level, format, std::forward<Args>(args)...);
  }
}

template <typename... Args>
void trace(fmt::format_string<Args...> format, Args&&... args) noexcept {
  at(Level::kTrace, format, std::forward<Args>(args)...);
}
template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) noexcept {
  at(Level::kDebug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) noexcept {
  at(Level::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) noexcept {
  at(Level::kWarn, format, std::forward<Args>(args)...);
}

inline std::string bytes(std::uint64_t count) {
  return bytes_text(count);
}

}  // namespace cubfc::log
