// What cubfc does when the program exits: by the C library's exit or quick_exit, not when it is
// killed or calls _exit.
#pragma once

namespace cubfc {

// Called when the process's object is made: its threads end, its files are whole, and what the
// program has used is told, when the exit handlers run that were registered before this.
void finish_at_exit();

}  // namespace cubfc
