// The page of `cubfc metrics`: no two samples are alike, a sum over any label counts nothing twice,
// and no scrape changes a label.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "cli/failure.h"
#include "cli/metrics/address.h"
#include "made_up_figures.h"

namespace cubfc::cli {
namespace {

using top::add_device;
using top::made_up;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

std::string uuid_of(unsigned char id) {
  figures::DeviceFigures device{};
  device.uuid.fill(id);
  return figures::uuid_text(device);
}

void join_group(figures::DeviceFigures& device, std::string_view group, std::uint64_t limit_bytes) {
  device.group.set(group);
  figures::put(device.group_limit_bytes, limit_bytes);
  figures::put(device.limit_bytes, limit_bytes);
}

live::Processes all_of(const std::vector<live::Process*>& some) {
  live::Processes processes;
  for (live::Process* const each : some) {
    processes.all.push_back(std::move(*each));
  }
  return processes;
}

// "{...} VALUE" of each sample of a metric.
std::vector<std::string> samples_of(const std::string& page, const std::string& name) {
  std::vector<std::string> samples;
  for (std::size_t at = page.find('\n' + name + '{'); at != std::string::npos;
       at = page.find('\n' + name + '{', at + 1)) {
    const std::size_t start = at + 1 + name.size();
    samples.push_back(page.substr(start, page.find('\n', start) - start));
  }
  return samples;
}

// Of the sample there is, the labels that CUBFC_LABELS has added.
std::string added_by(std::string_view labels) {
  live::Process process = made_up(1);
  process.figures->labels.set(labels);
  add_device(process, 0, 0, 7, kGiB);
  const std::string sample =
      samples_of(metrics_text(all_of({&process}), {}), "cubfc_in_use_bytes").at(0);
  const std::string before = "program=\"app\"";
  const std::size_t start = sample.find(before) + before.size();
  return sample.substr(start, sample.find('}') - start);
}

}  // namespace

TEST_CASE("no two samples of the metrics have the same labels", "[metrics]") {
  live::Process one = made_up(1);
  live::Process other = made_up(1);
  other.path = "/run/another";
  one.figures->labels.set("pod=a,1st=no,__name__=no,pod=b,empty=");
  add_device(one, 0, 0, 7, kGiB);
  add_device(other, 0, 0, 7, kGiB);
  other.figures->labels.set("pod=a,empty=");
  const std::string labels =
      "gpu=\"0\",gpu_uuid=\"GPU-07070707-0707-0707-0707-070707070707\",pid=\"1\",host=\"box\","
      "user=\"0\",program=\"app\",pod=\"a\",empty=\"\"";
  CHECK(samples_of(metrics_text(all_of({&one, &other}), {}), "cubfc_in_use_bytes") ==
        std::vector<std::string>{"{" + labels + "} 1073741824",
                                 "{" + labels + ",file=\"/run/another:0\"} 1073741824"});
}

TEST_CASE("a label that cubfc or Prometheus has itself is called as Prometheus would call it",
          "[metrics]") {
  CHECK(added_by("job=7,slurm_job=8") == ",exported_job=\"7\",slurm_job=\"8\"");
  for (const std::string name : {"gpu", "gpu_uuid", "pid", "host", "user", "program", "group",
                                 "memory", "caller", "file", "instance"}) {
    CHECK(added_by(name + "=x") == ",exported_" + name + "=\"x\"");
  }
  CHECK(added_by("job=1,exported_job=2") == ",exported_exported_job=\"1\",exported_job=\"2\"");
  CHECK(added_by("exported_job=2,job=1,job=3") ==
        ",exported_job=\"2\",exported_exported_job=\"1\"");
}

TEST_CASE("a GPU has one number, and one size, in whatever processes it is", "[metrics]") {
  // As CUDA_VISIBLE_DEVICES makes it: each sees one GPU, and calls it 0.
  live::Process one = made_up(1);
  live::Process other = made_up(2);
  add_device(one, 0, 0, 7, kGiB);
  add_device(other, 0, 0, 8, kGiB);
  add_device(other, 1, 1, 7, kGiB);
  const live::Processes processes = all_of({&one, &other});
  const Names names{{}, {{uuid_of(7), 3}, {uuid_of(8), 0}}, {}};
  CHECK(samples_of(metrics_text(processes, names), "cubfc_device_bytes") ==
        std::vector<std::string>{"{gpu=\"0\",gpu_uuid=\"" + uuid_of(8) + "\"} 68719476736",
                                 "{gpu=\"3\",gpu_uuid=\"" + uuid_of(7) + "\"} 68719476736"});
  // Where the driver does not tell, several of one number are told apart by their ids.
  CHECK(samples_of(metrics_text(processes, {}), "cubfc_device_bytes") ==
        std::vector<std::string>{
            "{gpu=\"" + uuid_of(7) + "\",gpu_uuid=\"" + uuid_of(7) + "\"} 68719476736",
            "{gpu=\"" + uuid_of(8) + "\",gpu_uuid=\"" + uuid_of(8) + "\"} 68719476736"});
  // A number that the driver tells is nobody else's.
  CHECK(samples_of(metrics_text(processes, {{}, {{uuid_of(7), 0}}, {}}), "cubfc_device_bytes") ==
        std::vector<std::string>{
            "{gpu=\"0\",gpu_uuid=\"" + uuid_of(7) + "\"} 68719476736",
            "{gpu=\"" + uuid_of(8) + "\",gpu_uuid=\"" + uuid_of(8) + "\"} 68719476736"});
}

TEST_CASE("a group's limit is there once for each budget, and not as its members' own",
          "[metrics]") {
  live::Process one = made_up(1);
  live::Process other = made_up(2);
  live::Process container = made_up(1);
  live::Process somebody = made_up(3);
  live::Process alone = made_up(4);
  container.path = "/run/user/1000/cubfc/figures-5-1";
  somebody.user = 1000;
  const std::array all{&one, &other, &container, &somebody};
  for (live::Process* const each : all) {
    join_group(add_device(*each, 0, 0, 7, kGiB), "job", 2 * kGiB);
  }
  figures::put(other.figures->devices[0].limit_bytes, kGiB);  // less than the group's
  figures::DeviceFigures& of_cgroup = add_device(alone, 0, 0, 7, kGiB);
  figures::put(of_cgroup.limit_bytes, kGiB);
  of_cgroup.limit_origin.set("dmem.max");  // other processes have it, too
  const std::string page = metrics_text(all_of({&one, &other, &container, &somebody, &alone}),
                                        {{{1000, "ada"}}, {{uuid_of(7), 0}}, {}});
  const std::string gpu = "{gpu=\"0\",gpu_uuid=\"" + uuid_of(7) + "\"";
  CHECK(samples_of(page, "cubfc_group_limit_bytes") ==
        std::vector<std::string>{gpu + ",user=\"0\",group=\"job\"} 4294967296",
                                 gpu + ",user=\"ada\",group=\"job\"} 2147483648"});
  const std::vector<std::string> limits = samples_of(page, "cubfc_limit_bytes");
  REQUIRE(limits.size() == 1);
  CHECK(limits[0].starts_with(gpu + ",pid=\"2\","));
}

TEST_CASE("a user without a name is a number", "[metrics]") {
  live::Process one = made_up(1);
  live::Process other = made_up(2);
  one.user = 1000;
  other.user = 1001;
  add_device(one, 0, 0, 7, kGiB);
  add_device(other, 0, 0, 7, kGiB);
  const auto samples =
      samples_of(metrics_text(all_of({&one, &other}), {{{1000, "a\"b\n"}, {1001, ""}}, {}, {}}),
                 "cubfc_active");
  CHECK(samples.at(0).find(",user=\"a\\\"b\\n\",") != std::string::npos);
  CHECK(samples.at(1).find(",user=\"1001\",") != std::string::npos);
}

TEST_CASE("users have the names that the system gives them", "[metrics]") {
  live::Process root = made_up(1);
  live::Process nobody_knows = made_up(2);
  nobody_knows.user = 3'999'999'999;
  Names names;
  learn(names, all_of({&root, &nobody_knows}));
  CHECK(names.users.at(0) == "root");
  CHECK(names.users.at(3'999'999'999).empty());
}

TEST_CASE("GPUs have the numbers of nvidia-smi, which go by their place on the bus", "[metrics]") {
  std::string folder = (std::filesystem::temp_directory_path() / "gpus-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const auto add = [&](const std::string& place, const std::string& text) {
    std::filesystem::create_directory(folder + '/' + place);
    std::ofstream(folder + '/' + place + "/information") << text;
  };
  add("0000:c1:00.0", "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-c\nDevice Minor: \t 0\n");
  add("0000:17:00.0", "GPU UUID: \t GPU-a\nGPU Excluded:\t No\n");
  add("0000:18:00.0", "GPU UUID: \t GPU-x\nGPU Excluded:\t Yes\n");
  add("0000:19:00.0", "GPU UUID: \t GPU-" + std::string(36, '?') + '\n');  // not opened yet
  add("0000:20:00.0", "");
  std::filesystem::create_directory(folder + "/0000:1a:00.0");
  const std::map<std::string, int> numbers = gpu_numbers_in(folder);
  CHECK(numbers.at("GPU-a") == 0);
  CHECK(numbers.at("GPU-c") == 4);
  CHECK_FALSE(numbers.contains("GPU-x"));
  std::filesystem::remove_all(folder);
  CHECK(gpu_numbers_in(folder).empty());
}

TEST_CASE("where to listen: a port alone is this machine, an IPv6 address has brackets",
          "[metrics]") {
  for (const auto& [text, meant] : std::vector<std::pair<std::string, std::string>>{
           {"9834", "127.0.0.1:9834"},
           {":9834", "127.0.0.1:9834"},
           {"0", "127.0.0.1:0"},
           {"0.0.0.0:65535", "0.0.0.0:65535"},
           {"[::1]:9834", "[::1]:9834"},
           {"[fe80::1%eth0]:80", "[fe80::1%eth0]:80"},
           {"gpu-7.example_site.org:80", "gpu-7.example_site.org:80"}}) {
    CHECK(text_of(address_of(text)) == meant);
  }
  for (const std::string text :
       {"",      ":",           "65536",         ":65536",     "-1",    "+1",
        " 9834", "9834 ",       "127.0.0.1",     "127.0.0.1:", "::1",   "::1:9834",
        "[::1]", "[::1]9834",   "[localhost]:1", "[]:1",       "a b:1", "http://a:1",
        "a/b:1", "unix:/run/x", "a:1:2",         "\xff:1"}) {
    INFO(text);
    try {
      address_of(text);
      FAIL("is no address");
    } catch (const Failure& failure) {
      CHECK(failure.exit_status == kUsage);
    }
  }
}

}  // namespace cubfc::cli
