#include "cli/top/keys.h"

#include <algorithm>
#include <cstddef>

namespace cubfc::cli::top {
namespace {

constexpr char kEscapeByte = '\x1b';
constexpr std::size_t kLongest = 32;  // bytes, after which the end of a sequence is not awaited

// The length of the sequence at the beginning (ECMA-48): CSI, parameters, a letter or '~'; or SS3
// and a letter. 0: its end has not come yet.
std::size_t length_of_sequence(std::string_view bytes) {
  if (bytes.size() < 2) {
    return 0;
  }
  if (bytes[1] == 'O') {
    return bytes.size() < 3 ? 0 : 3;
  }
  if (bytes[1] != '[') {
    return 1;  // the Escape key, and then another key
  }
  for (std::size_t i = 2; i < bytes.size(); ++i) {
    if (bytes[i] < ' ' || bytes[i] > '?') {
      return i + 1;
    }
  }
  return bytes.size() > kLongest ? bytes.size() : 0;
}

Press meaning_of(std::string_view sequence) {
  if (sequence.size() == 1) {
    return Press::kEscape;
  }
  const std::string_view parameters = sequence.substr(2, sequence.size() - 3);
  switch (sequence.back()) {
    case 'A':
      return Press::kUp;
    case 'B':
      return Press::kDown;
    case 'H':
      return Press::kHome;
    case 'F':
      return Press::kEnd;
    case '~':
      return parameters == "5"                        ? Press::kPageUp
             : parameters == "6"                      ? Press::kPageDown
             : parameters == "1" || parameters == "7" ? Press::kHome
             : parameters == "4" || parameters == "8" ? Press::kEnd
                                                      : Press::kOther;
    default:
      return Press::kOther;
  }
}

}  // namespace

std::vector<KeyPress> Keys::read(std::string_view bytes) {
  begun_ += bytes;
  std::vector<KeyPress> presses;
  std::string_view rest = begun_;
  while (!rest.empty()) {
    std::size_t length = 1;
    if (rest[0] == kEscapeByte) {
      length = length_of_sequence(rest);
      if (length == 0) {
        break;
      }
      presses.push_back({meaning_of(rest.substr(0, length))});
    } else if (rest[0] == '\r' || rest[0] == '\n') {
      presses.push_back({Press::kEnter});
    } else {
      presses.push_back({Press::kCharacter, rest[0]});
    }
    rest.remove_prefix(length);
  }
  begun_ = std::string(rest);
  return presses;
}

std::vector<KeyPress> Keys::give_up_waiting() {
  std::vector<KeyPress> presses;
  if (is_waiting()) {
    presses.push_back({begun_.size() == 1 ? Press::kEscape : Press::kOther});
  }
  begun_.clear();
  return presses;
}

}  // namespace cubfc::cli::top
