#include "report.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "entry_point.h"
#include "settings.h"
#include "state.h"

namespace standin {
namespace {

pid_t owner = 0;

void Write() {
  if (getpid() != owner) return;  // a child of fork runs the inherited exit handlers too
  nlohmann::json report;
  report["pid"] = owner;
  report["calls"] = nlohmann::json::object();
  for (const EntryPoint* entry = EntryPoint::first(); entry; entry = entry->next()) {
    if (entry->calls() > 0) report["calls"][entry->name()] = entry->calls();
  }
  report["live_bytes"] = nlohmann::json::array();
  report["peak_bytes"] = nlohmann::json::array();
  report["device_peak_bytes"] = nlohmann::json::array();  // of all processes that share it
  if (IsInitialized()) {
    const Lock lock(state().mutex);
    for (const auto& device : state().devices) {
      report["live_bytes"].push_back(device->memory.live());
      report["peak_bytes"].push_back(device->memory.peak());
      report["device_peak_bytes"].push_back(state().usage->Most(device->number));
    }
  }
  std::string path = settings().report;
  if (const auto at = path.find("%p"); at != std::string::npos) {
    path.replace(at, 2, std::to_string(owner));
  }
  std::ofstream(path) << report.dump(1) << '\n';
}

}  // namespace

void StartReport() {
  if (settings().report.empty()) return;
  owner = getpid();
  std::atexit(Write);
}

}  // namespace standin
