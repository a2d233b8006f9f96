// The subject of `cubfc check --enforced`: a process that runs, or a program that would be started
// here. Knows what can be found out about the subject from outside.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "config/policy_file.h"

namespace cubfc::cli::check {

struct Subject {
  std::string name;                           // for people
  std::vector<std::string> environment = {};  // "NAME=value", at its start
  config::PolicyFile policy_file = {};
  std::string cgroup = {};  // the folder of its cgroup (version 2); empty: none
  std::string root = {};    // its root folder; empty: this command's
  std::optional<std::string> why_not_loaded = {};  // nothing: the library is loaded
  bool has_xla = false;  // it has loaded a GPU runtime of XLA's or TensorFlow's
  // The limits that the library in the process tells, of the GPUs that the process has used.
  // Nothing: it has used none yet, or no library tells.
  std::optional<std::vector<std::string>> told_limits = {};
  std::vector<std::string> unknown = {};  // what cannot be found out, and why
};

// Of a process. Throws Failure where there is none of that number, or it cannot be looked at.
Subject subject_of_process(pid_t process);
// Of a program that would be started with this command's environment. `name`: as a shell finds it;
// empty: any program. Throws Failure where there is no such program.
Subject subject_of_program(const std::string& name);

// The value of the first entry of that name; empty where there is none.
std::string value_of(const std::vector<std::string>& environment, const std::string& name);

// The contents of a file that the kernel makes (/proc, /sys). Nothing where it cannot be read;
// errno says why.
std::optional<std::string> text_of(const std::string& path);

// Splits a text into pieces. Each piece ends before the next `end`, or at the end of the text.
std::vector<std::string> split(const std::string& text, char end);

}  // namespace cubfc::cli::check
