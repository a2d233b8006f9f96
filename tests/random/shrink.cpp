// Leaves out steps as long as what is left still fails. What is left is asked of the model anew, so
// that it is a correct program: steps that need one that is gone go, too.
#include <algorithm>
#include <functional>

#include "program.h"

namespace random_programs {
namespace {

constexpr int kMostRuns = 4000;

// Short programs take little time.
int enough_for_a_race(const Program& program) {
  return 10 + 500 / static_cast<int>(program.steps.size() + 1);
}

// A capture without its end would leave the program unfinished.
bool is_begun_in_vain(const Step& begin, const Steps& steps) {
  return begin.kind == Kind::kBeginCapture &&
         std::none_of(steps.begin(), steps.end(), [&](const Step& step) {
           return step.kind == Kind::kEndCapture && step.graph == begin.graph;
         });
}

Program correct_part_of(const Steps& steps, int threads) {
  Program program{.threads = threads, .steps = {}, .end = {}};
  for (const Step& step : steps) {
    if (!is_begun_in_vain(step, steps)) {
      program.add(step);
    }
  }
  return program;
}

class Shrinker {
 public:
  Shrinker(const Program& program, const Fails& fails, int runs)
      : best_(program), fails_(fails), runs_(runs) {}

  Program shrink() {
    keep_if_it_fails(with_one_thread());
    for (std::size_t chunk = best_.steps.size() / 2; chunk > 0 && may_run();) {
      const bool shorter = leave_out(chunk);
      const bool simpler = chunk == 1 && fill_instead_of_copying();
      chunk = (shorter || simpler) && chunk == 1 ? 1 : chunk / 2;
    }
    return best_;
  }

 private:
  bool may_run() const { return runs_left_ > 0; }

  Steps with_one_thread() const {
    Steps steps = best_.steps;
    for (Step& step : steps) {
      step.thread = 0;
    }
    return steps;
  }

  bool leave_out(std::size_t chunk) {
    bool any = false;
    // From the end: what comes later depends on what comes earlier.
    for (std::size_t end = best_.steps.size(); end > 0 && may_run();) {
      const std::size_t start = end > chunk ? end - chunk : 0;
      Steps rest = best_.steps;
      const auto first = rest.begin();
      rest.erase(first + static_cast<std::ptrdiff_t>(start),
                 first + static_cast<std::ptrdiff_t>(end));
      any = keep_if_it_fails(rest) || any;
      end = std::min(start, best_.steps.size());
    }
    return any;
  }

  // What made the bytes that are copied can go then.
  bool fill_instead_of_copying() {
    bool any = false;
    for (std::size_t i = 0; i < best_.steps.size() && may_run(); ++i) {
      Steps steps = best_.steps;
      Step& step = steps[i];
      if (step.kind == Kind::kCopyIn || step.kind == Kind::kCopyWithin) {
        step.kind = Kind::kFill;
        step.source = -1;
        step.slot = -1;
        any = keep_if_it_fails(steps) || any;
      }
    }
    return any;
  }

  bool keep_if_it_fails(const Steps& steps) {
    Program candidate = correct_part_of(steps, best_.threads);
    if (!candidate.end.finished()) {
      return false;
    }
    const int runs = runs_ > 0 ? runs_ : enough_for_a_race(candidate);
    for (int run = 0; run < runs && may_run(); ++run, --runs_left_) {
      if (fails_(candidate)) {
        best_ = std::move(candidate);
        return true;
      }
    }
    return false;
  }

  Program best_;
  const Fails& fails_;
  const int runs_;  // of each candidate
  int runs_left_ = kMostRuns;
};

}  // namespace

Program shrink(const Program& program, const Fails& fails, int runs) {
  return Shrinker(program, fails, runs).shrink();
}

}  // namespace random_programs
