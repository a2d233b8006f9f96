// The names of users, as this system knows them.
#pragma once

#include <sys/types.h>

#include <string>

namespace cubfc::cli::top {

// The number where the user has no name here, as those of containers. Each is looked up once. Any
// bytes may stand in a name.
const std::string& user_name(uid_t user);

}  // namespace cubfc::cli::top
