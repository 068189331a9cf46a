import random
import string
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagent_memory.language.tokenizer import (
    MAX_TERM_CHARS,
    STOP_WORDS,
    estimated_tokens,
    identity,
    index_terms,
    query_terms,
    spelling,
    stem,
    tokens,
)


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("It failed with ERR-00123 again", "ERR-00123"),
        ("It failed with ERR-00123 again", "err 00123"),
        ("Upgraded to v1.28.3-gke.1200 today", "v1.28.3-gke.1200"),
        ("See /var/log/app-12.log", "app-12.log"),
        ("Write to bob.smith@example.com", "bob"),
        ("call getUserName there", "user name"),
        ("max_content_bytes is 16384", "content"),
        ("The budget is $10,000", "10000"),
        ("She ran at the café", "running cafe"),
        ("We rewrote it in C++", "c++"),
        ("私は猫が好きです", "猫"),
        ("使用Python3编程", "python3"),
        ("ผมชอบแมวมาก", "แมว"),
        ("मुझे हिन्दी पसंद है", "हिन्दी"),
        ("L’été à Zürich", "ete zurich"),
    ],
)
def test_a_query_shares_a_telling_term_with_what_it_means(stored: str, query: str):
    """A query shares a term other than a stop word with the text that it means."""
    shared = set(query_terms(query)) & set(index_terms(stored))
    assert shared - STOP_WORDS


def test_identifiers_share_only_their_equal_parts():
    """Identifiers that differ in one part share the other parts only."""
    ours, other = set(tokens("ERR-00123")), set(tokens("ERR-00124"))
    assert ours & other == {"err"}


def test_signs_of_brahmic_scripts_stay_inside_their_word():
    """Combining signs of Brahmic scripts do not split a word."""
    assert tokens("हिन्दी") == ["हिन्दी"]


def test_question_words_are_searched_only_when_alone():
    """Question words are not searched unless nothing else is there."""
    assert query_terms("When did she paint the fence?") == ["paint", "fenc"]
    assert set(query_terms("who are you?")) & set(index_terms("Who are you?"))


def test_the_author_is_one_of_the_memory_s_words_once():
    """The author's name is indexed once beside the words of the text."""
    assert index_terms("Melanie and Melanie", "Melanie") == {"melani": 2}
    assert index_terms("paints", "Melanie") == {"paint": 1, "melani": 1}


def test_terms_are_bounded():
    """No term is longer than `MAX_TERM_CHARS`, however the text is written."""
    terms = tokens("x" * 10_000 + " " + "a/" * 5_000 + "b " + "b-c" * 900)
    assert max(map(len, terms)) <= MAX_TERM_CHARS


def test_text_without_letters_has_no_terms():
    """Emoji, punctuation and empty text give no terms."""
    assert not index_terms("🎉 … !!!")
    assert query_terms("") == []


SAME_FACT = [
    ("I like tea.", "i like Tea"),
    ("Likes  tea", " likes\ttea. "),
    ("The User likes tea!", "the user likes tea"),
    ("The user LIKES tea", "The user likes tea"),
    ("It's fine", "it's fine"),
    ("Zo\u00eb sings", "Zoe\u0308 sings"),
    ("one\ntwo", "one two"),
    ("The answer is 5.", "The answer is 5"),
    ("Written in C.", "Written in C"),
    ("猫アレルギーだ。", "猫アレルギーだ"),
]
APART = [
    ("The cap is 105", "The cap is 10⁵"),
    ("The code is Ak9X", "The code is aK9x"),
    ("a 5 kΩ part", "a 5 KΩ part"),
    ("takes 20 S", "takes 20 s"),
    ("Written in C", "Written in C++"),
    ("5!", "5"),
    ("X", "x"),
    ("Works in IT", "works in it"),
    ("Likes tea?", "Likes tea"),
    ('he said "no"', "he said 'no'"),
    ("re-sign it", "resign it"),
    ("room １０５", "room 105"),
    ("an iPhone", "an iphone"),
    ("in Maßen", "in Massen"),
    ("separated by .", "separated by"),
    ("the ﬁle", "the file"),
    ("x²", "x2"),
    ("write to a@B.org", "write to a@b.org"),
    ("step ①", "step 1"),
    ("/tmp/A", "/tmp/a"),
]


@pytest.mark.parametrize(("first", "second"), SAME_FACT)
def test_spelling_alone_makes_no_other_fact(first: str, second: str):
    """Blanks, capitals of plain words and the end of a sentence make no other fact."""
    assert identity(first, verbatim=False) == identity(second, verbatim=False)


@pytest.mark.parametrize(("first", "second"), APART)
def test_what_may_tell_two_things_apart_makes_another_fact(first: str, second: str):
    """Texts with a difference that can carry meaning are different facts."""
    assert identity(first, verbatim=False) != identity(second, verbatim=False)


@given(st.text("aAbBiI kKmMwWsS5⁵₅.!…。！ßẞΩ\u2126µμﬁİıſéÉ'’-#+ \n\u00a0１Å\u212b", max_size=12))
def test_a_spelling_is_its_own_spelling(text: str):
    """Normalising a spelling twice gives the same as once."""
    assert spelling(spelling(text)) == spelling(text)


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        (
            (
                "Ada's favourite tea is oolong from the shop on Mill Lane, and she drinks two cups "
                "of it every morning."
            ),
            25,
        ),
        (
            (
                "Die Besprechung wurde auf übernächsten Donnerstag verschoben, weil die Kollegin "
                "aus München krank ist."
            ),
            28,
        ),
        ("Cô ấy thích uống trà xanh vào buổi sáng và đọc sách ở công viên gần nhà.", 32),
        ("会议推迟到下周四，因为来自北京的同事生病了，我们需要重新安排时间。", 31),
        ("同僚が病気になったため、会議は来週の木曜日に延期されました。", 34),
        ("동료가 아파서 회의가 다음 주 목요일로 연기되었습니다.", 24),
        ("การประชุมถูกเลื่อนไปเป็นวันพฤหัสบดีหน้าเพราะเพื่อนร่วมงานป่วย", 56),
        ("बैठक अगले गुरुवार तक स्थगित कर दी गई क्योंकि सहकर्मी बीमार है।", 66),
    ],
)
def test_tokens_are_estimated_within_a_quarter(text: str, counted: int):
    """The estimate is within a quarter of what cl100k_base counts, in any script."""
    assert abs(estimated_tokens(text) - counted) <= counted / 4


STEMS = {
    "organizations": "organiz",
    "internal": "internal",
    "added": "add",
    "evening": "evening",
    "skis": "ski",
    "universities": "universiti",
    "painting": "paint",
    "flies": "fli",
}


def test_stems_english_words_by_rules_that_stay():
    """Stored terms are found again: the stems of words never change."""
    assert {word: tokens(word)[0] for word in STEMS} == STEMS


def test_threads_that_stem_at_once_spoil_no_terms():
    """Threads that stem at once have the terms that each has alone."""
    rng = random.Random(7)
    endings = ("ations", "ingly", "fulness", "ies", "ed", "izers")
    words = [
        "".join(rng.choices(string.ascii_lowercase, k=8)) + rng.choice(endings)
        for _ in range(4_000)
    ]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(tokens, words, chunksize=1))
    finally:
        sys.setswitchinterval(before)
    assert together == [[stem(word, "english")] for word in words]


def test_a_long_text_is_indexed_to_its_end():
    """Every word of a long text is indexed; stop words only if there is nothing else."""
    text = (
        "The kiln fires at 1,240 degrees. " * 40_000
        + "The spare key is with Grace, near ERR-00777. 京都駅"
    )
    terms = index_terms(text)
    assert {"grace", "err-00777", "京都", "都駅"} <= set(terms)
    assert terms["kiln"] == 40_000
    assert "the" not in terms
    assert index_terms("the of and " * 9000) == {"the": 9000, "of": 9000, "and": 9000}
