// `cubfc run --wait`: runs the program as a child, so that the command can say at once what a
// program that was killed has used.
#pragma once

#include <functional>

namespace cubfc::cli {

// Forks, calls `execute`, which does not return, in the child, and waits for the child. Passes
// signals on that are sent to this process; signals of the terminal reach both by themselves. This
// process stops and goes on with the child; the child is killed with this process. Standard input
// and output are the child's alone. When the child has ended, calls `at_end` with its process id,
// and ends this process as the child ended: with its exit status, or by the same signal. Throws
// Failure if there can be no child. For a process with one thread.
[[noreturn]] void run_and_wait(const std::function<void()>& execute,
                               const std::function<void(int child)>& at_end);

}  // namespace cubfc::cli
