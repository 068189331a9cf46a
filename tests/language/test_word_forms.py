import pytest
from memories.opening import ADA, contents, opened

from kagent_memory.language.word_forms import MAX_WORDS, word_forms

NOTES = [
    "Meine Schwester hat zwei Hunde und eine Katze",
    "Die Versicherungen laufen im Mai aus",
    "Las llaves del coche están en la cocina",
    "El niño canta canciones antiguas",
    "Mes chaussures rouges sont chez le cordonnier",
    "Nous avons réservé une chambre à Lyon",
    "Собака боится грозы",
    "الكتاب على الطاولة",
    "De fietsen staan in de schuur",
    "I bought a red kayak",
]


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("Wie heißt der Hund?", 0),
        ("Wann endet die Versicherung?", 1),
        ("¿Dónde está la llave?", 2),
        ("¿Qué canción canta?", 3),
        ("Où est la chaussure rouge ?", 4),
        ("Quelles chambres avons-nous ?", 5),
        ("Чего боятся собаки?", 6),
        ("أين كتاب", 7),
        ("Waar staat mijn fiets?", 8),
    ],
)
async def test_a_question_finds_the_other_forms_of_its_words(question: str, number: int):
    """A question finds memories that use another form of its words."""
    async with await opened() as memories:
        await memories.add(ADA, NOTES)
        assert contents(await memories.recall(ADA, question, limit=1)) == [NOTES[number]]


def test_what_a_long_text_costs_is_bounded():
    """The number and the length of the word forms of a text are bounded."""
    words = " ".join(
        f"die Versicherung{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(600)
    )
    forms, _ = word_forms(words)
    assert 0 < len(forms) <= MAX_WORDS
    assert max(map(len, forms.values())) < 500
    assert word_forms("\u0644" * 50_000)[0].keys() <= {"\u0644" * 64}
