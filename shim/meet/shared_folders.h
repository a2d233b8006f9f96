// The folders in which the processes of a user find each other's files (shared_files.h says which),
// and what keeps other users out of them. Knows nothing of the files.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cubfc {

class Descriptor;

// Whether XDG_RUNTIME_DIR counts, which whoever starts a process may set: with kFixed all processes
// of a user in one container look in the same places.
enum class Where : bool { kAsSet, kFixed };

// Another user may have made a folder or a file of our name. `type`: S_IFDIR or S_IFREG.
bool is_ours_alone(int descriptor, mode_t type);

// Where the folder may be, the best place first. Throws std::bad_alloc.
std::vector<std::string> shared_folders(Where where = Where::kAsSet);
// Of every user.
std::vector<std::string> shared_folders_of_all();

// Empty where there is none that is this user's alone.
Descriptor open_shared_folder(const std::string& path);
// Makes it where it is not there, whatever the program's file mode mask is, or was when the folder
// was made.
Descriptor make_shared_folder(const std::string& path);

// But for those that begin with a dot. Empty for what is no folder.
std::vector<std::string> names_in_folder(const std::string& path);

// For a message, when no file could be made: which folders were tried, and what is wrong with each.
// `error`: errno then.
std::string why_no_shared_file(int error, Where where = Where::kAsSet);

}  // namespace cubfc
