// The processes that run under cubfc now, by the files that they keep their figures in
// (shim/tell/figures.h). Knows nothing of CUDA, nor of how figures are shown.
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
  uid_t user = 0;  // whose file it is

  // The devices that it uses, by their places in the figures.
  std::vector<std::size_t> devices() const;
};

struct Processes {
  std::vector<Process> all;           // by process id
  std::vector<std::string> unusable;  // "PATH: what is wrong", of files that should be figures
};

// Of the user's processes; root sees everybody's. A file of another version of cubfc is not looked
// at. What is in a file may be anything: any text, number and index.
Processes read_processes();

// Whether a file with this beginning holds figures that can be shown. What is wrong is in
// `problem`; where that stays empty, the process has just begun.
bool are_usable(const figures::ProcessFigures& figures, std::string& problem);

// Asks a process to draw the map of a device's arenas, which it does within a second or so where a
// thread of cubfc's runs in it. False when its file cannot be written to, or is no longer there.
bool ask_for_map(const Process& process, std::size_t device);

}  // namespace cubfc::live
