"""The forms of questions that an encyclopedia answers, as regular expressions."""

from __future__ import annotations

from typing import Final

# A thing that speaker and listener know ("the kitchen", "Ann's car", "ERR-00123") is nobody's
# general knowledge.
_ANY = r"(?:(?!\bthe [a-z]|\b[^\W\d_]+'s\b|[A-Za-z][-_]?\d).)*"
# Concepts are lower-case words: "what is Falcon?" names something, and is searched. "bob is
# allergic to" is none.
_CONCEPT = r"(?!the\b)(?!.* (?:to|for|with|about|like|doing)\b)(?:an? )?[a-z]+(?: [a-z]+){0,2}"
_SUM = (
    r"plus|minus|times|of|and|squared|cubed|percent|divided by|multiplied by|to the power of"
    r"|(?:the )?square root of"
)
_SIGN = rf"\d\s*(?:[+*×÷^%]|[-/] |x ?\d|{_SUM})|square root of \d"
GENERAL: Final = (
    r"what(?:'s| is| are| was) (?:the )?(?:capital|population|currency|speed|meaning|definition"
    r"|formula|square root|"
    r"boiling point|melting point|height|distance|weather|time zone|chemical symbol|plural"
    rf"|opposite|synonym)\b{_ANY}",
    rf"what(?:'s| is| are) {_CONCEPT}",
    rf"explain {_CONCEPT}",
    r"what does \W?[^\W\d_]+\W? (?:mean|stand for)",
    (
        r"(?:how|why) (?:do|does|did|is|are) (?!the\b)(?:an? )?[a-z]+(?: [a-z]+)? (?:work|works"
        r"|exist|happen|made)"
    ),
    r"why (?:is|are) (?:the )?(?:sky|sea|ocean|sun|moon|grass|blood) [a-z]+",
    rf"who (?:wrote|discovered|painted|composed|founded) {_ANY}",
    rf"who invented (?:the )?{_ANY}",
    (
        r"who (?:is|was) the (?:first |current )?(?:president|prime minister|king|queen|chancellor"
        r"|pope)\b"
    )
    + _ANY,
    rf"(?:please )?(?:define|translate|convert|calculate|compute|spell)\b{_ANY}",
    (
        rf"(?=.*(?:{_SIGN}))(?:(?:what(?:'s| is)|how much is) )?(?:[\d\s.,()+*/x×÷^%=-]"
        rf"|\b(?:{_SUM})\b)+"
    ),
    r"how many [a-z]+ (?:are )?(?:there )?in (?:an?|one) [a-z]+",
    r"was ist die Hauptstadt (?:von|der|des) \w+",
    (
        r"(?:cuál es|quelle est|qual è|qual é) la capitale? d(?:e |el |i |ella |u |e la |es |'"
        r"|e l')\w+"
    ),
    r"какая столица \w+",
    r"[^\WA-Za-z0-9]+的首都(?:是|在)?(?:哪里|哪儿|哪个城市|什么)",
    r"[^\WA-Za-z0-9]+の首都は(?:どこ|何|なん)(?:ですか)?",
    r"什么是[^\WA-Za-z0-9]+",
    r"[^\WA-Za-z0-9]+とは(?:何|なん)?(?:ですか)?",
)
