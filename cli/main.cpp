// The `cubfc` command: reads the command line, and has the command do its work.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/run/library.h"
#include "config/values.h"

namespace cubfc::cli {
namespace {

int complain(const std::string& message, int exit_status) {
  if (!message.empty()) {
    std::fprintf(stderr, "cubfc: %s\n", message.c_str());
  }
  return exit_status;
}

// The first word, if it should be a command and is none; else nothing.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) {
    return {};
  }
  const std::string& word = words[0];
  std::string nearest;
  for (const CLI::App* const command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    if (name == word) {
      return {};
    }
    if (nearest.empty() ||
        config::edit_distance(word, name) < config::edit_distance(word, nearest)) {
      nearest = name;
    }
  }
  const std::size_t most = word.size() < 5 ? 1 : 2;  // of letters that differ
  const bool is_near = word.size() < 32 && config::edit_distance(word, nearest) <= most;
  return "there is no command " + config::quoted(word) +
         (is_near ? "; did you mean \"" + nearest + "\"?" : "; see `cubfc --help`");
}

int run(std::vector<std::string> words) {
  CLI::App app{"What runs, shows and explains GPU memory under cubfc.", "cubfc"};
  app.set_version_flag("--version", "cubfc " CUBFC_VERSION);
  app.formatter(help_formatter());
  app.require_subcommand(1);
  app.add_flag_callback(
      "--library",
      [] {
        std::puts(find_library(std::nullopt).c_str());
        throw CLI::Success();
      },
      "print the path of libcubfc.so, for LD_PRELOAD");
  app.footer("See `cubfc COMMAND --help`.");
  add_check(app);
  add_compare(app, words);
  add_last(app);
  add_limit(app);
  add_metrics(app);
  add_report(app);
  add_replay(app);
  add_run(app, words);
  add_top(app);
  add_trim(app);
  add_documentation(app);
  if (const std::string unknown = unknown_command(app, words); !unknown.empty()) {
    return complain(unknown, kUsage);
  }
  try {
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(std::move(words));
    return kDone;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  } catch (const Failure& failure) {
    return complain(failure.message, failure.exit_status);
  }
}

}  // namespace
}  // namespace cubfc::cli

int main(int count, char** words) {
  try {
    return cubfc::cli::run({words + 1, words + count});
  } catch (const std::exception& error) {
    return cubfc::cli::complain(error.what(), cubfc::cli::kFailed);
  }
}
