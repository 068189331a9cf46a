"""Completion of commands and options in bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .command import Command


def _words(commands: Sequence[Command]) -> dict[str, str]:
    """Return what may follow the first word of each command: second words, and options."""
    words: dict[str, dict[str, None]] = {}
    for command in commands:
        first, *second = command.name.split()
        options = [word for one in command.all_options for word in one.words if word[0] == "-"]
        words.setdefault(first, {}).update(dict.fromkeys([*second, *options]))
    return {first: " ".join(known) for first, known in words.items()}


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
    start = f"complete -c kagent-memory -n __fish_use_subcommand -a '{' '.join(words)}'"
    return "\n".join(
        [start]
        + [
            f"complete -c kagent-memory -n '__fish_seen_subcommand_from {name}' -a '{known}'"
            for name, known in words.items()
        ]
    )


SHELLS: Mapping[str, Callable[[Sequence[Command]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
