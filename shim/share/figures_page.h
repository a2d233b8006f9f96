// Where the figures of this process lie (tell/figures.h): in a shared file, which other processes
// read while this one lives, and after it was killed; or in memory of its own. Writes only those
// figures that never change.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>

#include "config/policy.h"
#include "shim/meet/shared_files.h"
#include "shim/tell/figures.h"

namespace cubfc {

class FiguresPage {
 public:
  struct Origin {
    pid_t run;  // the `cubfc run` that the process comes from; 0: none
    bool is_forked;
  };
  // Makes the shared file. If CUBFC_SHARE_STATS is off, or no file can be made, the figures lie in
  // private memory. Throws std::bad_alloc.
  FiguresPage(const config::Policy& policy, Origin origin);
  ~FiguresPage();
  FiguresPage(const FiguresPage&) = delete;
  FiguresPage& operator=(const FiguresPage&) = delete;

  figures::ProcessFigures& get() const { return *figures_; }
  // Called when the process ends in order: removes the file. The mapping stays, because threads
  // write figures until the very end. Takes no lock.
  void leave() noexcept;

 private:
  figures::ProcessFigures* make_file();

  std::optional<SharedFile> file_;
  std::unique_ptr<figures::ProcessFigures> own_;
  figures::ProcessFigures* figures_ = nullptr;
};

}  // namespace cubfc
