// The `cubfc` command: reads the command line, and has the command do its work.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/run/library.h"

namespace cubfc::cli {
namespace {

int complain(const std::string& message, int exit_status) {
  if (!message.empty()) {
    std::fprintf(stderr, "cubfc: %s\n", message.c_str());
  }
  return exit_status;
}

// "help" and "help run" are "--help" and "run --help".
void read_help(std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.resize(std::min<std::size_t>(words.size(), 1));
    words.emplace_back("--help");
  }
}

// Adds the commands, and does what the words say. Throws Failure.
int parse(CLI::App& app, std::vector<std::string>& words) {
  add_check(app);
  add_compare(app, words);
  add_demo(app);
  add_fit(app, words);
  add_last(app);
  add_limit(app);
  add_metrics(app);
  add_report(app);
  add_replay(app);
  add_run(app, words);
  add_sleep(app);
  add_top(app);
  add_trim(app);
  add_wake(app);
  add_documentation(app);
  if (words.empty()) {
    std::fprintf(stderr, "%s", app.help().c_str());
    return kUsage;
  }
  if (const std::string unknown = unknown_command(app, words); !unknown.empty()) {
    refuse(unknown);
  }
  try {
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(std::move(words));
    return kDone;
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    refuse(explained(app, error));
  }
}

int run(std::vector<std::string> words) {
  CLI::App app{"What runs, shows and explains GPU memory under cubfc.", "cubfc"};
  app.set_version_flag("-V,--version", "cubfc " CUBFC_VERSION);
  app.formatter(help_formatter());
  app.require_subcommand(1);
  app.add_flag_callback(
      "--library",
      [] {
        std::puts(find_library(std::nullopt).c_str());
        throw CLI::Success();
      },
      "print the path of libcubfc.so, for LD_PRELOAD");
  app.footer(
      "New here? `cubfc demo` shows what it does, without a GPU.\n"
      "More of a command: `cubfc help COMMAND`.");
  read_help(words);
  try {
    return parse(app, words);
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
