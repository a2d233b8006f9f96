// How `cubfc sleep` and `cubfc wake` reach a process that can sleep: by a file of the process's, in
// the folder of the user's files (shared_files.h), in which a command leaves a request, and the
// process its answer. Knows nothing of what sleeping is.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shim/meet/shared_files.h"

namespace cubfc {

namespace sleep_mail {

enum class Request : std::uint32_t { kSleep = 1, kWake = 2 };

// The file. `asked` and `answered` count requests and answers: a request is open while they differ.
// `bell` and `answered` are futexes. A command that asks holds the lock of the file's first byte
// (fcntl), which ends with the command.
struct Page {
  std::atomic<std::uint32_t> magic;
  std::int32_t pid;
  std::atomic<std::uint32_t> bell;  // counts what the process is to look at
  std::atomic<std::uint32_t> asked;
  std::atomic<std::uint32_t> request;
  std::atomic<std::uint32_t> answered;
  std::atomic<std::uint32_t> is_done;
  std::array<char, 1000> text;  // zeros after it
};

}  // namespace sleep_mail

// The process's side. One thread calls serve(); interrupt() may be called by any.
class SleepMailbox {
 public:
  // Makes the file. False, and errno says why, if there can be none. Throws std::bad_alloc.
  bool open();
  // Removes the file. The mapping stays.
  void leave() noexcept;

  // Waits for a request, no longer than `most`, and passes it to answer(). The command gets what
  // that returns. Returns without an answer when interrupt() was called.
  struct Answer {
    bool is_done;
    std::string text;
  };
  void serve(std::chrono::milliseconds most,
             const std::function<Answer(sleep_mail::Request)>& answer);
  void interrupt() noexcept;
  bool is_interrupted() const noexcept { return is_interrupted_.load(); }

 private:
  std::optional<SharedFile> file_;
  sleep_mail::Page* page_ = nullptr;
  std::atomic<bool> is_interrupted_{false};
};

// The command's side. What a process has answered.
struct SleepAnswer {
  enum class Kind : std::uint8_t {
    kDone,
    kRefused,
    kNone,    // no answer in time: it is stopped, hangs, or has ended
    kBusy,    // another command is asking it
    kNobody,  // no process of this id can be asked
  };
  Kind kind = Kind::kNobody;
  std::string text;  // of kDone and kRefused
};
// Asks the process of this id, and waits for its answer, `most` at most. Throws std::bad_alloc.
SleepAnswer ask_to_sleep_or_wake(pid_t pid, sleep_mail::Request request, std::chrono::seconds most);

}  // namespace cubfc
