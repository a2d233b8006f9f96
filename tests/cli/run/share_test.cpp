// What launchers say of a job, in environments that are made up.
#include "cli/run/share.h"

#include <map>
#include <string>

#include "catch.h"
#include "cli/failure.h"

namespace cubfc::cli {
namespace {

using Variables = std::map<std::string, std::string>;

Share share_of(const std::string& text, const Variables& variables, unsigned gpus) {
  return read_share_of(
      text,
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      [&] { return gpus; });
}

std::string complaint_of(const std::string& text, const Variables& variables, unsigned gpus) {
  try {
    share_of(text, variables, gpus);
    return "none";
  } catch (const Failure& failure) {
    CHECK(failure.exit_status == kUsage);
    return failure.message;
  }
}

}  // namespace

TEST_CASE("Slurm's list of tasks per node", "[run]") {
  CHECK(tasks_on_node("4", 0) == 4U);
  CHECK(tasks_on_node("4", 1) == std::nullopt);
  CHECK(tasks_on_node("4(x2),3", 1) == 4U);
  CHECK(tasks_on_node("4(x2),3", 2) == 3U);
  CHECK(tasks_on_node("4(x2),3", 3) == std::nullopt);
  CHECK(tasks_on_node("1,2(x4294967295)", 5) == 2U);
}

TEST_CASE("a list of tasks that is none says nothing", "[run]") {
  for (const char* list : {"", ",", "x", "(x2)", "4(x", "4(x)", "4(x0),1", "4(x2", "4(x-1)", "-4",
                           "4(x99999999999)", "0"}) {
    INFO(list);
    CHECK(tasks_on_node(list, 0) == std::nullopt);
  }
}

TEST_CASE("a share of all is not more than the GPU", "[run]") {
  CHECK(share_of("1", {}, 0).fraction() == "1");
  for (unsigned processes = 1; processes <= 1024; ++processes) {
    const std::string fraction = share_of(std::to_string(processes), {}, 0).fraction();
    CHECK(std::stod(fraction) * processes <= 1.0);
    CHECK(std::stod(fraction) * processes > 0.99);
  }
}

TEST_CASE("the launcher closest to the process counts", "[run]") {
  const Variables both = {{"LOCAL_WORLD_SIZE", "8"}, {"SLURM_TASKS_PER_NODE", "1"}};
  CHECK(share_of("auto", both, 4).processes == 2);
  CHECK(share_of(" AUTO ", both, 4).processes == 2);
  CHECK(share_of("auto", both, 4).because ==
        "8 processes (LOCAL_WORLD_SIZE) on 4 GPUs (GPUs of this machine)");
}

TEST_CASE("Slurm's shards are shared by the job's processes on the node", "[run]") {
  Variables job = {{"SLURM_SHARDS_ON_NODE", "2"},
                   {"SHARDS_PER_GPU", "8"},
                   {"SLURM_GPUS_ON_NODE", "1"},
                   {"SLURM_TASKS_PER_NODE", "2"}};
  CHECK(share_of("auto", job, 1).fraction() == "0.125000");
  CHECK(share_of("auto", job, 1).because ==
        "2 processes (SLURM_TASKS_PER_NODE) on 2 of 8 shards of a GPU (SLURM_SHARDS_ON_NODE)");
  job["SLURM_TASKS_PER_NODE"] = "1";
  CHECK(share_of("auto", job, 1).fraction() == "0.250000");
  job["SLURM_SHARDS_ON_NODE"] = "8";
  CHECK(share_of("auto", job, 1).fraction() == "1");
  job["SLURM_SHARDS_ON_NODE"] = "9";  // of two GPUs, perhaps: no more than one is anybody's
  CHECK(share_of("auto", job, 1).fraction() == "1");
  job.erase("SHARDS_PER_GPU");
  CHECK(complaint_of("auto", job, 1).find("SHARDS_PER_GPU does not say") != std::string::npos);
  job["SHARDS_PER_GPU"] = "none";
  CHECK(complaint_of("auto", job, 1).find("SHARDS_PER_GPU does not say") != std::string::npos);
  for (unsigned shards = 1; shards <= 1024; shards += 37) {
    for (unsigned processes = 1; processes <= 1024; processes += 41) {
      const std::string fraction = share_of("auto",
                                            {{"SLURM_SHARDS_ON_NODE", std::to_string(shards)},
                                             {"SHARDS_PER_GPU", "1024"},
                                             {"LOCAL_WORLD_SIZE", std::to_string(processes)}},
                                            1)
                                       .fraction();
      CHECK(std::stod(fraction) * processes <= shards / 1024.0);
    }
  }
}

TEST_CASE("a job whose GPUs nobody knows", "[run]") {
  CHECK(complaint_of("auto", {{"LOCAL_WORLD_SIZE", "8"}}, 0).find("CUDA_VISIBLE_DEVICES") !=
        std::string::npos);
  CHECK(complaint_of("auto", {}, 1).find("no launcher") != std::string::npos);
  CHECK(complaint_of("", {}, 1).find("cannot be used") != std::string::npos);
}

}  // namespace cubfc::cli
