// Keys, from the bytes that a terminal sends for them. Knows nothing of terminals.
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
  // What has been typed. The rest of a sequence may come later.
  std::vector<KeyPress> read(std::string_view bytes);
  // Whether a sequence has begun. When no more comes soon, it was the Escape key.
  bool is_waiting() const { return !begun_.empty(); }
  std::vector<KeyPress> give_up_waiting();

 private:
  std::string begun_;
};

}  // namespace cubfc::cli::top
