#include "cli/help.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "cli/top/terminal.h"

namespace cubfc::cli {
namespace {

constexpr std::size_t kOptions = 28;  // columns for the names of options

// The columns of the terminal, within bounds in which a text can be read well.
std::size_t width() {
  constexpr std::size_t kNarrow = 60;
  constexpr std::size_t kWide = 100;
  return std::clamp(top::Terminal::size().columns, kNarrow, kWide);
}

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

  // CLI11 shows a flag that is declared as "--name{value}" with its braces: leaves the braces out.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    for (std::size_t brace = 0; (brace = name.find('{')) != std::string::npos;) {
      name.erase(brace, name.find('}', brace) - brace + 1);
    }
    return name;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), width() - kOptions);
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), width()) + "\n";
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_display_name(true),
                             wrapped(command->get_description(), width() - kOptions), kOptions);
    return out.str();
  }
  // Joins lines that follow each other to a paragraph and wraps it. Empty and indented lines stay
  // as they are.
  std::string make_footer(const CLI::App* app) const override {
    std::string result;
    std::string paragraph;
    const auto end_paragraph = [&] {
      result += paragraph.empty() ? "" : wrapped(paragraph, width()) + "\n";
      paragraph.clear();
    };
    const std::string footer = app->get_footer();
    std::string_view rest = footer;
    rest.remove_prefix(std::min(rest.find_first_not_of('\n'), rest.size()));
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (line.empty() || line.starts_with(' ')) {
        end_paragraph();
        result.append(line).append("\n");
      } else {
        paragraph += (paragraph.empty() ? "" : " ") + std::string(line);
      }
    }
    end_paragraph();
    return result;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
}

}  // namespace cubfc::cli
