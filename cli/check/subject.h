// Whose GPU memory `cubfc check --enforced` asks about, and what can be found out of that without
// asking it: a process that runs, or a program that would be started here.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "config/policy_file.h"

namespace cubfc::cli::check {

struct Subject {
  std::string name;                           // for people
  std::vector<std::string> environment = {};  // "NAME=value", as it was started, or would be
  config::PolicyFile policy_file = {};
  std::string cgroup = {};  // the folder of its cgroup (version 2); empty: it is in none
  std::string root = {};    // its root folder, where that is not this command's
  std::optional<std::string> why_not_loaded = {};  // the library; nothing: it is
  bool has_xla = false;                            // with a GPU runtime of XLA's or TensorFlow's
  // The limits of the GPUs that it has used, as the library in it tells; nothing: it does not, yet.
  std::optional<std::vector<std::string>> told_limits = {};
  std::vector<std::string> unknown = {};  // what cannot be found out, and why
};

// A process. Throws Failure where there is none of that number, or it cannot be looked at.
Subject subject_of_process(pid_t process);
// A program that would be started with this command's environment, by its name; empty: any.
Subject subject_of_program(const std::string& name);

// Of the first entry of that name; empty where there is none.
std::string value_of(const std::vector<std::string>& environment, const std::string& name);

// Of a file that the kernel makes (/proc, /sys); nothing where it cannot be read, errno says why.
std::optional<std::string> text_of(const std::string& path);

// The pieces of a text between such characters.
std::vector<std::string> split(const std::string& text, char end);

}  // namespace cubfc::cli::check
