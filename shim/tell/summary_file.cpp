#include "shim/tell/summary_file.h"

#include <sys/stat.h>

#include <chrono>

#include "shim/tell/log.h"
#include "shim/tell/output_file.h"

namespace cubfc {
namespace {

bool is_ordinary_or_none(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

std::string text_of(const Summary& summary) {
  std::string text;
  for (const std::string& line : summary_lines(summary)) {
    text += log::prefix() + line + '\n';
  }
  if (!summary.is_end) {
    text += log::prefix() + "so far: the program went on when this was written, or was killed\n";
  }
  return text.empty() ? log::prefix() + '\n' : text;
}

}  // namespace

void write_summary(const std::string& path, const Summary& summary) noexcept try {
  if (!summary.is_end && !is_ordinary_or_none(path)) {
    return;
  }
  const std::string wrong =
      replace_file(path, path.ends_with(".json") ? summary_json(summary) : text_of(summary));
  if (!wrong.empty() && summary.is_end) {
    log::warn("CUBFC_SUMMARY: {}: {}; the summary is not written", path, wrong);
  }
} catch (...) {
  log::write(log::Level::kWarn, "CUBFC_SUMMARY: the host has no memory for the summary");
}

}  // namespace cubfc
