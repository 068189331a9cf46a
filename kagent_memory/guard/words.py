"""The words the difference guard knows, by language; all small letters."""

# ruff: noqa: SIM905 lists of words read best as lines of words
from __future__ import annotations

from typing import Final

_NUMBERS: Final = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty",
    "de": "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn zwanzig",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
    "dix-huit dix-neuf vingt",
    "es": "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
    "diecisiete dieciocho diecinueve veinte",
}
_MORE_NUMBERS = (
    "thirty:30 forty:40 fifty:50 sixty:60 seventy:70 eighty:80 ninety:90 hundred:100 thousand:1000 million:1000000 "
    "billion:1000000000 half:0.5 twice:2 double:2 thrice:3 dozen:12 first:1st second:2nd third:3rd fourth:4th "
    "fifth:5th dreißig:30 vierzig:40 fünfzig:50 hundert:100 tausend:1000 halb:0.5 trente:30 quarante:40 "
    "cinquante:50 cent:100 mille:1000 treinta:30 cuarenta:40 cincuenta:50 cien:100 mil:1000"
)
# "one", "ein", "un" are articles and pronouns as often as numbers: against another number they still differ.
NUMBER_WORDS: Final[dict[str, str]] = {
    word: str(value) for line in _NUMBERS.values() for value, word in enumerate(line.split()) if value != 1
} | {word: value for word, _, value in (pair.partition(":") for pair in _MORE_NUMBERS.split())}

_DATES = (
    "january jan januar janvier enero|february feb februar février febrero|march mar märz mars marzo|"
    "april apr avril abril|may mai mayo|june jun juni juin junio|july jul juli juillet julio|"
    "august aug août agosto|september sep sept septembre septiembre|october oct oktober octobre octubre|"
    "november nov novembre noviembre|december dec dezember décembre diciembre|"
    "monday mon mondays montag lundi lunes|tuesday tue tuesdays dienstag mardi martes|"
    "wednesday wed wednesdays mittwoch mercredi miércoles|thursday thu thursdays donnerstag jeudi jueves|"
    "friday fri fridays freitag vendredi viernes|saturday sat saturdays samstag sonnabend samedi sábado|"
    "sunday sun sundays sonntag dimanche domingo|yesterday gestern hier ayer|today heute aujourd'hui hoy|"
    "tomorrow morgen demain mañana|tonight|spring frühling printemps primavera|summer sommer été verano|"
    "autumn fall herbst automne otoño|winter hiver invierno|weekend wochenende weekends|"
    "daily täglich|weekly wöchentlich|monthly monatlich|yearly annually jährlich|"
    "mornings morning|evenings evening|afternoons afternoon|nights night|noon|midnight"
)
# Short names of months and days that are words of their own count only when written with a capital.
DATE_WORDS: Final[dict[str, str]] = {word: line.split()[0] for line in _DATES.split("|") for word in line.split()}
CAPITAL_DATES: Final = frozenset("may mar march jan sun sat mon wed second fall mai mars mayo hier".split())
CJK_DATES: Final = (
    "昨天 今天 明天 前天 后天 後天 昨日 今日 明日 去年 今年 明年 上周 下周 本周 上个月 下个月 先週 今週 来週 先月 来月 "
    "星期一 星期二 星期三 星期四 星期五 星期六 星期日 星期天 周一 周二 周三 周四 周五 周六 周日 "
    "月曜 火曜 水曜 木曜 金曜 土曜 日曜"
).split()

_UNITS = (
    "mm millimetre millimeter|cm centimetre centimeter|m metre meter|km kilometre kilometer|mi mile|ft foot feet|"
    "inch inches|yd yard|mg milligram|g gram gramm|kg kilo kilogram kilogramm|t ton tonne|lb lbs pound|oz ounce|"
    "ml millilitre milliliter|l litre liter|gal gallon|cup|ms millisecond|s sec second sekunde seconde segundo|"
    "min minute minuto|h hr hour stunde heure hora|d day tag tage jour día|w week woche semaine semana|"
    "month monat monate mois mes meses|y yr year jahr jahre an ans année año|kb|mb|gb|tb|kib|mib|gib|"
    "hz|khz|mhz|ghz|w watt|kw|kwh|v volt|mph|kmh km/h kph|°c celsius|°f fahrenheit|k kelvin|% percent prozent|"
    "€ eur euro|$ usd dollar|£ gbp|¥ jpy yen 円|cny rmb 元|chf franken|am a.m|pm p.m|time mal fois vez veces|"
    "kcal calorie|person people|degree|star|page|mal|公里|米|公斤|小时|分钟|天|年|个月|岁|時間|分|日|歳"
)
UNITS: Final[dict[str, str]] = {
    form: line.split()[0] for line in _UNITS.split("|") for word in line.split() for form in (word, word + "s")
}

_NEGATIONS: Final = {
    "en": "not no never none nobody nothing nowhere neither nor without cannot cant dont doesnt didnt isnt arent wasnt "
    "werent wont wouldnt shouldnt couldnt hasnt havent hadnt hardly barely stopped quit unable refuses refused avoids "
    "avoid dislikes dislike hates hate lacks lack unlike former formerly cancelled canceled except failed fails fail",
    "de": "nicht nichts kein keine keinen keinem keiner keines nie niemals niemand ohne weder außer kaum",
    "fr": "pas jamais aucun aucune sans ni rien personne guère",
    "es": "no nunca jamás sin ni ningún ninguna ninguno nada nadie tampoco",
    "it": "non senza nessuno nessuna niente",
    "pt": "não nunca sem nenhum nenhuma nada ninguém",
    "nl": "niet geen nooit zonder niemand",
    "ru": "не нет ни без никогда никто ничего",
}
NEGATIONS: Final = frozenset(word for line in _NEGATIONS.values() for word in line.split())
CJK_NEGATIONS: Final = "不 没 沒 無 无 未 别 別 勿 ない ません なかった なく ぬ ず 非ず 안 않 못 없 아니 말고".split()
# They hold the sign of a negation and deny nothing.
CJK_NOT_NEGATIONS: Final = (
    "不过 不過 不错 不錯 不仅 不僅 不但 不同 差不多 非常 未来 未來 特别 特別 别人 別人 必ず まず 無料 無線 ずっと 안녕"
).split()

# Capitalised at the beginning of a sentence, and no names.
PLAIN_STARTS: Final = frozenset(
    "user users the their his her my our your its team people everybody everyone somebody someone it he she they we "
    "you this that these those there here now then always often usually sometimes never prefers likes loves wants "
    "needs has works lives uses owns plays drinks eats reads speaks is was will can favourite favorite customer client "
    "agent assistant deployment der die das ein eine er sie es wir ich le la les un une il elle nous je el los las yo "
    "él ella benutzer nutzer utilisateur usuario".split()
)
# After a capitalised first word these say that it is the name of whoever does it.
FOLLOWS_A_NAME: Final = frozenset(
    "is was has had will would can could does did lives works likes prefers wants needs owns plays says said told "
    "moved drinks eats speaks uses loves hates goes went came got bought sold reads wrote writes and or ist war hat "
    "wohnt arbeitet mag est habite aime vive es tiene trabaja".split()
)
