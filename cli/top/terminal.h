// Sets up the terminal for a program that draws on the whole screen: the alternate screen, no echo,
// keys without Enter. Puts it back when the program ends or is stopped by Ctrl-Z. wait() tells of
// signals. A process may have one object at a time.
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

  // Whether there is a terminal to draw on: stdin and stdout are terminals, TERM is set and not
  // "dumb".
  static bool is_there();
  // The size now; if the terminal does not tell it, that of COLUMNS and LINES, else 80 by 24.
  static Size size();

  enum class Event {
    kTime,     // nothing has happened
    kTyped,    // see typed()
    kResized,  // or continued after a stop: all has to be drawn again
    kEnd       // Ctrl-C, a signal that ends the process, or the terminal is gone
  };
  Event wait(std::chrono::nanoseconds at_most);
  const std::string& typed() const { return typed_; }

  // Draws the whole screen: lines with '\n' between them, none longer than the screen is wide.
  void draw(std::string_view lines);

  // Puts the terminal back. If wait() has returned kEnd for a signal other than SIGINT, ends the
  // process by that signal.
  void leave();

 private:
  void take_keys() noexcept;
  void enter();
  void restore() noexcept;
  void stop();
  bool write(std::string_view text, const timespec* patience) noexcept;

  termios before_{};
  sigset_t mask_before_{};  // signals are let through only while wait() and draw() wait
  bool is_entered_ = false;
  int ended_by_ = 0;
  std::string typed_;
};

}  // namespace cubfc::cli::top
