#include "cli/documentation/completions.h"

#include <algorithm>
#include <string_view>

#include "cli/shell_words.h"

namespace cubfc::cli::documentation {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : std::string(between)) + word;
  }
  return text;
}

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    names.push_back(command.name);
  }
  return names;
}

std::vector<std::string> names_of(const std::vector<Flag>& flags) {
  std::vector<std::string> names;
  for (const Flag& flag : flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

// The names of the flags that take a value.
std::vector<std::string> names_with_value(const Command& command) {
  std::vector<std::string> names;
  for (const Flag& flag : command.flags) {
    if (!flag.value.empty()) {
      names.insert(names.end(), flag.names.begin(), flag.names.end());
    }
  }
  return names;
}

// The first sentence, or what stands before its semicolon: a line in a menu.
std::string short_form(const std::string& description) {
  return description.substr(0, std::min({description.find(". "), description.find("; "),
                                         description.find_last_not_of(".;") + 1}));
}

std::string bash_case(const Command& command) {
  const std::vector<std::string> with_value = names_with_value(command);
  std::string values;
  for (const Flag& flag : command.flags) {
    if (!flag.values.empty()) {
      values +=
          "        " + joined(flag.names, "|") + ") values='" + joined(flag.values, " ") + "' ;;\n";
    }
  }
  std::string text =
      "    " + command.name + ")\n      flags='" + joined(names_of(command.flags), " ") + "'\n";
  if (!with_value.empty()) {
    text += "      with_value=' " + joined(with_value, " ") + " '\n";
  }
  if (!values.empty()) {
    text += "      case $prev in\n" + values + "      esac\n";
  }
  if (!command.values.empty()) {
    text += "      words='" + joined(command.values, " ") + "'\n";
  }
  return text + "      starts_program=" + (command.starts_program ? "1" : "") + "\n      ;;\n";
}

std::string zsh_flag(const Flag& flag, std::string_view lead = {}) {
  // The description stands in square brackets, so it must have none in it.
  std::string description;
  for (const char c : short_form(flag.description)) {
    description += c == '[' || c == ']' ? ' ' : c;
  }
  std::string value;
  if (!flag.value.empty()) {
    value = ":" + (flag.is_path()
                       ? std::string("file:_files")
                       : "value:" + (flag.values.empty() ? std::string()
                                                         : "(" + joined(flag.values, " ") + ")"));
  }
  std::string text;
  for (const std::string& name : flag.names) {
    const bool is_long = name.starts_with("--");
    text += "        " +
            in_single_quotes(std::string(lead) + name + (!value.empty() && is_long ? "=" : "") +
                             "[" + description + "]" + value) +
            " \\\n";
  }
  return text;
}

std::string zsh_case(const Command& command) {
  std::string text = "      " + command.name + ")\n        _arguments -S \\\n";
  for (const Flag& flag : command.flags) {
    text += zsh_flag(flag);
  }
  return text + "        " +
         (command.starts_program
              ? std::string("'(-)1:program:_command_names -e' '*::argument:_normal'")
          : !command.values.empty()    ? "'1:value:(" + joined(command.values, " ") + ")'"
          : command.positional.empty() ? std::string("':'")
                                       : std::string("'*:file:_files'")) +
         "\n        ;;\n";
}

std::string fish_flag(const std::string& here, const Flag& flag) {
  std::string text = here;
  for (const std::string& name : flag.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!flag.value.empty()) {
    text += flag.is_path() ? " -rF" : " -x";
  }
  if (!flag.values.empty()) {
    text += " -a '" + joined(flag.values, " ") + "'";
  }
  return text + " -d " + in_single_quotes(short_form(flag.description)) + "\n";
}

}  // namespace

// Where COMPREPLY stays empty, bash itself offers files (-o default), and quotes their names.
std::string bash_completion(const Tree& tree) {
  std::string text =
      R"(# bash completion for cubfc: source it, or put it where bash-completion looks.
_cubfc() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local flags= with_value= values= words= starts_program= i word
  if [[ $cur == = ]]; then cur=; fi
  if [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    words=')" +
      joined(names_of(tree.commands), " ") + R"('
    if [[ $cur == -* ]]; then words=')" +
      joined(names_of(tree.program.flags), " ") + R"('; fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    return
  fi
  case ${COMP_WORDS[1]} in
)";
  for (const Command& command : tree.commands) {
    text += bash_case(command);
  }
  text += R"(    *) return ;;
  esac
  if [[ $starts_program ]]; then
    for ((i = 2; i < COMP_CWORD; i++)); do
      word=${COMP_WORDS[i]}
      if [[ $word == -- ]]; then
        ((i++))
        break
      elif [[ ${COMP_WORDS[i+1]} == = ]]; then
        ((i += 2))
      elif [[ $with_value == *" $word "* ]]; then
        ((i++))
      elif [[ $word != -* ]]; then
        break
      fi
    done
    if ((i < COMP_CWORD)) || [[ ${COMP_WORDS[i-1]} == -- && i -eq COMP_CWORD ]]; then
      if ((i == COMP_CWORD)); then
        COMPREPLY=($(compgen -c -- "$cur"))
      elif declare -F _command_offset > /dev/null; then
        _command_offset "$i"
      fi
      return
    fi
  fi
  if [[ $with_value == *" $prev "* ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$cur"))
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [[ $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  elif [[ $starts_program ]]; then
    COMPREPLY=($(compgen -c -- "$cur"))
  fi
}
complete -o bashdefault -o default -F _cubfc cubfc
)";
  return text;
}

std::string zsh_completion(const Tree& tree) {
  std::string text = R"(#compdef cubfc
_cubfc() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C \
)";
  for (const Flag& flag : tree.program.flags) {
    text += zsh_flag(flag, "(- *)");
  }
  text += R"(    '1:command:->command' '*::argument:->arguments'
  case $state in
  command)
    local -a commands=(
)";
  for (const Command& command : tree.commands) {
    text +=
        "      " + in_single_quotes(command.name + ":" + short_form(command.description)) + "\n";
  }
  text += R"(    )
    _describe command commands
    ;;
  arguments)
    case $words[1] in
)";
  for (const Command& command : tree.commands) {
    text += zsh_case(command);
  }
  return text + R"(    esac
    ;;
  esac
}
if [[ $funcstack[1] == _cubfc ]]; then _cubfc "$@"; else compdef _cubfc cubfc; fi
)";
}

std::string fish_completion(const Tree& tree) {
  std::string text = "complete -c cubfc -f\n";
  for (const Flag& flag : tree.program.flags) {
    text += fish_flag("complete -c cubfc -n __fish_use_subcommand", flag);
  }
  for (const Command& command : tree.commands) {
    text += "complete -c cubfc -n __fish_use_subcommand -a " + command.name + " -d " +
            in_single_quotes(short_form(command.description)) + "\n";
    const std::string here =
        "complete -c cubfc -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const Flag& flag : command.flags) {
      text += fish_flag(here, flag);
    }
    if (command.starts_program) {
      // The lone hyphen ends the options of __fish_complete_subcommand itself.
      text += here + " -a '(__fish_complete_subcommand --fcs-skip=2 - " +
              joined(names_with_value(command), " ") + ")'\n";
    } else if (!command.values.empty()) {
      text += here + " -a '" + joined(command.values, " ") + "'\n";
    } else if (!command.positional.empty()) {
      text += here + " -F\n";
    }
  }
  return text;
}

}  // namespace cubfc::cli::documentation
