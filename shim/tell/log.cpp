#include "shim/tell/log.h"

#include <fcntl.h>
#include <spdlog/formatter.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "arena/kept_errno.h"
#include "shim/tell/no_signal.h"
#include "shim/tell/program.h"

namespace cubfc::log {
namespace {

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::kTrace:
      return spdlog::level::trace;
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kCritical:
      return spdlog::level::critical;
    case Level::kOff:
      break;
  }
  return spdlog::level::off;
}

// Neither the settings nor the logger are ever destroyed: the program may allocate from a static
// destructor, after cubfc's would have run. A pointer to either is stored only when the object is
// complete. So a child that is forked while another thread makes the object finds a complete object
// or nullptr.
struct Settings {
  Level level;
  std::string file;
  std::string prefix;
};
std::atomic<const Settings*> the_settings{nullptr};

std::string file() {
  const Settings* const settings = the_settings.load(std::memory_order_acquire);
  return settings == nullptr ? "" : settings->file;
}

// "cubfc: " and the message; under CUBFC_LOG_LEVEL=debug or lower, UTC and the process and thread
// before the message. spdlog's own formatter calls localtime_r, whose lock stays taken in a forked
// child if another thread of the parent was in it.
class Formatter final : public spdlog::formatter {
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& text) override {
    const auto end = std::back_inserter(text);
    fmt::format_to(end, "{}", prefix());
    if (lowest.load() <= Level::kDebug) {
      const auto since_midnight = std::chrono::duration_cast<std::chrono::microseconds>(
          message.time.time_since_epoch() % std::chrono::hours(24));
      const std::chrono::hh_mm_ss<std::chrono::microseconds> time(since_midnight);
      fmt::format_to(end, "{:02}:{:02}:{:02}.{:06}Z {}/{} ", time.hours().count(),
                     time.minutes().count(), time.seconds().count(), time.subseconds().count(),
                     getpid(), message.thread_id);
    }
    text.append(message.payload.begin(), message.payload.end());
    text.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<Formatter>();
  }
};

void give_format(spdlog::logger& logger) {
  logger.set_formatter(std::make_unique<Formatter>());
  logger.set_level(spdlog::level::trace);
  logger.flush_on(spdlog::level::trace);
  logger.set_error_handler([](const std::string&) {});  // a full disk is no reason to fail
}

// Identifies the file that a descriptor is of.
struct Identity {
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint64_t inode = 0;
  bool operator==(const Identity&) const = default;
};
// Makes the system call itself: at load, another library that overrides the C library's function
// may not be ready for a call.
std::optional<struct statx> status_of(int descriptor) {
  struct statx status {};
  constexpr unsigned kWanted = STATX_TYPE | STATX_NLINK | STATX_INO;
  return syscall(SYS_statx, descriptor, "", AT_EMPTY_PATH, kWanted, &status) == 0
             ? std::optional(status)
             : std::nullopt;
}
[[gnu::section(".text.startup")]] std::optional<Identity> identity_of(int descriptor) {
  const auto status = status_of(descriptor);
  return status ? std::optional(
                      Identity{status->stx_dev_major, status->stx_dev_minor, status->stx_ino})
                : std::nullopt;
}

// What stderr was when the program started; zeros: it was closed.
std::atomic<const Identity*> first_stderr{nullptr};

// Whether descriptor 2 is still where messages belong. If the program has pointed stderr elsewhere,
// messages follow it. But if the program has closed it, the number may be that of a file or
// connection of the program's. (A file that the program has opened only for writing, a pipe, and a
// file without a name cannot be told from a new stderr. pytest points stderr at a file without a
// name.)
bool is_stderr() {
  const auto now = identity_of(STDERR_FILENO);
  const Identity* const first = first_stderr.load(std::memory_order_acquire);
  if (!now || first == nullptr || *now == *first || *first == Identity{}) {
    return now && (first == nullptr || *now == *first);
  }
  const auto status = status_of(STDERR_FILENO);
  const bool reads = (fcntl(STDERR_FILENO, F_GETFL) & O_ACCMODE) != O_WRONLY;
  const bool is_named_file = status && S_ISREG(status->stx_mode) && status->stx_nlink > 0;
  return status && !S_ISSOCK(status->stx_mode) && !(is_named_file && reads);
}

void write_all(int descriptor, const spdlog::memory_buf_t& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t now = ::write(descriptor, text.data() + written, text.size() - written);
    if (now < 0 && errno != EINTR) {
      return;  // a full disk is no reason to fail
    }
    written += now < 0 ? 0 : static_cast<std::size_t>(now);
  }
}

class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    if (is_stderr()) {
      write_all(STDERR_FILENO, text);
    }
  }
  void flush_() override {}
};

// Appends to a file. The program may close the descriptor, and get its number for a file of its
// own: then the log's file is opened again.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Throws std::runtime_error when it cannot be opened.
  explicit FileSink(std::string path) : path_(std::move(path)) {
    if (!open_file()) {
      throw std::runtime_error(
          path_ + ": " +
          (errno == ELOOP ? "is a symbolic link, which is not followed" : std::strerror(errno)));
    }
  }
  ~FileSink() override {
    if (is_open()) {
      close(descriptor_);
    }
  }

 private:
  bool open_file() {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ < 0) {
      return false;  // errno is open()'s
    }
    identity_ = identity_of(descriptor_).value_or(Identity{});
    return true;
  }
  bool is_open() const { return descriptor_ >= 0 && identity_of(descriptor_) == identity_; }

  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    if (is_open() || open_file()) {
      write_all(descriptor_, text);
    }
  }
  void flush_() override {}

  const std::string path_;
  int descriptor_ = -1;
  Identity identity_;
};

// Where the log goes. If it cannot go to its file, it goes to stderr, and `problem` says why.
spdlog::sink_ptr make_sink(std::string& problem) {
  if (!file().empty()) {
    try {
      return std::make_shared<FileSink>(expanded_path(file()));
    } catch (const std::runtime_error& error) {
      problem = error.what();
    }
  }
  return std::make_shared<StderrSink>();
}

// Never destroyed. Not in spdlog's registry, which is destroyed at exit.
std::atomic<spdlog::logger*> the_logger{nullptr};

// Makes the logger for the first message. If several threads make one, the first one's is kept.
spdlog::logger& logger() {
  spdlog::logger* known = the_logger.load(std::memory_order_acquire);
  if (known == nullptr) {
    std::string problem;
    auto* const made = new spdlog::logger("cubfc", make_sink(problem));
    give_format(*made);
    if (the_logger.compare_exchange_strong(known, made)) {
      known = made;
      if (!problem.empty()) {
        made->warn("CUBFC_LOG_FILE: {}; logging to stderr", problem);
      }
    } else {
      delete made;
    }
  }
  return *known;
}

void write_at(spdlog::level::level_enum level, std::string_view text) noexcept {
  const KeptErrno kept;
  const NoSignal no_sigpipe(SIGPIPE);
  try {
    logger().log(level, spdlog::string_view_t(text.data(), text.size()));
  } catch (...) {  // no memory for a message: the program's work goes on
  }
}

}  // namespace

std::string prefix() {
  const Settings* const settings = the_settings.load(std::memory_order_acquire);
  return settings == nullptr ? "cubfc: " : settings->prefix;
}

void start(Level level, const std::string& file) {
  if (the_settings.load(std::memory_order_acquire) == nullptr) {
    const std::string rank = rank_of_process();
    the_settings.store(new Settings{level, file, "cubfc: " + (rank.empty() ? "" : rank + ": ")},
                       std::memory_order_release);
  }
  lowest.store(level, std::memory_order_release);  // so whoever sees the level sees the file, too
}

[[gnu::section(".text.startup")]] void at_load() noexcept {
  static constinit Identity kept;
  kept = identity_of(STDERR_FILENO).value_or(Identity{});
  first_stderr.store(&kept, std::memory_order_release);
}

void forked_in_child() noexcept {
  the_logger.store(nullptr);
}

void write(Level level, std::string_view text) noexcept {
  if (enabled(level)) {
    write_at(level_of(level), text);
  }
}

void always(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) {
      text += '\n';
      text += prefix();
    }
    text += line;
  }
  if (!lines.empty()) {
    always(std::string_view(text));
  }
}

void always(std::string_view text) noexcept {
  write_at(spdlog::level::critical, text);
}

}  // namespace cubfc::log
