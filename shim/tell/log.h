// What cubfc says: to stderr or to CUBFC_LOG_FILE, at the level of CUBFC_LOG_LEVEL. Nothing is
// opened or created before the first message that is written.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/policy.h"
#include "shim/tell/format.h"

namespace cubfc::log {

using Level = config::LogLevel;

// When the library is loaded: remembers what stderr is. One system call.
void at_load() noexcept;

// Process calls it before it writes, one thread at a time; again in a forked child, and when it
// could not be made for lack of the host's memory, with the same arguments: the first call counts.
// `file`: a path, in which %p becomes the process id and %h the host; empty for stderr.
void start(Level level, const std::string& file);

// In the child: a thread of the parent may have been in the middle of a message. The child's next
// message makes a log of its own, which goes on in the same place.
void forked_in_child() noexcept;

// Of CUBFC_LOG_LEVEL, from start() on.
inline std::atomic<Level> lowest{Level::kWarn};
inline bool enabled(Level level) noexcept {
  return level >= lowest.load(std::memory_order_acquire) && level != Level::kOff;
}

// One message, without "cubfc: " and end of line. Thread-safe; never throws; after fork() in the
// child, too.
void write(Level level, const std::string& text) noexcept;

// A message that the user asked for or must see, whatever the level: reports and summaries.
void always(const std::string& text) noexcept;
// The same of several lines, each with what stands before a message; nothing without any.
void always(const std::vector<std::string>& lines);

// What stands before each message: "cubfc: ", and of a job of several processes also which one says
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
