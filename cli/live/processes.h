// The processes under cubfc, those that run and those that have ended without a summary, by the
// files in which they keep their figures (shim/tell/figures.h). Knows nothing of CUDA, nor of how
// figures are shown.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shim/tell/figures.h"

namespace cubfc::live {

// One process, at the moment when its file was read.
struct Process {
  std::string path;  // of the file
  dev_t file_device = 0;
  ino_t file_number = 0;
  std::unique_ptr<figures::ProcessFigures> figures;
  uid_t user = 0;  // whose file it is, and so whose process

  // The devices that it uses, by their places in the figures.
  std::vector<std::size_t> devices() const;
};

struct Processes {
  std::vector<Process> all;           // sorted as each function below says
  std::vector<std::string> unusable;  // "PATH: what is wrong", of files that should be figures
};

// The running processes of this user, and for root of all users, by process id. A file of another
// version of cubfc becomes a line of `unusable`. A file may hold anything, so no text, number or
// index in it can be trusted.
Processes read_processes();

// The processes that have ended without a summary, because they were killed or called _exit; the
// one that began last first. Without those that have asked for no memory. Only the newest files of
// such processes are kept (kMostOutliving, shim/meet/shared_files.h).
Processes read_ended_processes();
// Notes in a process's file that a command has told of its end. Does nothing where the file is
// gone.
void note_as_told(const Process& process);

// Whether `figures`, as a file had them, can be shown. Where not, `problem` says why, or stays
// empty when the file's process has just begun.
bool are_usable(const figures::ProcessFigures& figures, std::string& problem);

// Asks a process to draw the map of a device's arenas. It does so within a second or so, if a
// thread of cubfc's runs in it. `device`: a place in the figures. False when the process's file
// cannot be written to, or is no longer there.
bool ask_for_map(const Process& process, std::size_t device);

}  // namespace cubfc::live
