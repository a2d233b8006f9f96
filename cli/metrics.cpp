// `cubfc metrics`: the figures of the processes under cubfc, in Prometheus's text format.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/live/processes.h"
#include "cli/metrics/address.h"
#include "cli/metrics/names.h"
#include "cli/metrics/page.h"
#include "cli/metrics/server.h"
#include "cli/report/wording.h"

namespace cubfc::cli {
namespace {

constexpr const char* kMetricsFooter = R"(
Root sees the processes of all users, others their own. A process that was started with
CUBFC_SHARE_STATS=false is not seen.

--listen answers http://ADDRESS/metrics as Prometheus's exporters do, each time with what is
then, until SIGTERM or SIGINT. ADDRESS is HOST:PORT, such as [::1]:9834; a port alone (9834,
:9834) is 127.0.0.1, this machine; 0.0.0.0:9834 and [::]:9834 are all of its networks. Whoever
can reach it, other users of this machine among them, reads the names of programs, users,
hosts, groups and libraries, the labels of CUBFC_LABELS, and sizes; no arguments. There is no
password and no TLS: put a proxy in front where that is wanted.

Exit status: 0 done, 1 the file cannot be written or the address cannot be had, 2 the command
line is wrong.

Examples:
  cubfc metrics --listen 9834
  cubfc metrics -o /var/lib/prometheus/node-exporter/cubfc.prom
)";

struct MetricsWords {
  std::string path;
  std::string address;
};

// Replaces the file as a whole: node_exporter's textfile collector must not read half of one.
// Throws Failure.
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

// Makes the page of each scrape. Keeps what it has told and learnt from one page to the next.
class Pages {
 public:
  std::string read() {
    const live::Processes processes = live::read_processes();
    if (processes.unusable != told_) {
      told_ = processes.unusable;
      for (const std::string& problem : told_) {
        std::fprintf(stderr, "cubfc: %s\n", report::printable(problem).c_str());
      }
    }
    learn(names_, processes);
    return metrics_text(processes, names_);
  }

 private:
  std::vector<std::string> told_;  // the problems told last; others are told again
  Names names_;
};

void serve(const std::string& where) {
  std::signal(SIGPIPE, SIG_IGN);  // the reader of stderr may be gone
  Pages pages;
  Server server(address_of(where), [&pages] { return pages.read(); });
  std::fprintf(stderr, "cubfc: listening on http://%s/metrics\n",
               text_of(server.address()).c_str());
  server.run();
}

void write_once(const std::string& path) {
  const std::string text = Pages().read();
  if (!path.empty()) {
    replace_file(path, text);
  } else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
             std::fflush(stdout) != 0) {
    throw Failure{std::string("standard output: ") + std::strerror(errno)};
  }
}

}  // namespace

void add_metrics(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "metrics", "Figures of all processes under cubfc, in Prometheus's text format.");
  const auto words = std::make_shared<MetricsWords>();
  CLI::Option* const output =
      command
          ->add_option("-o,--output", words->path,
                       "write to this file, which is replaced as a whole (standard output)")
          ->type_name("FILE");
  CLI::Option* const listen =
      command
          ->add_option("--listen", words->address,
                       "answer Prometheus over HTTP, until a signal ends it; not with -o")
          ->type_name("ADDRESS");
  command->footer(kMetricsFooter);
  command->callback([words, output, listen] {
    if (listen->count() > 0 && output->count() > 0) {
      refuse("metrics: --listen answers as long as it runs, -o writes a file once; name one");
    } else if (listen->count() > 0) {
      serve(words->address);
    } else {
      write_once(words->path);
    }
  });
}

}  // namespace cubfc::cli
