import re
from collections import Counter

import pytest

from kagent_memory.language.guard import denies_otherwise, differences, missing, new_in, same_words
from kagent_memory.language.tables import LANGUAGES, SPACED

from .alike import ALIKE
from .apart import APART

DIFFERENT = [
    ("number", "Ada has 2 dogs", "Ada has 3 dogs"),
    ("number", "Ada has two dogs", "Ada has three dogs"),
    ("number", "The budget is 1,000", "The budget is 10,000"),
    ("number", "Temperature is -5", "Temperature is 5"),
    ("number", "Er hat zwei Hunde", "Er hat drei Hunde"),
    ("number", "Tiene dos perros", "Tiene perros"),
    ("number", "Version 1.2 is used", "Version 1.3 is used"),
    ("number", "lives on the 2nd floor", "lives on the third floor"),
    ("date", "The review is on Monday", "The review is on Tuesday"),
    ("date", "due 2024-05-07", "due 2024-05-08"),
    ("date", "born in May", "born in June"),
    ("date", "meeting at 9:30", "meeting at 10:30"),
    ("date", "Treffen am Montag", "Treffen am Dienstag"),
    ("date", "réunion en janvier", "réunion en février"),
    ("date", "会议在周一", "会议在周二"),
    ("unit", "runs 5 km", "runs 5 miles"),
    ("unit", "costs $20", "costs €20"),
    ("unit", "wakes at 6am", "wakes at 6pm"),
    ("unit", "takes five hours", "takes five days"),
    ("negation", "likes coffee", "does not like coffee"),
    ("negation", "eats meat", "never eats meat"),
    ("negation", "smokes", "doesn’t smoke"),
    ("negation", "Sie mag Kaffee", "Sie mag keinen Kaffee"),
    ("negation", "Elle aime le café", "Elle n'aime pas le café"),
    ("negation", "Le gusta el café", "No le gusta el café"),
    ("negation", "Он пьёт кофе", "Он не пьёт кофе"),
    ("negation", "用户喜欢咖啡", "用户不喜欢咖啡"),
    ("negation", "コーヒーを飲む", "コーヒーを飲まない"),
    ("negation", "커피를 마신다", "커피를 마시지 않는다"),
    ("identifier", "ticket ERR-0012 is open", "ticket ERR-0013 is open"),
    ("identifier", "mail a@x.org", "mail b@x.org"),
    ("identifier", "edit src/a.py", "edit src/b.py"),
    ("identifier", "uses AWS", "uses GCP"),
    ("identifier", "calls getUser", "calls setUser"),
    ("name", "met Anna yesterday", "met Maria yesterday"),
    ("name", "Anna lives in Oslo", "Maria lives in Oslo"),
    ("name", "lives in Oslo", "lives in Bergen"),
    ("name", "Anna's car is red", "Maria's car is red"),
    ("name", "Works with Anna Berg", "Works with Anna"),
    ("name", "用户住在北京", "用户住在上海"),
]
SAME = [
    ("The user prefers dark mode.", "Prefers dark mode"),
    ("Ada has two dogs", "Ada has 2 dogs"),
    ("The budget is 1,000 dollars", "the budget is $1000"),
    ("The review is on Mon, 3 May", "On Monday, May 3 is the review"),
    ("Anna lives in Oslo", "In Oslo lives Anna"),
    ("Tea is her favourite drink", "Her favourite drink is tea"),
    ("wakes at 6 p.m.", "wakes at 6pm"),
    ("may like long walks", "may like walks that are long"),
    ("does not eat meat", "never eats meat"),
    ("用户非常喜欢咖啡", "用户很喜欢咖啡"),
]


@pytest.mark.parametrize(("kind", "a", "b"), DIFFERENT)
def test_a_difference_is_seen_from_both_sides(kind, a, b):
    assert kind in differences(a, b)
    assert differences(a, b) == differences(b, a)


@pytest.mark.parametrize(("a", "b"), SAME)
def test_other_words_for_the_same_are_no_difference(a, b):
    assert differences(a, b) == frozenset()


@pytest.mark.parametrize(("kind", "a", "b"), DIFFERENT)
def test_a_text_does_not_differ_from_itself(kind, a, b):
    assert not differences(a, a)
    assert not differences(b, b.replace("  ", " "))


def test_leaving_something_out_is_not_new_but_denying_is():
    assert not new_in("lives in Oslo", "lives in Oslo since 2019 with Anna")
    assert new_in("lives in Oslo since 2019", "lives in Oslo") == {"number"}
    assert new_in("drinks coffee", "does not drink coffee") == {"negation"}


@pytest.mark.parametrize(("language", "kind", "a", "b"), [(code, *row) for code, rows in APART.items() for row in rows])
def test_no_two_of_the_corpus_are_the_same(language, kind, a, b):
    assert differences(a, b), (language, kind)
    assert differences(a, b) == differences(b, a)
    assert not same_words(a, b)


@pytest.mark.parametrize(("language", "a", "b"), [(code, *row) for code, rows in ALIKE.items() for row in rows])
def test_no_difference_is_seen_in_other_words_for_the_same(language, a, b):
    assert differences(a, b) == differences(b, a) == frozenset(), language


def test_the_corpora_are_large_enough():
    kinds = Counter(kind for rows in APART.values() for kind, _, _ in rows)
    assert sum(kinds.values()) >= 300
    assert min(kinds[kind] for kind in ("roles", "negation", "opposite", "time", "number", "identifier")) >= 10
    assert len(APART) >= 16
    assert sum(map(len, ALIKE.values())) >= 100


@pytest.mark.parametrize(
    ("text", "source", "lost"),
    [
        ("Likes green tea.", "Likes green tea with honey.", {"honey"}),
        ("Likes green tea with honey.", "Likes green tea.", set()),
        ("The user is allergic to plums.", "The user has an allergy to plums.", set()),
        ("The user takes a flight to Oslo.", "The user flies to Oslo.", set()),
        ("Resides in Oslo.", "Lives in Oslo.", set()),
        ("Lives in Oslo.", "Lives in Oslo with Anna since 2019.", {"anna", "2019"}),
        ("用户喜欢咖啡。", "用户喜欢咖啡和茶。", {"茶"}),
    ],
)
def test_a_detail_that_a_text_lacks_is_named(text, source, lost):
    assert missing(text, source) == lost


def test_the_words_of_the_languages_are_plain_data_without_slips():
    for language in SPACED:
        for group in language.opposites.split("|"):
            axis, _, sides = group.partition(":")
            fits = axis.strip().isidentifier() and sides.count("/") >= 1
            assert fits or not group.strip(), (language.code, group)
        for pair in language.more_numbers.split():
            assert re.fullmatch(r"\S+:\d+(\.\d+)?(st|nd|rd|th)?", pair), (language.code, pair)
        assert len(language.months.split("|")) in (1, 12), language.code
        assert len(language.weekdays.split("|")) in (1, 7), language.code
    assert len({language.code for language in LANGUAGES}) == len(LANGUAGES) >= 24


@pytest.mark.parametrize(
    "piece",
    ["a", "ab1", ".", "-", "1", "1,000", "1 000 ", "5 ", "may ", "not ", "Anna Bob ", "用户不", "あア",
     "가나 ", "ไม่ชอบ",
     "1⁵", "½", "'", "6 a.m. ", "€", "^1", "twenty one ", "open closed ", "a@", "/a", "1:", "next week ",
     "لا يحب ", "from Oslo to ", "三百", ", ", "_", "x-1", "\u0301"],
)  # fmt: skip
def test_a_long_text_is_read_in_linear_time(piece):
    short, long = piece * (10_000 // len(piece)), piece * (200_000 // len(piece))
    assert differences(short, short + "b") == differences(short + "b", short)
    assert differences(long, long + "b") == new_in(long, "known") == {"word"}


WENT_OUT = "The deployment went out to Oslo without trouble"


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("The deployment never went out.", WENT_OUT),
        ("The deployment did not go out.", WENT_OUT),
        ("The deployment didn't.", WENT_OUT),
        ("It never went out.", WENT_OUT),
        ("It never went out to Oslo.", WENT_OUT),
        ("No deployment went out.", WENT_OUT),
        ("Nobody went out.", "Everybody went out on Monday"),
        ("Ada did not like it.", "Ada liked it a lot"),
        ("Ada has never been to Rome.", "Ada has been to Rome"),
        ("Die Lieferung kam nie.", "Die Lieferung kam an einem Montag"),
        ("Die Lieferung ging nicht raus.", "Die Lieferung ging am Montag raus"),
        ("Le colis n'est jamais parti.", "Le colis est parti lundi"),
        ("El paquete nunca salió.", "El paquete salió el lunes"),
        ("Il pacco non è mai partito.", "Il pacco è partito lunedì"),
        ("Paczka nigdy nie wyszła.", "Paczka wyszła w poniedziałek"),
        ("Доставка не вышла.", "Доставка вышла в понедельник"),
        ("配送は行きませんでした。", "配送は行きました。"),
    ],
)
def test_a_sentence_that_is_turned_round_denies_otherwise(sentence, source):
    assert denies_otherwise(sentence, source)
    assert denies_otherwise(source, sentence)
    assert not denies_otherwise(sentence, sentence)


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("The deployment went out.", WENT_OUT),
        ("The deployment went out, from Oslo to Kyoto.", WENT_OUT),
        ("The deployment went out, no trouble at all.", WENT_OUT),
        ("Nothing went wrong.", WENT_OUT),
        ("The deployment never went out.", "The deployment never went out to Oslo"),
        ("The deployment went out.", "The deployment went out; the alarm never went off"),
    ],
)
def test_what_one_leaves_out_denies_nothing(sentence, source):
    assert not denies_otherwise(sentence, source)
    assert not denies_otherwise(source, sentence)
