#include "cli/help.h"

#include <string>
#include <string_view>

namespace cubfc::cli {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kOptions = 28;  // the column of the names

std::string wrapped(std::string_view text, std::size_t width) {
  std::string result;
  while (text.size() > width) {
    std::size_t end = text.rfind(' ', width);
    end = end == std::string_view::npos ? text.find(' ') : end;
    if (end == std::string_view::npos) {
      break;
    }
    result.append(text.substr(0, end)).append("\n");
    text.remove_prefix(end + 1);
  }
  return result.append(text);
}

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kOptions); }

  // A flag that stands for a value is declared as --name{value}.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    for (std::size_t brace = 0; (brace = name.find('{')) != std::string::npos;) {
      name.erase(brace, name.find('}', brace) - brace + 1);
    }
    return name;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), kWidth - kOptions);
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
}

}  // namespace cubfc::cli
