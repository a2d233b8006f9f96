#include "cli/program_words.h"

namespace cubfc::cli {

std::vector<std::string> take_program(const CLI::App& command, std::vector<std::string>& words) {
  if (words.empty() || words[0] != command.get_name()) {
    return {};
  }
  auto word = words.begin() + 1;
  while (word != words.end() && word->size() > 1 && (*word)[0] == '-' && *word != "--") {
    const std::size_t equals = word->find('=');
    const CLI::Option* const option = command.get_option_no_throw(word->substr(0, equals));
    const bool takes_next =
        option != nullptr && equals == std::string::npos && option->get_items_expected_max() > 0;
    ++word;
    if (takes_next && word != words.end()) {
      ++word;
    }
  }
  std::vector<std::string> program(word + (word != words.end() && *word == "--" ? 1 : 0),
                                   words.end());
  words.erase(word, words.end());
  return program;
}

}  // namespace cubfc::cli
