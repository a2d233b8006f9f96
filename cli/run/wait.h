// `cubfc run --wait`: the program as a child, so that the command can say at once what a program
// used that was killed.
#pragma once

#include <functional>

namespace cubfc::cli {

// Runs `execute`, which does not return, in a child, and waits for it. Signals that were sent to
// this process go on to the child, and it stops and goes on with it, and is killed with it; what
// the terminal sends, both get. Standard input and output are the child's alone. `at_end` is called
// with the child's process id when it has ended. Then this process ends as the child did: with its
// exit status, or by the same signal. Throws Failure if there can be no child. Of a process with
// one thread.
[[noreturn]] void run_and_wait(const std::function<void()>& execute,
                               const std::function<void(int child)>& at_end);

}  // namespace cubfc::cli
