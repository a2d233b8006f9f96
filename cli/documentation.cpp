// `cubfc completion`, and `cubfc man-page`, by which the build makes the man page.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/documentation/completions.h"
#include "cli/documentation/man_page.h"
#include "cli/documentation/tree.h"

namespace cubfc::cli {
namespace {

void print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    throw Failure{"standard output cannot be written to"};
  }
}

}  // namespace

void add_documentation(CLI::App& app) {
  CLI::App* const completion =
      app.add_subcommand("completion", "What bash, zsh or fish needs to complete cubfc's words.");
  const auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "accepted: bash, zsh or fish")
      ->type_name("")
      ->required()
      ->check(CLI::Validator(CLI::IsMember({"bash", "zsh", "fish"})).description(""));
  completion->footer(R"(
Examples:
  source <(cubfc completion bash)
  cubfc completion zsh > "${fpath[1]}/_cubfc"
  cubfc completion fish > ~/.config/fish/completions/cubfc.fish)");
  completion->callback([&app, shell] {
    const documentation::Tree tree = documentation::tree_of(app);
    print(*shell == "bash"  ? documentation::bash_completion(tree)
          : *shell == "zsh" ? documentation::zsh_completion(tree)
                            : documentation::fish_completion(tree));
  });
  CLI::App* const man = app.add_subcommand("man-page", "The man page, in troff.")->group("");
  man->callback(
      [&app] { print(documentation::man_page(documentation::tree_of(app), CUBFC_VERSION)); });
}

}  // namespace cubfc::cli
