#include "cli/report/program_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "cli/recordings/file_name.h"

namespace cubfc::report {
namespace {

using recordings::file_name;
using Words = std::vector<std::string_view>;

struct Interpreter {
  std::string_view name;  // of the file, without a version: "python" for "python3.11"
  // Options whose value is the next word; options whose value is the program, instead of a script;
  // options whose value is the text of a program, which has no name.
  std::array<std::string_view, 8> with_value;
  std::array<std::string_view, 2> names_program;
  std::array<std::string_view, 4> inline_program;
};
constexpr std::array<Interpreter, 6> kInterpreters{{
    {"python", {"-W", "-X", "--check-hash-based-pycs"}, {"-m"}, {"-c"}},
    {"pypy", {"-W", "-X"}, {"-m"}, {"-c"}},
    {"node", {"-r", "--require", "--import", "--loader"}, {}, {"-e", "--eval", "-p", "--print"}},
    {"java",
     {"-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-modules", "-javaagent"},
     {"-jar", "-m"},
     {}},
    {"bash", {"-o", "-O", "--rcfile", "--init-file"}, {}, {"-c"}},
    {"sh", {"-o"}, {}, {"-c"}},
}};

Words words_of(std::string_view text) {
  Words words;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    if (end > start) {
      words.push_back(text.substr(start, end - start));
    }
    start = end + 1;
  }
  return words;
}

const Interpreter* interpreter_of(std::string_view word) {
  std::string_view name = file_name(word);
  name = name.substr(0, name.find_last_not_of("0123456789.") + 1);
  const auto found = std::ranges::find(kInterpreters, name, &Interpreter::name);
  return found == kInterpreters.end() ? nullptr : found;
}

// The index of the word that names the program which an interpreter runs; nothing if none does.
std::optional<std::size_t> position_of_program(const Words& words) {
  const Interpreter* const interpreter = words.empty() ? nullptr : interpreter_of(words[0]);
  const auto is_one_of = [](const auto& options, std::string_view word) {
    return std::ranges::find(options, word) != options.end();
  };
  for (std::size_t i = 1; interpreter != nullptr && i < words.size(); ++i) {
    if (!words[i].starts_with('-') || words[i] == "-") {
      return words[i] == "-" ? std::nullopt : std::optional(i);
    }
    if (is_one_of(interpreter->inline_program, words[i])) {
      return std::nullopt;
    }
    if (is_one_of(interpreter->names_program, words[i])) {
      return i + 1 < words.size() ? std::optional(i + 1) : std::nullopt;
    }
    i += is_one_of(interpreter->with_value, words[i]) ? 1U : 0U;
  }
  return std::nullopt;
}

}  // namespace

std::string program_name(std::string_view command_line) {
  const Words words = words_of(command_line);
  const std::size_t position = position_of_program(words).value_or(0);
  return words.empty() ? "" : std::string(file_name(words[position]));
}

std::string program_text(std::string_view command_line) {
  const Words words = words_of(command_line);
  const std::optional<std::size_t> position = position_of_program(words);
  if (!position) {
    return std::string(command_line);
  }
  const char* const rest = words[*position].data() + words[*position].size();
  return std::string(file_name(words[*position])) +
         std::string(rest, command_line.data() + command_line.size());
}

}  // namespace cubfc::report
