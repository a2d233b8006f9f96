#include "cli/program_words.h"

#include <string_view>

#include "cli/failure.h"
#include "config/values.h"

namespace cubfc::cli {
namespace {

constexpr std::string_view kEnd = "--";  // ends the options

// Called for the word behind a switch, which takes a value only by "=". True: `word` is the
// switch's value, since it reads as a boolean and "--" follows. False: `word` is the program or an
// option. Throws Failure where a boolean may be either.
bool is_value_of_switch(const std::string& flag, const std::vector<std::string>& words,
                        std::vector<std::string>::const_iterator word) {
  if (word == words.end() || !config::read_boolean(*word)) {
    return false;
  }
  if (word + 1 != words.end() && *(word + 1) == kEnd) {
    return true;
  }
  refuse(words[0] + ": is " + config::quoted(*word) + " the value of " + flag +
         ", or the program? " + flag + "=" + *word + " -- PROGRAM, or " + flag + " -- " + *word);
}

}  // namespace

std::vector<std::string> take_program(const CLI::App& command, std::vector<std::string>& words) {
  if (words.empty() || words[0] != command.get_name()) {
    return {};
  }
  auto word = words.begin() + 1;
  while (word != words.end() && word->size() > 1 && word->starts_with('-') && *word != kEnd) {
    const std::size_t equals = word->find('=');
    const CLI::Option* const option = command.get_option_no_throw(word->substr(0, equals));
    const auto flag = word++;
    if (option == nullptr || equals != std::string::npos) {
      continue;
    }
    if (option->get_items_expected_max() > 0) {
      word += word != words.end() && *word != kEnd ? 1 : 0;
    } else if (flag->starts_with(kEnd) && is_value_of_switch(*flag, words, word)) {
      *flag += "=" + *word;
      word = words.erase(word);
    }
  }
  std::vector<std::string> program(word + (word != words.end() && *word == kEnd ? 1 : 0),
                                   words.end());
  words.erase(word, words.end());
  return program;
}

}  // namespace cubfc::cli
