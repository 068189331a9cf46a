"""Completion of commands and options in bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .command import Command


def _words(commands: Sequence[Command]) -> dict[str, str]:
    """Return what may follow the first word of each command: second words, and options."""
    words: dict[str, list[str]] = {}
    for command in commands:
        first, *second = command.name.split()
        options = [one.word for one in command.all_options if one.word.startswith("-")]
        words[first] = [*words.get(first, ()), *second, *options]
    return {first: " ".join(dict.fromkeys(known)) for first, known in words.items()}


def _bash(commands: Sequence[Command]) -> str:
    words = _words(commands)
    cases = "\n".join(f"    {name}) words='{known}' ;;" for name, known in words.items())
    return f"""_kagent_memory() {{
  local words='{" ".join(words)}'
  [ "$COMP_CWORD" -gt 1 ] && case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _kagent_memory kagent-memory"""


def _zsh(commands: Sequence[Command]) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: Sequence[Command]) -> str:
    words = _words(commands)
    places = {"__fish_use_subcommand": " ".join(words)}
    places |= {f"__fish_seen_subcommand_from {name}": known for name, known in words.items()}
    return "\n".join(
        f"complete -c kagent-memory -n '{place}' -a '{known}'" for place, known in places.items()
    )


SHELLS: Mapping[str, Callable[[Sequence[Command]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
