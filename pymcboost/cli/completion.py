"""Completion of the programs' options in bash, zsh and fish, made from the options themselves."""

import re

from pymcboost.cli.programs import PROGRAMS, entries

ABOUT = "# Completion of the mcboost programs. Written by: python -m pymcboost --completion "


def script(shell):
    """The text to be sourced by a shell."""
    return ABOUT + shell + "\n" + SHELLS[shell]()


def _options(program):
    """The options of a program, but for the one whose name is open."""
    return [entry for entry in entries(program) if entry.flags and "<" not in entry.flags[0]]


def _short(entry):
    """The first sentence of a help text, without what has a meaning in shells."""
    text = re.split(r"(?<=[^.])[.;:](?: |$)| \(", entry.help)[0]
    return re.sub(r"[\[\]'\"`$\\:%]", "", text)


BASH_START = """\
_mcboost() {
  local program=${COMP_WORDS[0]##*/} current=$2 previous=$3 algorithm=mcboost flags= values= i
  for ((i = 1; i < COMP_CWORD - 1; i++)); do
    case ${COMP_WORDS[i]} in -a|--algorithm) algorithm=${COMP_WORDS[i + 1]} ;; esac
  done
  case $program/$algorithm/$previous in
"""
BASH_MIDDLE = """\
  esac
  if [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
    return
  fi
  [[ $current == -* ]] || return
"""
BASH_END = """\
  COMPREPLY=($(compgen -W "$flags" -- "$current"))
}
"""


def _bash():
    text = BASH_START
    for program in PROGRAMS:
        for entry in _options(program):
            if entry.value is None or entry.file:
                continue
            patterns = [f"{program}/{name}/{flag}" for name in entry.algorithms or "*" for flag in entry.flags]
            does = f"values='{' '.join(entry.choices)}'" if entry.choices else "compopt +o default; return"
            text += f"    {'|'.join(patterns)}) {does} ;;\n"
    text += BASH_MIDDLE
    for program in PROGRAMS:
        for entry in _options(program):
            there = f"$program == {program}" + _algorithms(entry, " && $algorithm == @({})")
            text += f"  [[ {there} ]] && flags+=' {' '.join(entry.flags)}'\n"
    return text + BASH_END + f"complete -o default -F _mcboost {' '.join(PROGRAMS)}\n"


def _algorithms(entry, pattern):
    return pattern.format("|".join(entry.algorithms)) if entry.algorithms else ""


ZSH_START = """\
_mcboost() {
  local algorithm=mcboost i
  local -a specs
  for ((i = 2; i < CURRENT - 1; i++)); do
    [[ $words[i] == (-a|--algorithm) ]] && algorithm=$words[i+1]
  done
  specs=('*:file:_files')
"""


def _zsh():
    text = ZSH_START
    for program in PROGRAMS:
        for entry in _options(program):
            there = f"$service == {program}" + _algorithms(entry, " && $algorithm == ({})")
            value = (
                ""
                if entry.value is None
                else ":value:" + ("_files" if entry.file else f"({' '.join(entry.choices)})" if entry.choices else " ")
            )
            flags = entry.flags[0] if len(entry.flags) == 1 else "{" + ",".join(entry.flags) + "}"
            group = f"'({' '.join(entry.flags)})'"
            text += f"  [[ {there} ]] && specs+=({group}{flags}'[{_short(entry)}]{value}')\n"
    return f"{text}  _arguments -s -S $specs\n}}\ncompdef _mcboost {' '.join(PROGRAMS)}\n"


FISH_START = """\
function __mcboost_algorithm
    set -l words (commandline -opc)
    set -l algorithm mcboost
    for i in (seq 2 (count $words))
        if contains -- $words[$i] -a --algorithm; and test (count $words) -gt $i
            set algorithm $words[(math $i + 1)]
        end
    end
    contains -- $algorithm $argv
end
"""


def _fish():
    text = FISH_START
    for program in PROGRAMS:
        for entry in _options(program):
            words = ["complete", "-c", program]
            if entry.algorithms:
                words += ["-n", f"'__mcboost_algorithm {' '.join(entry.algorithms)}'"]
            words += [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in entry.flags]
            words += [] if entry.value is None else ["-r" if entry.file else "-x"]
            words += ["-a", f"'{' '.join(entry.choices)}'"] if entry.choices else []
            text += f"{' '.join(words)} -d '{_short(entry)}'\n"
    return text


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
