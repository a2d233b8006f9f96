// The figures of this process (tell/figures.h): in a file that others read, for as long as the
// process lives, or in memory of its own. What is in them is not known here.
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
  // In memory of its own where CUBFC_SHARE_STATS is off, or there can be no file. Throws
  // std::bad_alloc.
  FiguresPage(const config::Policy& policy, Origin origin);
  ~FiguresPage();
  FiguresPage(const FiguresPage&) = delete;
  FiguresPage& operator=(const FiguresPage&) = delete;

  figures::ProcessFigures& get() const { return *figures_; }
  // The process ends: the file goes. What is mapped stays mapped: threads go on writing until the
  // very end. No lock.
  void leave() noexcept;

 private:
  figures::ProcessFigures* make_file();

  std::optional<SharedFile> file_;
  std::unique_ptr<figures::ProcessFigures> own_;
  figures::ProcessFigures* figures_ = nullptr;
};

}  // namespace cubfc
