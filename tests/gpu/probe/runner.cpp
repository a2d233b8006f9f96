// A child runs one case after the other and writes what it does into a pipe; when it dies, another
// child goes on after the case that killed it.
#include "runner.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace probe {
namespace {

using Clock = std::chrono::steady_clock;

// A message is a line of fields between tabs: "begin <case>" or "end <case> <answer>".
class Writer {
 public:
  explicit Writer(int fd) : fd_(fd) {}

  void begin(std::size_t index) const { send("begin\t" + std::to_string(index) + "\n"); }

  void end(std::size_t index, const Answer& found) const {
    std::string line = "end\t" + std::to_string(index) + "\t";
    line += found.result ? std::to_string(static_cast<int>(*found.result)) : "";
    line += "\t";
    line += found.capture_survives ? (*found.capture_survives ? "yes" : "no") : "";
    line += "\t" + found.json + "\t" + found.unanswered + "\t" + found.note + "\n";
    send(line);
  }

 private:
  void send(const std::string& text) const {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t some = write(fd_, text.data() + sent, text.size() - sent);
      if (some <= 0) {
        _exit(3);
      }
      sent += static_cast<std::size_t>(some);
    }
  }

  int fd_;
};

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == '\t') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

Answer read_answer(const std::vector<std::string>& fields) {
  Answer found;
  if (!fields[2].empty()) {
    found.result = static_cast<CUresult>(std::atoi(fields[2].c_str()));
  }
  if (!fields[3].empty()) {
    found.capture_survives = fields[3] == "yes";
  }
  found.json = fields[4];
  found.unanswered = fields[5];
  found.note = fields[6];
  return found;
}

class Run {
 public:
  Run(const Driver& driver, const Cases& cases, const Limits& limits)
      : driver_(driver), cases_(cases), limits_(limits), answers_(cases.size()) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      (cases[i].begins == Begins::kInContext ? together_ : alone_).push_back(i);
    }
  }

  std::vector<Answer> all() {
    // What every case needs first: a GPU that is too slow for all of it still answers the most.
    run_list(together_);
    for (const std::size_t index : alone_) {
      run_list({index});
    }
    return std::move(answers_);
  }

 private:
  // Runs the cases of a list, with as many children as it takes.
  void run_list(const std::vector<std::size_t>& list) {
    std::size_t next = 0;
    while (next < list.size()) {
      const auto spent =
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
      if (spent.count() > limits_.total_ms) {
        answers_[list[next++]] = unanswered("the time for the whole probe was over");
        continue;
      }
      next = run_child(list, next);
    }
  }

  // One child, from the case at `next` of the list on. Where the next child goes on.
  std::size_t run_child(const std::vector<std::size_t>& list, std::size_t next) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) {
      std::perror("probe: pipe");
      std::exit(1);
    }
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      be_child(list, next, Writer(ends[1]));
      _exit(0);
    }
    close(ends[1]);
    const std::size_t before = next;
    const bool hung = !listen(ends[0], list, next);
    close(ends[0]);
    if (hung) {
      kill(child, SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (begun_) {
      answers_[list[next]] = unanswered(end_of(status, hung));
      ++next;
    } else if (next == before) {
      answers_[list[next]] = unanswered("the process could not begin: " + end_of(status, hung));
      ++next;
    }
    begun_ = false;
    return next;
  }

  static std::string end_of(int status, bool hung) {
    if (hung) {
      return "the call did not return";
    }
    if (WIFSIGNALED(status)) {
      return "the process ended by signal " + std::to_string(WTERMSIG(status));
    }
    return "the process ended with status " + std::to_string(WEXITSTATUS(status));
  }

  void be_child(const std::vector<std::size_t>& list, std::size_t next,
                const Writer& writer) const {
    Session session(driver_, limits_.may_fill);
    const bool needs_context = cases_[list[next]].begins != Begins::kNothingDone;
    const CUresult started = needs_context ? session.start() : CUDA_SUCCESS;
    for (; next < list.size(); ++next) {
      const Case& one = cases_[list[next]];
      writer.begin(list[next]);
      writer.end(list[next], started == CUDA_SUCCESS
                                 ? one.run(session)
                                 : unanswered("no context: " + name_of(driver_, started)));
      if (needs_context && started == CUDA_SUCCESS && !session.healthy()) {
        return;  // an error that sticks: the next case has a new process
      }
    }
  }

  // Takes what the child writes. False if it stopped writing for too long.
  bool listen(int fd, const std::vector<std::size_t>& list, std::size_t& next) {
    std::string pending;
    for (;;) {
      pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
      if (poll(&waiting, 1, limits_.case_ms) <= 0) {
        return false;
      }
      std::array<char, 4096> buffer{};
      const ssize_t some = read(fd, buffer.data(), buffer.size());
      if (some <= 0) {
        return true;
      }
      pending.append(buffer.data(), static_cast<std::size_t>(some));
      for (std::size_t end = pending.find('\n'); end != std::string::npos;
           end = pending.find('\n')) {
        take(fields_of(pending.substr(0, end)), list, next);
        pending.erase(0, end + 1);
      }
    }
  }

  void take(const std::vector<std::string>& fields, const std::vector<std::size_t>& list,
            std::size_t& next) {
    begun_ = fields[0] == "begin";
    if (!begun_ && fields.size() == 7) {
      answers_[list[next]] = read_answer(fields);
      ++next;
    }
  }

  const Driver& driver_;
  const Cases& cases_;
  const Limits& limits_;
  std::vector<Answer> answers_;
  std::vector<std::size_t> together_;
  std::vector<std::size_t> alone_;
  bool begun_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

std::vector<Answer> run_cases(const Driver& driver, const Cases& cases, const Limits& limits) {
  return Run(driver, cases, limits).all();
}

}  // namespace probe
