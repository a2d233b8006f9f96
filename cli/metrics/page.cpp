#include "cli/metrics/page.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cli/report/program_name.h"
#include "cli/report/wording.h"

namespace cubfc::cli {
namespace {

using figures::read;

// As the text format asks for: a label's value between quotes.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : report::printable(text, true)) {
    if (c == '\\' || c == '"') {
      result += '\\';
    }
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

using Labels = std::vector<std::pair<std::string, std::string>>;

bool has(const Labels& labels, std::string_view name) {
  return std::ranges::any_of(labels, [&](const auto& label) { return label.first == name; });
}

std::string text_of(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += (text.empty() ? "" : ",") + name + "=\"" + escaped(value) + '"';
  }
  return text;
}

// printf's "%.6f" or the like.
std::string decimal_text(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// A device of a process, with what is said of it.
struct Row {
  const figures::ProcessFigures& process;
  const figures::DeviceFigures& device;
  figures::Sums sums;
  std::string labels;
};

// As Prometheus wants the name of a label, whose own begin with two underscores.
bool is_label_name(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return !name.empty() && !name.starts_with("__") &&
         kLetters.find(name[0]) != std::string_view::npos &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") ==
             std::string_view::npos;
}

// CUBFC_LABELS is "name=value,name=value"; what there is already wins, and so do the labels that
// some samples have besides.
void add_own_labels(std::string_view list, Labels& labels) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const std::size_t equals = entry.find('=');
    const std::string_view name = entry.substr(0, equals);
    if (equals != std::string_view::npos && is_label_name(name) && !has(labels, name) &&
        name != "memory" && name != "caller" && name != "file") {
      labels.emplace_back(name, entry.substr(equals + 1));
    }
  }
}

// No two samples may have the same labels: processes of two containers may be alike in all of them,
// and then the second says which file it is.
std::string unique_text(Labels& labels, const std::string& path, std::size_t place,
                        std::set<std::string>& taken) {
  std::string text = text_of(labels);
  if (!taken.insert(text).second) {
    labels.emplace_back("file", path + ':' + std::to_string(place));
    text = text_of(labels);
  }
  return text;
}

std::vector<Row> rows_of(const live::Processes& processes) {
  std::vector<Row> rows;
  std::set<std::string> taken;
  for (const live::Process& process : processes.all) {
    for (const std::size_t place : process.devices()) {
      const figures::ProcessFigures& figures = *process.figures;
      const figures::DeviceFigures& device = figures.devices[place];
      Labels labels{{"gpu", std::to_string(device.number)},
                    {"gpu_uuid", figures::uuid_text(device)},
                    {"pid", std::to_string(figures.pid)},
                    {"host", std::string(figures.host.get())},
                    {"program", report::program_name(figures.program.get())}};
      if (const std::string_view group = device.group.get(); !group.empty()) {
        labels.emplace_back("group", group);
      }
      add_own_labels(figures.labels.get(), labels);
      rows.push_back({figures, device, figures::sum_of(figures, place),
                      unique_text(labels, process.path, place, taken)});
    }
  }
  return rows;
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

void add_limits(Page& page, const std::vector<Row>& rows) {
  page.each("cubfc_active", "gauge",
            "1 while a process's memory of the GPU is served and counted by cubfc.",
            [](const Row&) { return 1; });
  page.begin("cubfc_limit_bytes", "gauge",
             "The hard limit that cubfc enforces; no sample where there is none.");
  for (const Row& row : rows) {
    if (read(row.device.limit_bytes) != ~std::uint64_t{0}) {
      page.sample(row.labels, std::to_string(read(row.device.limit_bytes)));
    }
  }
  page.begin("cubfc_group_limit_bytes", "gauge",
             "What all processes of the label group may have of the GPU together.");
  for (const Row& row : rows) {
    if (!row.device.group.get().empty()) {
      page.sample(row.labels, std::to_string(read(row.device.group_limit_bytes)));
    }
  }
  page.each("cubfc_device_bytes", "gauge", "The GPU's memory, as the driver has it.",
            [](const Row& row) { return row.device.total_bytes; });
}

void add_use(Page& page, const std::vector<Row>& rows) {
  page.each("cubfc_bytes_in_use", "gauge", "Memory that the program has allocated and not freed.",
            [](const Row& row) { return row.sums.in_use; });
  page.each("cubfc_peak_bytes_in_use", "gauge", "The most that was ever in use.",
            [](const Row& row) { return read(row.device.peak_bytes_in_use); });
  page.begin("cubfc_memory_bytes_in_use", "gauge", "Memory in use by how it was allocated.");
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.sums.of.size(); ++i) {
      const auto memory = static_cast<trace::Memory>(i);
      page.sample(row.labels + ",memory=\"" + std::string(report::memory_key(memory)) + '"',
                  std::to_string(row.sums.of[i]));
    }
  }
  page.begin("cubfc_caller_bytes_in_use", "gauge",
             "Memory in use by the shared object that asked for it.");
  for (const Row& row : rows) {
    std::map<std::string, std::uint64_t> by_name;  // libraries of one name are one caller
    for (const auto& part : figures::callers_of(row.process, row.sums, figures::When::kNow)) {
      by_name[escaped(part.name)] += part.bytes;
    }
    for (const auto& [name, bytes] : by_name) {
      page.sample(row.labels + ",caller=\"" + name + '"', std::to_string(bytes));
    }
  }
  page.each("cubfc_bytes_waiting", "gauge",
            "Memory in use that the program has freed and the device may still use.",
            [](const Row& row) { return row.sums.waiting; });
}

void add_taken(Page& page, const std::vector<Row>& rows) {
  page.each(
      "cubfc_bytes_taken", "gauge",
      "Memory of the GPU that the process holds, in use or not, without contexts and modules.",
      [](const Row& row) { return read(row.device.bytes_taken); });
  page.each("cubfc_peak_bytes_taken", "gauge", "The most that was ever taken.",
            [](const Row& row) { return read(row.device.peak_bytes_taken); });
  page.each("cubfc_bytes_idle", "gauge", "Memory that arenas have of the GPU and no block uses.",
            [](const Row& row) { return figures::idle_bytes(row.sums); });
  page.each("cubfc_bytes_reserved", "gauge",
            "Memory that is preallocated and in no arena; other memory of the process, and mostly "
            "other processes, get it by asking.",
            [](const Row& row) { return read(row.device.bytes_reserved); });
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

std::string metrics_text(const live::Processes& processes) {
  const std::vector<Row> rows = rows_of(processes);
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
