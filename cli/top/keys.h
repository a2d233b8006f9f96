// Finds the keys in the bytes that a terminal sends for them. Does not read the terminal itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubfc::cli::top {

enum class Press {
  kCharacter,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kOther
};

struct KeyPress {
  Press press;
  char character = 0;  // of kCharacter
};

class Keys {
 public:
  // The keys in these bytes and those before. Keeps the beginning of a sequence whose rest has not
  // come.
  std::vector<KeyPress> read(std::string_view bytes);
  // Whether a sequence has begun. If no more bytes come soon, it was the Escape key: call
  // give_up_waiting(), which returns that.
  bool is_waiting() const { return !begun_.empty(); }
  std::vector<KeyPress> give_up_waiting();

 private:
  std::string begun_;
};

}  // namespace cubfc::cli::top
