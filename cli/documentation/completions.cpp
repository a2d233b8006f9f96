#include "cli/documentation/completions.h"

#include <string_view>

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

// Of the flags that a value follows.
std::vector<std::string> names_with_value(const Command& command) {
  std::vector<std::string> names;
  for (const Flag& flag : command.flags) {
    if (!flag.value.empty()) {
      names.insert(names.end(), flag.names.begin(), flag.names.end());
    }
  }
  return names;
}

// Up to the first end of a sentence or semicolon: a line in a menu.
std::string short_form(const std::string& description) {
  return description.substr(0, description.find_first_of(";.:"));
}

// Without what the shell would see as the end of a quotation, or as special in it.
std::string in_single_quotes(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return "'" + result + "'";
}

std::string bash_case(const Command& command) {
  std::string flags;
  const std::vector<std::string> with_value = names_with_value(command);
  std::string values;
  for (const Flag& flag : command.flags) {
    for (const std::string& name : flag.names) {
      flags += (flags.empty() ? "" : " ") + name;
    }
    if (flag.is_path || !flag.values.empty()) {
      values += "          " + joined(flag.names, "|") + ") " +
                (flag.is_path
                     ? "COMPREPLY=($(compgen -f -- \"$cur\"))"
                     : "COMPREPLY=($(compgen -W '" + joined(flag.values, " ") + "' -- \"$cur\"))") +
                "; return ;;\n";
    }
  }
  std::string text = "    " + command.name + ")\n      flags='" + flags + "'\n";
  if (!with_value.empty()) {
    text += "      with_value=' " + joined(with_value, " ") + " '\n";
  }
  if (!values.empty()) {
    text += "      value() {\n        case $1 in\n" + values + "        esac\n      }\n";
  }
  if (!command.values.empty()) {
    text += "      words='" + joined(command.values, " ") + "'\n";
  }
  return text + "      starts_program=" + (command.starts_program ? "1" : "") + "\n      ;;\n";
}

std::string zsh_flag(const Flag& flag) {
  // In square brackets, where a colon or a bracket would end it.
  std::string description;
  for (const char c : short_form(flag.description)) {
    description += c == '[' || c == ']' ? ' ' : c;
  }
  std::string value;
  if (!flag.value.empty()) {
    value = ":" + (flag.is_path
                       ? std::string("file:_files")
                       : "value:" + (flag.values.empty() ? std::string()
                                                         : "(" + joined(flag.values, " ") + ")"));
  }
  std::string text;
  for (const std::string& name : flag.names) {
    const bool is_long = name.starts_with("--");
    text += "        " +
            in_single_quotes(name + (!value.empty() && is_long ? "=" : "") + "[" + description +
                             "]" + value) +
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

std::string fish_flag(const Command& command, const Flag& flag) {
  std::string text = "complete -c cubfc -n '__fish_seen_subcommand_from " + command.name + "'";
  for (const std::string& name : flag.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!flag.value.empty()) {
    text += flag.is_path ? " -rF" : " -x";
  }
  if (!flag.values.empty()) {
    text += " -a '" + joined(flag.values, " ") + "'";
  }
  return text + " -d " + in_single_quotes(short_form(flag.description)) + "\n";
}

}  // namespace

std::string bash_completion(const std::vector<Command>& commands) {
  std::string text =
      R"(# bash completion for cubfc: source it, or put it where bash-completion looks.
_cubfc() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local flags= with_value= words= starts_program= i word
  if [[ $cur == = ]]; then cur=; fi
  if [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W ')" +
      joined(names_of(commands), " ") + R"( --help --version' -- "$cur"))
    return
  fi
  value() { :; }
  case ${COMP_WORDS[1]} in
)";
  for (const Command& command : commands) {
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
      else
        COMPREPLY=($(compgen -f -- "$cur"))
      fi
      return
    fi
  fi
  if [[ $with_value == *" $prev "* ]]; then
    value "$prev"
    return
  fi
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [[ $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  elif [[ $starts_program ]]; then
    COMPREPLY=($(compgen -c -- "$cur"))
  else
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -o filenames -o bashdefault -F _cubfc cubfc
)";
  return text;
}

std::string zsh_completion(const std::vector<Command>& commands) {
  std::string text = R"(#compdef cubfc
_cubfc() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C '(- *)--help[all of it]' '(- *)--version[the version]' '1:command:->command' \
    '*::argument:->arguments'
  case $state in
  command)
    local -a commands=(
)";
  for (const Command& command : commands) {
    text +=
        "      " + in_single_quotes(command.name + ":" + short_form(command.description)) + "\n";
  }
  text += R"(    )
    _describe command commands
    ;;
  arguments)
    case $words[1] in
)";
  for (const Command& command : commands) {
    text += zsh_case(command);
  }
  return text + R"(    esac
    ;;
  esac
}
if [[ $funcstack[1] == _cubfc ]]; then _cubfc "$@"; else compdef _cubfc cubfc; fi
)";
}

std::string fish_completion(const std::vector<Command>& commands) {
  std::string text = "complete -c cubfc -f\n";
  for (const Command& command : commands) {
    text += "complete -c cubfc -n __fish_use_subcommand -a " + command.name + " -d " +
            in_single_quotes(short_form(command.description)) + "\n";
    for (const Flag& flag : command.flags) {
      text += fish_flag(command, flag);
    }
    const std::string here =
        "complete -c cubfc -n '__fish_seen_subcommand_from " + command.name + "'";
    if (command.starts_program) {
      // The lone hyphen ends the function's own options.
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
