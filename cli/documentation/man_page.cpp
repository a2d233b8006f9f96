#include "cli/documentation/man_page.h"

#include <algorithm>
#include <string_view>

#include "config/options.h"

namespace cubfc::cli::documentation {
namespace {

// The text with troff's special characters escaped, and without Markdown's backquotes.
std::string escaped(std::string_view text) {
  std::string result;
  bool starts_line = true;
  for (const char c : text) {
    if (starts_line && (c == '.' || c == '\'')) {
      result += "\\&";
    }
    starts_line = c == '\n';
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c != '`') {
      result += c;
    }
  }
  return result;
}

std::string trimmed_lines(std::string text) {
  text.erase(0, text.find_first_not_of('\n'));
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

std::string flag_text(const Flag& flag) {
  std::string names;
  for (const std::string& name : flag.names) {
    names += (names.empty() ? "\\fB" : ", \\fB") + escaped(name) + "\\fR";
  }
  return ".TP\n" + names + (flag.value.empty() ? "" : " \\fI" + escaped(flag.value) + "\\fR") +
         "\n" + escaped(flag.description) + "\n";
}

std::string usage_of(const Command& command) {
  std::string text = ".B cubfc " + escaped(command.name) + "\n[\\fIOPTIONS\\fR]";
  if (command.starts_program) {
    text += " [\\-\\-] \\fIPROGRAM\\fR [\\fIARGUMENT\\fR...]";
  } else if (!command.positional.empty()) {
    text += " \\fI" + escaped(command.positional) + "\\fR";
  }
  return text + "\n";
}

std::string command_text(const Command& command) {
  std::string text = ".SS " + escaped(command.name) + "\n" + usage_of(command) + ".PP\n" +
                     escaped(command.description) + "\n";
  for (const Flag& flag : command.flags) {
    text += flag_text(flag);
  }
  const std::string footer = trimmed_lines(command.footer);
  return footer.empty() ? text : text + ".PP\n.EX\n" + escaped(footer) + "\n.EE\n";
}

std::string variable_text(const config::Option& option) {
  std::string text = ".TP\n\\fB" + std::string(option.own.name) + "\\fR\n" +
                     escaped(option.meaning) + "; default: " + escaped(option.default_text) +
                     "; accepted: " + escaped(option.own.accepted);
  for (const config::Spelling& other : option.honoured) {
    text += "; also honoured: " + std::string(other.name);
    text += other.note.empty() ? "" : " (" + escaped(other.note) + ")";
  }
  return text + "\n";
}

}  // namespace

std::string man_page(const Tree& tree, const std::string& version) {
  std::string text = ".TH CUBFC 1 \"\" \"cubfc " + version + "\" \"User Commands\"\n" +
                     ".SH NAME\ncubfc \\- runs, shows and explains GPU memory of CUDA programs\n" +
                     ".SH SYNOPSIS\n";
  for (const Command& command : tree.commands) {
    text += usage_of(command) + ".br\n";
  }
  text += ".B cubfc\n\\fIOPTION\\fR\n";
  text += R"(.SH DESCRIPTION
libcubfc.so is preloaded into an unmodified CUDA program. It takes the program's device allocations
and serves them from an arena in the process, under the memory policy that JAX, XLA and TensorFlow
made popular: preallocate a share of the device, grow on demand, or pass through, with a hard limit
if one is wanted.
.B cubfc run
starts a program in this way; the other commands show, explain and try.
.SH OPTIONS
)";
  for (const Flag& flag : tree.program.flags) {
    text += flag_text(flag);
  }
  text += ".SH COMMANDS\n";
  for (const Command& command : tree.commands) {
    text += command_text(command);
  }
  text += ".SH ENVIRONMENT\nRead once, when the library loads. An empty value counts as unset.\n";
  for (const config::Option& option : config::options()) {
    text += variable_text(option);
  }
  text += R"(.SH EXIT STATUS
Of all commands but
.BR run ,
which ends as the program does: 0 done, 1 it could not be done, 2 the command line is wrong.
Others stand with the command.
.SH FILES
.TP
.I $XDG_RUNTIME_DIR/cubfc
where processes of a user find each other, and have their figures; else /dev/shm/cubfc\-UID or
/tmp/cubfc\-UID.
.SH SEE ALSO
.BR ld.so (8),
.BR nvidia\-smi (1)
)";
  return text;
}

}  // namespace cubfc::cli::documentation
