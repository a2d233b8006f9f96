// The folders in which the processes of a user find each other's files (shared_files.h says which),
// and what keeps other users out of them. Knows nothing of the files.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cubfc {

class Descriptor;

// kAsSet: the folder that XDG_RUNTIME_DIR names counts, too; whoever starts a process can set that.
// kFixed: it does not, so that all processes of a user in one container look in the same places.
enum class Where : bool { kAsSet, kFixed };

// Whether the open file is of this type, belongs to this user, and no other user has rights to it:
// another user may have made a folder or a file of the name. `type`: S_IFDIR or S_IFREG.
bool is_ours_alone(int descriptor, mode_t type);

// The paths at which this user's folder may be, the best place first. Throws std::bad_alloc.
std::vector<std::string> shared_folders(Where where = Where::kAsSet);
// The same for every user.
std::vector<std::string> shared_folders_of_all();

// Opens the folder; empty if there is none that is this user's alone.
Descriptor open_shared_folder(const std::string& path);
// As open_shared_folder(), but makes the folder if it is not there. Its mode is right whatever the
// program's umask is, or was when the folder was made.
Descriptor make_shared_folder(const std::string& path);

// The names in a folder, without those that begin with a dot. Empty if it is no folder.
std::vector<std::string> names_in_folder(const std::string& path);

// For a message, when no file could be made: which folders were tried, and what is wrong with each.
// `error`: errno then.
std::string why_no_shared_file(int error, Where where = Where::kAsSet);

}  // namespace cubfc
