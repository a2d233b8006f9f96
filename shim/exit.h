// What cubfc does when the program exits: by the C library's exit or quick_exit, not when it is
// killed or calls _exit.
#pragma once

namespace cubfc {

// Called when the Process has been made. Registers handlers that, at the program's exit, write the
// trace to its file, tell the user what the program has used, and remove the files of this process.
// Handlers that are registered later run first, those of cubfc's own threads (BackgroundThread)
// among them.
void finish_at_exit();

}  // namespace cubfc
