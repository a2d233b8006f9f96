#include "cli/metrics/rows.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "cli/report/program_name.h"
#include "cli/report/wording.h"

namespace cubfc::cli {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

// The labels of cubfc's samples, and those that Prometheus gives each sample that it scrapes. A
// label of CUBFC_LABELS with such a name becomes "exported_job" and the like, as Prometheus would
// name it.
constexpr std::array<std::string_view, 12> kTaken{"gpu",    "gpu_uuid", "pid",   "host",
                                                  "user",   "program",  "group", "memory",
                                                  "caller", "file",     "job",   "instance"};

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

// Whether Prometheus takes it as a label's name. Names that begin with two underscores are
// Prometheus' own.
bool is_label_name(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return !name.empty() && !name.starts_with("__") &&
         kLetters.find(name[0]) != std::string_view::npos &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") ==
             std::string_view::npos;
}

// CUBFC_LABELS is "name=value,name=value"; of two with one name the first counts.
Labels labels_in(std::string_view list) {
  Labels given;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const std::size_t equals = entry.find('=');
    const std::string_view name = entry.substr(0, equals);
    if (equals != std::string_view::npos && is_label_name(name) && !has(given, name)) {
      given.emplace_back(name, entry.substr(equals + 1));
    }
  }
  return given;
}

void add_own_labels(std::string_view list, Labels& labels) {
  const Labels given = labels_in(list);
  for (const auto& [name, value] : given) {
    std::string free_name = name;
    const bool is_taken = std::ranges::find(kTaken, name) != kTaken.end();
    while (is_taken && (free_name == name || has(given, free_name))) {
      free_name.insert(0, "exported_");
    }
    labels.emplace_back(free_name, value);
  }
}

// A device's key: its UUID, or where that is not known, the host and the device's number.
std::string key_of(const live::Process& process, const figures::DeviceFigures& device) {
  const std::string id = figures::uuid_text(device);
  return !id.empty()
             ? id
             : std::string(process.figures->host.get()) + '/' + std::to_string(device.number);
}

// By key, the value of a device's label "gpu": the number that the driver tells, else the number in
// the first process that has the device. Processes that see one GPU each, or a MIG instance each,
// all call it 0. So where several devices would get the same number, a device whose number the
// driver does not tell gets its key instead.
std::map<std::string, std::string> gpu_texts(const live::Processes& processes, const Names& names) {
  std::map<std::string, std::string> texts;
  std::map<std::string, int> devices_called;
  for (const live::Process& process : processes.all) {
    for (const std::size_t place : process.devices()) {
      const figures::DeviceFigures& device = process.figures->devices[place];
      const std::string key = key_of(process, device);
      const auto known = names.gpu_numbers.find(key);
      const int number = known == names.gpu_numbers.end() ? device.number : known->second;
      if (const auto [text, is_new] = texts.emplace(key, std::to_string(number)); is_new) {
        ++devices_called[text->second];
      }
    }
  }
  for (auto& [key, text] : texts) {
    if (devices_called[text] > 1 && !names.gpu_numbers.contains(key)) {
      text = key;
    }
  }
  return texts;
}

// The row's labels as text, different from those of all rows before. Processes of two containers
// may have the same labels: then the second row gets the label "file", with its file of figures.
std::string unique_text(Labels& labels, const std::string& path, std::size_t place,
                        std::set<std::string>& taken) {
  std::string text = text_of(labels);
  if (!taken.insert(text).second) {
    labels.emplace_back("file", path + ':' + std::to_string(place));
    text = text_of(labels);
  }
  return text;
}

std::string user_text(const live::Process& process, const Names& names) {
  const auto known = names.users.find(process.user);
  return known == names.users.end() || known->second.empty() ? std::to_string(process.user)
                                                             : known->second;
}

}  // namespace

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

std::vector<Row> rows_of(const live::Processes& processes, const Names& names) {
  const std::map<std::string, std::string> gpus = gpu_texts(processes, names);
  std::vector<Row> rows;
  std::set<std::string> taken;
  for (const live::Process& process : processes.all) {
    const figures::ProcessFigures& figures = *process.figures;
    for (const std::size_t place : process.devices()) {
      const figures::DeviceFigures& device = figures.devices[place];
      const Labels of_device{{"gpu", gpus.at(key_of(process, device))},
                             {"gpu_uuid", figures::uuid_text(device)}};
      const std::string user = user_text(process, names);
      Labels of_group;
      Labels labels = of_device;
      labels.insert(labels.end(), {{"pid", std::to_string(figures.pid)},
                                   {"host", std::string(figures.host.get())},
                                   {"user", user},
                                   {"program", report::program_name(figures.program.get())}});
      if (const std::string group(device.group.get()); !group.empty()) {
        of_group = of_device;
        of_group.insert(of_group.end(), {{"user", user}, {"group", group}});
        labels.emplace_back("group", group);
      }
      add_own_labels(figures.labels.get(), labels);
      rows.push_back({process, device, figures::sum_of(figures, place), text_of(of_device),
                      text_of(of_group), unique_text(labels, process.path, place, taken)});
    }
  }
  return rows;
}

}  // namespace cubfc::cli
