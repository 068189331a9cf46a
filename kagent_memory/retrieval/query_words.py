"""The words that the gate and the completion of follow-ups go by; the gate's are its settings."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

SMALL_TALK: Final[tuple[str, ...]] = tuple(
    phrase.strip()
    for line in """
    hi, hello, hey, hiya, howdy, yo, greetings, hi there, hello there, hey there, good morning
    good afternoon
    good evening, good night, good day, morning, welcome back, how are you, how are you doing
    how are you today
    how's it going, what's up, nice to meet you, thanks, thank you, thx, ty, thanks a lot
    thank you so much
    thank you very much, many thanks, much appreciated, appreciate it, for your help, for the help
    so much, a lot
    ok, okay, k, alright, all right, fine, sure, sure thing, got it, i see, understood, sounds good
    makes sense
    great, good, nice, cool, awesome, perfect, excellent, wonderful, lovely, well done, good job
    great job, wow, lol
    haha, yes, yeah, yep, yup, no, nope, please, no problem, no worries, you're welcome, sorry, bye
    bye bye, goodbye
    good bye, see you, see you later, see you soon, cya, later, take care, have a nice day
    have a great day, cheers
    everyone, friend, that's great, that was great, that helps, that works, nice work, great work
    never mind
    no thanks, no thank you, congratulations, see you tomorrow, talk to you later, talk soon
    happy new year
    merry christmas, happy holidays, have a good one, have a good day, have a good evening
    have a nice evening
    have a good weekend, have a nice weekend, have a great weekend, test, testing, ping
    hallo, hallo zusammen, moin, servus, grüß gott, guten morgen, guten tag, guten abend
    gute nacht, wie geht's
    wie gehts, wie geht es dir, wie geht es ihnen, danke, danke schön, danke sehr, danke dir
    vielen dank, besten dank
    für deine hilfe, für ihre hilfe, für die hilfe, bitte, gerne, ja, nein, genau, prima, super
    alles klar, tschüss
    bis morgen, bis bald, bis später, bis dann, auf wiedersehen, schönes wochenende, schönen tag
    schönen abend
    hola, buenas, buenos días, buenas tardes, buenas noches, qué tal, cómo estás, cómo está
    cómo va, gracias
    muchas gracias, mil gracias, por tu ayuda, por su ayuda, de nada, por favor, sí, vale, perfecto
    genial, adiós
    hasta luego, hasta mañana, hasta pronto, chao
    bonjour, salut, bonsoir, bonne nuit, ça va, comment ça va, comment vas-tu, comment allez-vous
    merci
    merci beaucoup, merci bien, pour ton aide, pour votre aide, de rien, d'accord, oui, non
    parfait, au revoir
    à demain, à bientôt, à plus tard, bonne journée, bonne soirée
    ciao, buongiorno, buonasera, buonanotte, come stai, come va, grazie, grazie mille, per l'aiuto
    prego, va bene, sì
    arrivederci, a domani, a presto, olá, oi, bom dia, boa tarde, boa noite, tudo bem, como vai
    obrigado, obrigada
    muito obrigado, muito obrigada, pela ajuda, sim, não, tchau, até logo, até amanhã
    привет, здравствуйте, доброе утро, добрый день, добрый вечер, как дела, спасибо, большое спасибо
    спасибо большое, хорошо, понятно, да, нет, пока, до свидания
    你好, 您好, 嗨, 早安, 早上好, 下午好, 晚上好, 晚安, 你好吗, 您好吗, 最近怎么样, 谢谢, 谢谢你, 谢谢您, 多谢, 非常感谢
    的帮助, 不客气, 没问题, 好的, 是的, 明白了, 再见, 拜拜, 明天见, 回头见, 新年快乐
    こんにちは, こんばんは, おはよう, おはようございます, おやすみ, おやすみなさい, お元気ですか, 元気ですか
    ありがとう, ありがとうございます, ありがとうございました, どうも, よろしく, よろしくお願いします, お疲れ様です
    はじめまして, すみません, はい, いいえ, わかりました, 了解です, さようなら, またね, また明日
    안녕, 안녕하세요, 잘 지내, 잘 지내세요, 반갑습니다, 고마워, 고마워요, 고맙습니다, 감사합니다, 네, 아니요, 괜찮아요
    알겠습니다, 안녕히 계세요, 안녕히 가세요, 내일 봐요
    """.splitlines()  # noqa: E501
    for phrase in line.split(",")
    if phrase.strip()
)

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
GENERAL: Final[tuple[str, ...]] = (
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
_FIRST_PERSON = """
i i'm i've i'd my mine myself we we've us our ours
ich mir mich mein meine meinen meinem meiner wir uns unser unsere unseren je j moi mon ma mes nous
notre nos
yo mi mis nosotros nuestro nuestra eu meu minha io mio mia noi мой моя моё мои мне я мы наш
"""
_FIRST_PERSON_UNSPACED = "我 咱 俺 私 僕 うち 나 내 저 제 우리"
_OTHERS = """
me you your yours he him his he's she her she's they them their
this that these those remember remind again earlier before previously yesterday today tonight
tomorrow last ago next new
left now still due open pending missing planned scheduled done agreed decided going happening wrong
me nostro
"""
FIRST_PERSON: Final = frozenset(_FIRST_PERSON.split())
FIRST_PERSON_UNSPACED: Final = tuple(_FIRST_PERSON_UNSPACED.split())
PERSONAL: Final[tuple[str, ...]] = (*FIRST_PERSON, *FIRST_PERSON_UNSPACED, *_OTHERS.split())

# They stand for something said before.
_POINTERS = """
it its that this these those them they he him she her there then one ones same and also else instead
more much many
er sie ihn ihm ihr das dies diese dieser dieses davon dazu dort él ella ellos ellas eso esto esos
allí ahí
elle elles ça cela celui là lui lei quello questo ele ela isso isto он она они его её ему ей это
этот там тогда
"""
# They ask or link, and tell nothing of what about.
_ASKING = """
wie wo wann was wer wem wen warum wieso welche welcher welches viel viele ist sind war waren hat
haben gibt
cuánto cuánta cuántos cuándo dónde cómo qué quién cuál es son era fue está combien quand où comment
quoi qui pourquoi
quel quelle est sont était quanto quanta quando dove come cosa che chi perché è sono onde quem qual
сколько когда где как что кто почему какой был была
"""
# A message that begins with one of them goes on with another.
_CONTINUING = "and or but und oder aber y e o pero et ou mais ed ma mas а и но"
_POINTERS_UNSPACED = (
    "那 它 他 她 这 這 それ これ あれ そこ その この 彼 그거 그것 그건 그 이거 거기"
)
_POLITE_ENDINGS = (
    "でしたか ですか ましたか ますか なの 呢 吗 嗎 인가요 이에요 예요 이야 야 요 죠 니"
)
POINTERS: Final = frozenset(_POINTERS.split())
ASKING: Final = frozenset(_ASKING.split())
CONTINUING: Final = frozenset(_CONTINUING.split())
CONTINUATIONS: Final = ("what about", "how about")
POINTERS_UNSPACED: Final = tuple(_POINTERS_UNSPACED.split())
POLITE_ENDINGS: Final = tuple(_POLITE_ENDINGS.split())

_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]"
)
_EDGE = re.compile(r"^\W++|(?<!\W)\W++$")


def plain(text: str) -> str:
    """The text in one spelling: case and width folded, blanks single, nothing but words at its
    ends.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return bare(" ".join(folded.split()))


def bare(text: str) -> str:
    """Strip non-word characters from both ends."""
    return _EDGE.sub("", text)


def wide(text: str) -> bool:
    """Return True if a text holds a Chinese, Japanese or Korean character."""
    return bool(_WIDE.search(text))
