#include "cli/metrics/page.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <vector>

#include "cli/metrics/rows.h"
#include "cli/report/wording.h"

namespace cubfc::cli {
namespace {

using figures::read;

// printf's "%.6f" or the like.
std::string decimal_text(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// All samples of one name stand together, after its HELP and TYPE.
class Page {
 public:
  explicit Page(const std::vector<Row>& rows) : rows_(rows) {}

  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += "# HELP " + name_ + ' ' + help + "\n# TYPE " + name_ + ' ' + type + '\n';
  }
  void sample(const std::string& labels, const std::string& value) {
    text_ += name_ + (labels.empty() ? "" : '{' + labels + '}') + ' ' + value + '\n';
  }
  void each(const char* name, const char* type, const char* help,
            const std::function<std::uint64_t(const Row&)>& value) {
    begin(name, type, help);
    for (const Row& row : rows_) {
      sample(row.labels, std::to_string(value(row)));
    }
  }
  const std::string& text() const { return text_; }

 private:
  const std::vector<Row>& rows_;
  std::string name_;
  std::string text_;
};

// The value of each set of labels. The labels name a device, or a group on a device, and have one
// value however many processes use it.
using Samples = std::map<std::string, std::uint64_t>;

void add_samples(Page& page, const char* name, const char* help, const Samples& samples) {
  page.begin(name, "gauge", help);
  for (const auto& [labels, value] : samples) {
    page.sample(labels, std::to_string(value));
  }
}

// The largest total that any process sees of the device: in a container whose memory the driver
// limits, a process sees a smaller total.
Samples device_bytes(const std::vector<Row>& rows) {
  Samples samples;
  for (const Row& row : rows) {
    std::uint64_t& bytes = samples[row.device_labels];
    bytes = std::max(bytes, row.device.total_bytes);
  }
  return samples;
}

// Members may have joined with different limits: the largest is what all of them together may have.
// Groups of one name whose processes meet in different folders have a budget each: their limits are
// added up.
Samples group_limits(const std::vector<Row>& rows) {
  std::map<std::string, Samples> by_folder;
  for (const Row& row : rows) {
    if (!row.group_labels.empty()) {
      const std::string& path = row.process.path;
      std::uint64_t& bytes = by_folder[row.group_labels][path.substr(0, path.rfind('/'))];
      bytes = std::max(bytes, read(row.device.group_limit_bytes));
    }
  }
  Samples samples;
  for (const auto& [labels, limits] : by_folder) {
    for (const auto& [folder, bytes] : limits) {
      samples[labels] = arena::plus(samples[labels], bytes);
    }
  }
  return samples;
}

// Whether the process has a limit that it does not share with others. A group's limit and a
// cgroup's (dmem.max) are shared.
bool has_limit_of_its_own(const figures::DeviceFigures& device) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const std::uint64_t limit = read(device.limit_bytes);
  const bool is_of_group = !device.group.get().empty() && limit == read(device.group_limit_bytes);
  return limit != kNone && !is_of_group && device.limit_origin.get() != "dmem.max";
}

void add_limits(Page& page, const std::vector<Row>& rows) {
  page.each("cubfc_active", "gauge",
            "1 for each GPU of each process whose memory is served and counted by cubfc.",
            [](const Row&) { return 1; });
  page.begin("cubfc_limit_bytes", "gauge",
             "The hard limit of the process alone; no sample where it has none, or shares it.");
  for (const Row& row : rows) {
    if (has_limit_of_its_own(row.device)) {
      page.sample(row.labels, std::to_string(read(row.device.limit_bytes)));
    }
  }
  add_samples(page, "cubfc_group_limit_bytes",
              "What all processes of the user's group may have of the GPU together.",
              group_limits(rows));
  add_samples(page, "cubfc_device_bytes", "The GPU's memory, as the driver has it.",
              device_bytes(rows));
}

void add_use(Page& page, const std::vector<Row>& rows) {
  page.each("cubfc_in_use_bytes", "gauge", "Memory that the program has allocated and not freed.",
            [](const Row& row) { return row.sums.in_use; });
  page.each("cubfc_peak_in_use_bytes", "gauge",
            "The most that the process ever had in use; those of several were not at one time.",
            [](const Row& row) { return read(row.device.peak_bytes_in_use); });
  page.begin("cubfc_memory_in_use_bytes", "gauge", "Memory in use by how it was allocated.");
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.sums.of.size(); ++i) {
      const auto memory = static_cast<trace::Memory>(i);
      page.sample(row.labels + ",memory=\"" + std::string(report::memory_key(memory)) + '"',
                  std::to_string(row.sums.of[i]));
    }
  }
  page.begin("cubfc_caller_in_use_bytes", "gauge",
             "Memory in use by the shared object that asked for it.");
  for (const Row& row : rows) {
    std::map<std::string, std::uint64_t> by_name;  // libraries of one name are one caller
    for (const auto& part :
         figures::callers_of(*row.process.figures, row.sums, figures::When::kNow)) {
      by_name[escaped(part.name)] += part.bytes;
    }
    for (const auto& [name, bytes] : by_name) {
      page.sample(row.labels + ",caller=\"" + name + '"', std::to_string(bytes));
    }
  }
  page.each("cubfc_waiting_bytes", "gauge",
            "Memory in use that the program has freed and the device may still use.",
            [](const Row& row) { return row.sums.waiting; });
}

void add_taken(Page& page, const std::vector<Row>& rows) {
  page.each(
      "cubfc_taken_bytes", "gauge",
      "Memory of the GPU that the process holds, in use or not, without contexts and modules.",
      [](const Row& row) { return read(row.device.bytes_taken); });
  page.each("cubfc_peak_taken_bytes", "gauge",
            "The most that the process ever took; those of several were not at one time.",
            [](const Row& row) { return read(row.device.peak_bytes_taken); });
  page.each("cubfc_idle_bytes", "gauge", "Memory that arenas have of the GPU and no block uses.",
            [](const Row& row) { return figures::idle_bytes(row.sums); });
  page.each("cubfc_reserved_bytes", "gauge",
            "Memory that is preallocated and in no arena; other memory of the process, and mostly "
            "other processes, get it by asking.",
            [](const Row& row) { return read(row.device.bytes_reserved); });
  page.each("cubfc_asleep_bytes", "gauge",
            "Memory of arenas that lies on the host while its program sleeps; it is not taken.",
            [](const Row& row) { return read(row.device.bytes_asleep); });
  page.begin("cubfc_fragmentation_ratio", "gauge",
             "The share of an arena's free memory that no single request could have.");
  for (const Row& row : rows) {
    page.sample(row.labels, decimal_text("%.6f", figures::fragmentation(row.sums)));
  }
}

void add_counts(Page& page, const std::vector<Row>& rows) {
  page.each("cubfc_allocations_total", "counter", "Allocations that succeeded.",
            [](const Row& row) { return row.sums.allocations; });
  page.each("cubfc_frees_total", "counter", "Frees.",
            [](const Row& row) { return row.sums.frees; });
  page.each("cubfc_refused_total", "counter", "Requests that failed for lack of memory.",
            [](const Row& row) { return read(row.device.refused); });
  page.each("cubfc_driver_calls_total", "counter",
            "Calls of the driver by which arenas took memory and gave it back.",
            [](const Row& row) { return read(row.device.driver_calls); });
  page.each("cubfc_free_waits_total", "counter",
            "Frees that waited for the GPU, some 10 microseconds or more.",
            [](const Row& row) { return read(row.device.free_waits); });
  page.begin("cubfc_free_wait_seconds_total", "counter",
             "Time that frees waited for the GPU, that of several threads added up.");
  for (const Row& row : rows) {
    page.sample(row.labels,
                decimal_text("%.9f", static_cast<double>(read(row.device.free_waits_ns)) / 1e9));
  }
}

}  // namespace

std::string metrics_text(const live::Processes& processes, const Names& names) {
  const std::vector<Row> rows = rows_of(processes, names);
  Page page(rows);
  page.begin("cubfc_processes", "gauge", "Processes under cubfc that share their figures.");
  page.sample("", std::to_string(processes.all.size()));
  page.begin("cubfc_unusable_files", "gauge", "Files of figures that could not be read.");
  page.sample("", std::to_string(processes.unusable.size()));
  add_limits(page, rows);
  add_use(page, rows);
  add_taken(page, rows);
  add_counts(page, rows);
  return page.text();
}

}  // namespace cubfc::cli
