// The terminal while something is drawn on it in place: other screen, no echo, keys at once; and as
// it was on every way out. Signals come as what wait() returns. One at a time in a process.
#pragma once

#include <termios.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <string_view>

namespace cubfc::cli::top {

struct Size {
  std::size_t columns;
  std::size_t lines;
};

class Terminal {
 public:
  // Throws std::system_error when it cannot be set up.
  Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  // Whether there is one that can be drawn on: stdin and stdout are terminals, TERM is not "dumb".
  static bool is_there();
  // As it is now; 80 by 24 where nobody knows.
  static Size size();

  enum class Event {
    kTime,     // nothing has happened
    kTyped,    // see typed()
    kResized,  // or back from the background: all has to be drawn again
    kEnd       // Ctrl-C, a signal that ends, or the terminal is gone
  };
  Event wait(std::chrono::nanoseconds at_most);
  const std::string& typed() const { return typed_; }

  // The whole screen: lines with '\n' between them, none longer than the screen is wide.
  void draw(std::string_view lines);

  // Puts the terminal back, and ends the process by the signal that ended wait(), if it was one
  // that says more than "done".
  void leave();

 private:
  void take_keys() noexcept;
  void enter();
  void restore() noexcept;
  void stop();
  bool write(std::string_view text, const timespec* patience) noexcept;

  termios before_{};
  sigset_t mask_before_{};  // signals come only while wait() and draw() wait
  bool is_entered_ = false;
  int ended_by_ = 0;
  std::string typed_;
};

}  // namespace cubfc::cli::top
