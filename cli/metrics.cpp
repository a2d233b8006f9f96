// `cubfc metrics`: the figures of the processes under cubfc, in Prometheus's text format.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/live/processes.h"
#include "cli/metrics/page.h"
#include "cli/report/wording.h"

namespace cubfc::cli {
namespace {

// As node_exporter's textfile collector wants it: the file is there whole, or as it was.
void replace_file(const std::string& path, const std::string& text) {
  const std::string unfinished = path + '.' + std::to_string(getpid());
  std::FILE* const file = std::fopen(unfinished.c_str(), "we");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    unlink(unfinished.c_str());
    throw Failure{path + ": " + why};
  }
}

}  // namespace

void add_metrics(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "metrics", "Figures of all processes under cubfc, in Prometheus's text format.");
  auto path = std::make_shared<std::string>();
  command
      ->add_option("-o,--output", *path,
                   "write to this file, which is replaced as a whole (standard output)")
      ->type_name("FILE");
  command->footer(
      "Root sees the processes of all users, others their own. A process that was started with "
      "CUBFC_SHARE_STATS=false is not seen.\n\n"
      "Example, every 15 seconds for node_exporter's textfile collector:\n"
      "  cubfc metrics -o /var/lib/prometheus/node-exporter/cubfc.prom");
  command->callback([path] {
    const live::Processes processes = live::read_processes();
    for (const std::string& problem : processes.unusable) {
      std::fprintf(stderr, "cubfc: %s\n", report::printable(problem).c_str());
    }
    const std::string text = metrics_text(processes);
    if (!path->empty()) {
      replace_file(*path, text);
    } else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
               std::fflush(stdout) != 0) {
      throw Failure{std::string("standard output: ") + std::strerror(errno)};
    }
  });
}

}  // namespace cubfc::cli
