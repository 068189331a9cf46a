"""What is asked of memory: whether to search at all, follow-ups completed, long questions split, rewritten on wish."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Protocol

from pydantic import BaseModel

from .errors import ModelError
from .llm import Answer, Llm
from .text import STOP_WORDS, tokens

SMALL_TALK: tuple[str, ...] = tuple(
    phrase.strip()
    for line in """
    hi, hello, hey, hiya, howdy, yo, greetings, hi there, hello there, hey there, good morning, good afternoon
    good evening, good night, good day, morning, welcome back, how are you, how are you doing, how are you today
    how's it going, what's up, nice to meet you, thanks, thank you, thx, ty, thanks a lot, thank you so much
    thank you very much, many thanks, much appreciated, appreciate it, for your help, for the help, so much, a lot
    ok, okay, k, alright, all right, fine, sure, sure thing, got it, i see, understood, sounds good, makes sense
    great, good, nice, cool, awesome, perfect, excellent, wonderful, lovely, well done, good job, great job, wow, lol
    haha, yes, yeah, yep, yup, no, nope, please, no problem, no worries, you're welcome, sorry, bye, bye bye, goodbye
    good bye, see you, see you later, see you soon, cya, later, take care, have a nice day, have a great day, cheers
    hallo, guten morgen, guten tag, guten abend, danke, danke schön, vielen dank, tschüss, hola, buenos días, gracias
    muchas gracias, adiós, bonjour, salut, bonsoir, merci, merci beaucoup, au revoir, ciao, buongiorno, grazie, olá
    obrigado, obrigada, привет, здравствуйте, спасибо, пока, 你好, 您好, 嗨, 早上好, 晚上好, 谢谢
    谢谢你, 多谢, 好的, 再见
    こんにちは, こんばんは, おはよう, おはようございます, ありがとう, ありがとうございます, どうも, はい, さようなら
    안녕, 안녕하세요, 고마워, 고맙습니다, 감사합니다, 네, 안녕히 계세요
    """.splitlines()
    for phrase in line.split(",")
    if phrase.strip()
)
# Concepts are lower-case words: "what is Falcon?" names something, and is searched.
GENERAL: tuple[str, ...] = (
    r"what(?:'s| is| are| was) (?:the )?(?:capital|population|currency|speed|meaning|definition|formula|square root|"
    r"boiling point|melting point|height|distance|weather|time zone|chemical symbol|plural|opposite|synonym)\b.*",
    r"what(?:'s| is| are) (?!the\b)(?:an? )?[a-z]+(?: [a-z]+){0,2}",
    r"explain (?!the\b)(?:an? )?[a-z]+(?: [a-z]+){0,2}",
    r"what does \S+ (?:mean|stand for)",
    r"(?:how|why) (?:do|does|did|is|are) (?:an? |the )?[a-z]+(?: [a-z]+)? (?:work|works|exist|happen|blue|made)",
    r"who (?:wrote|invented|discovered|painted|composed|founded)\b.*",
    r"who (?:is|was) the (?:first |current )?(?:president|prime minister|king|queen|chancellor|pope)\b.*",
    r"(?:please )?(?:define|translate|convert|calculate|compute|spell)\b.*",
    r"(?:what(?:'s| is) )?[\d\s.,()+*/x×÷^%-]+=?",
    r"how many [a-z]+ (?:are )?in (?:an? |one )?[a-z]+",
)
_OWN_WORDS = """
i i'm i've i'd me my mine myself we we've us our ours you your yours he him his she her they them their this that these
those remember remind again earlier before previously yesterday today last ago ich mir mich mein meine wir uns unser je
moi mon ma mes nous notre nos yo mi mis nosotros nuestro nuestra eu meu minha io mio mia noi nostro мой моя мне я мы наш
我 咱 俺 私 僕 うち 나 내 저 제 우리
"""
PERSONAL: tuple[str, ...] = tuple(_OWN_WORDS.split())
_POINTERS = """
it its that this these those them they he him she her there then one ones same and also else instead more much many
"""
_REFERRING = frozenset(_POINTERS.split())
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]")
_EDGE = re.compile(r"^\W+|\W+$")

MIN_SENTENCE_WIDTH = 30
MAX_SENTENCES = 8
EARLIER_TURNS = 3
EARLIER_CHARS = 300


class Gate(Protocol):
    """Decides before a prefetch whether a message is worth a search. Any object of this shape will do."""

    def searches(self, text: str, *, tool: bool = False) -> bool:
        """Whether to search for `text`; `tool`: the caller says that it is meant for a tool."""
        ...


@dataclass(frozen=True)
class WordGate:
    """Passes whatever is not small talk, general knowledge, or meant for a tool.

    When in doubt it searches: a needless search costs a millisecond, a missed one the answer.

    Attributes:
        small_talk: phrases; a message made of nothing else is not searched.
        general: regular expressions of a whole question that anybody's encyclopedia answers.
        personal: words that make such a question personal after all ("what is my …").
    """

    small_talk: Sequence[str] = SMALL_TALK
    general: Sequence[str] = GENERAL
    personal: Sequence[str] = PERSONAL

    def searches(self, text: str, *, tool: bool = False) -> bool:
        """False for tool queries, small talk, and general questions without a personal word."""
        plain = _plain(text)
        if tool or not plain or self._chatting.fullmatch(plain):
            return False
        return not self._common.fullmatch(_decapitalised(text)) or bool(self._own.search(plain))

    @cached_property
    def _chatting(self) -> re.Pattern[str]:
        phrases = sorted((_plain(phrase) for phrase in self.small_talk), key=len, reverse=True)
        return re.compile(rf"(?:(?:{'|'.join(map(re.escape, phrases)) or '(?!)'})(?:\W+|$))+")

    @cached_property
    def _common(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in self.general) or "(?!)")

    @cached_property
    def _own(self) -> re.Pattern[str]:
        spaced = [re.escape(word) for word in self.personal if not _WIDE.search(word)]
        unspaced = [re.escape(word) for word in self.personal if _WIDE.search(word)]
        return re.compile("|".join([rf"\b(?:{'|'.join(spaced) or '(?!)'})\b", *unspaced]))


def complete(text: str, earlier: Sequence[str]) -> str:
    """A vague or short follow-up ("how much?") with the last three user turns before it; anything else as it is.

    Args:
        text: what the user says now.
        earlier: the user's turns before it, oldest first. Turns without a telling word are passed over.
    """
    if not is_vague(text):
        return text
    telling = [turn.strip()[:EARLIER_CHARS] for turn in earlier[-EARLIER_TURNS:] if _telling(turn)]
    return "\n".join([*telling, text])


def is_vague(text: str) -> bool:
    """Whether a text says too little of what it is about to be searched alone."""
    if _WIDE.search(text):
        return len(_EDGE.sub("", text)) <= 4
    words = _plain(text).split()
    telling = _telling(text)
    if not telling:
        return True
    if any(any(mark.isdigit() or mark in "@_/" for mark in word) for word in words):
        return False
    if not _REFERRING.isdisjoint(words):
        return len(telling) <= 2 and len(words) <= 8
    return len(words) <= 2 and text.rstrip().endswith("?")


def split(text: str) -> list[str]:
    """The sentences of a text that are long enough to be searched alone (30 characters; a Chinese, Japanese or Korean
    one counts as two), at most 8; the whole text when none is.
    """
    kept = [part.strip() for part in _SENTENCE_END.split(text) if _width(part.strip()) >= MIN_SENTENCE_WIDTH]
    return kept[:MAX_SENTENCES] or [text]


class SearchQuery(BaseModel):
    """What the model answers to a rewrite."""

    query: str


class Note(BaseModel):
    """What the model answers to a question for a hypothetical note."""

    note: str


async def rewrite(llm: Llm, text: str, earlier: Sequence[str] = (), *, timeout_seconds: float) -> tuple[str, str]:
    """The text as a query that stands alone, and ""; or the text itself, and why the model did not help."""
    prompt = _prompt("rewrite_query.md", text, "\n".join(earlier[-EARLIER_TURNS:]))
    answer, reason = await _ask(llm, prompt, SearchQuery, timeout_seconds)
    return (answer.query.strip() or text) if answer else text, reason and f"rewrite: {reason}"


async def hypothetical(llm: Llm, text: str, *, timeout_seconds: float) -> tuple[str | None, str]:
    """A note that would answer the text, to be embedded beside it, and ""; or None, and why there is none.

    Source: Gao et al. 2022, "Precise Zero-Shot Dense Retrieval without Relevance Labels" (HyDE).
    """
    answer, reason = await _ask(llm, _prompt("hypothetical_answer.md", text), Note, timeout_seconds)
    return (answer.note.strip() or None) if answer else None, reason and f"hyde: {reason}"


async def _ask(llm: Llm, prompt: str, schema: type[Answer], timeout_seconds: float) -> tuple[Answer | None, str]:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await llm.complete(prompt, schema=schema), ""
    except TimeoutError:
        return None, f"no answer within {timeout_seconds:g} s"
    except ModelError as error:
        return None, str(error)


def _prompt(name: str, message: str, earlier: str = "") -> str:
    template = (files("kagent_memory.prompts") / name).read_text(encoding="utf-8")
    before, _, rest = template.partition("{message}")
    return before.replace("{earlier}", earlier) + message + rest


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return _EDGE.sub("", " ".join(folded.split()))


def _decapitalised(text: str) -> str:
    bare = _EDGE.sub("", " ".join(text.replace("’", "'").split()))
    return bare[:1].lower() + bare[1:]


def _telling(text: str) -> list[str]:
    return [term for term in tokens(text) if term not in STOP_WORDS]


def _width(text: str) -> int:
    return len(text) + len(_WIDE.findall(text))
