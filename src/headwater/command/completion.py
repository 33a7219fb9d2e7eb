"""Completion of the command in bash and zsh, made from the parser itself, so that it knows what the command knows."""

from __future__ import annotations

import argparse

from headwater.errors import QueryError

SHELLS = ("bash", "zsh")

_BASH = """_headwater() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{commands} --version --help" -- "$word")); return
  fi
  case "$word" in -*)
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    return;;
  esac
  COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _headwater headwater
"""


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """The text that a shell is to read: `source <(headwater completion bash)`."""
    if shell not in SHELLS:
        raise QueryError(
            f"there is no completion for `{shell}`", hint=f"one of {', '.join(SHELLS)}"
        )
    commands = commands_of(parser)
    cases = "\n".join(
        f'      {name}) COMPREPLY=($(compgen -W "{" ".join(_options(p))}" -- "$word"));;'
        for name, p in commands.items()
    )
    text = _BASH.format(commands=" ".join(commands), cases=cases)
    return text if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{text}"


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
