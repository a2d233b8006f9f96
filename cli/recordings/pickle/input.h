// Takes the bytes of a pickle one after the other, and knows where the opcode began that they
// belong to. Does not know what an opcode means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "cli/recordings/input.h"

namespace cubfc::recordings {

// What a function returns is valid until the next call. Each throws BadRecording, with the byte of
// the opcode, where the file ends before the bytes that it takes.
class PickleInput {
 public:
  explicit PickleInput(Input& input) : input_(input) {}

  unsigned char take_opcode() {
    opcode_at_ = input_.offset();
    return static_cast<unsigned char>(take(1, "its next opcode")[0]);
  }
  // Takes so many bytes. `what` names them in a message.
  std::string_view take(std::uint64_t bytes, const char* what) {
    const std::string_view here = input_.ahead(static_cast<std::size_t>(bytes));
    if (here.size() < bytes) {
      fail("the pickle ends within " + std::string(what));
    }
    input_.skip(bytes);
    return here.substr(0, static_cast<std::size_t>(bytes));
  }
  // Takes a line, and returns it without its end.
  std::string_view take_line() {
    std::string_view line;
    if (!input_.line(line, kLongestLine)) {
      fail("the pickle ends within a line");
    }
    return line;
  }
  template <typename Number>
  Number take_number() {
    Number number{};
    std::memcpy(&number, take(sizeof(number), "a number").data(), sizeof(number));
    return number;
  }

  // Throws BadRecording, with the byte of the opcode that was taken last.
  [[noreturn]] void fail(const std::string& text) const { input_.fail(opcode_at_, text); }

 private:
  // Of text in a line of its own (protocols 0 and 1), in bytes.
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;

  Input& input_;
  std::uint64_t opcode_at_ = 0;
};

}  // namespace cubfc::recordings
