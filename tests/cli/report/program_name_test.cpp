// What people call a program, of its command line.
#include "cli/report/program_name.h"

#include <string>

#include "catch.h"

using cubfc::report::program_name;
using cubfc::report::program_text;

namespace {

struct Case {
  const char* command_line;
  const char* name;
  const char* text;
};

}  // namespace

TEST_CASE("A program is called by its script, its module or its file") {
  const Case cases[] = {
      {"./app fill:300 hold", "app", "./app fill:300 hold"},
      {"/opt/bin/app", "app", "/opt/bin/app"},
      {"python3 train.py --layers 24", "train.py", "train.py --layers 24"},
      {"/usr/bin/python3.11 -u -X faulthandler -W ignore src/train.py  a", "train.py",
       "train.py  a"},
      {"python -m vllm.entrypoints.api --port 1", "vllm.entrypoints.api",
       "vllm.entrypoints.api --port 1"},
      {"python3 -Im json.tool x", "json.tool", "json.tool x"},
      {"python3 -c import torch", "python3", "python3 -c import torch"},
      {"python3", "python3", "python3"},
      {"python3 -", "python3", "python3 -"},
      {"python3 -m", "python3", "python3 -m"},
      {"/venv/bin/python3 /venv/bin/torchrun --nproc-per-node 2 t.py", "torchrun",
       "torchrun --nproc-per-node 2 t.py"},
      {"pypy3.10 a.py", "a.py", "a.py"},
      {"node --max-old-space-size=4096 -r ts-node/register srv.js", "srv.js", "srv.js"},
      {"node -e code", "node", "node -e code"},
      {"/usr/lib/jvm/bin/java -Xmx4g -cp a.jar:b.jar org.Main x", "org.Main", "org.Main x"},
      {"java -jar /srv/app.jar", "app.jar", "app.jar"},
      {"bash -o pipefail run.sh", "run.sh", "run.sh"},
      {"sh -c python3 train.py", "sh", "sh -c python3 train.py"},
      {"pythonic a.py", "pythonic", "pythonic a.py"},
      {"python3-config --libs", "python3-config", "python3-config --libs"},
      {" python3  train.py", "train.py", "train.py"},
      {"", "", ""},
      {"   ", "", "   "},
      {"a/", "", "a/"},
  };
  for (const Case& each : cases) {
    INFO(each.command_line);
    CHECK(program_name(each.command_line) == each.name);
    CHECK(program_text(each.command_line) == each.text);
  }
}
