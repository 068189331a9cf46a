from dataclasses import replace
from datetime import UTC, datetime

from kagent_memory import RankSettings
from kagent_memory.retrieval.ranking.table import dense_text

from .small_scope import SmallScope

PLAIN = RankSettings(match=1, window=0, session=0, answer=0, time=0, author=0, substance=0)


def _notes(*contents: str, **options: object) -> tuple[SmallScope, list[int]]:
    scope = SmallScope()
    return scope, [scope.add(content, **options) for content in contents]  # type: ignore[arg-type]


def test_neighbours_are_no_answers_to_a_look_up():
    """By words alone, a look-up is answered with what holds the word."""
    scope = SmallScope()
    first = scope.add("I bought a kayak", session="s")
    scope.add("Nice colour", session="s")
    assert scope.ids("kayak") == [first]
    assert scope.ids("zeppelin") == []


def test_min_score_bars_rows_that_only_vectors_found():
    """It is compared with the cosine of the full query."""
    scope, (matched, near, far) = _notes("kayak", "boat trip", "tax return")
    trimmed = {matched: 0.1, near: 0.2, far: 0.9}
    full = {matched: 0.1, near: 0.6, far: 0.2}
    ranked, left_out = scope.rank("kayak", trimmed, full=full, min_score=0.5)
    assert left_out == {far: "below_min_score"}
    assert {hit.row: hit.cosine for hit in ranked} == {matched: 0.1, near: 0.6}


def test_a_turn_shares_in_the_words_of_the_question_it_answers():
    """An answer after a matching question ranks above the same words elsewhere."""
    scope = SmallScope()
    scope.add("Which colour did you paint the fence?", author="Bo", session="s")
    answer = scope.add("A dark green one, it took us days", author="Ann", session="s")
    other = scope.add("A dark green one, it took us days", author="Ann", session="t")
    cosines = dict.fromkeys(range(len(scope.entries)), 0.3)
    ranked = scope.ids("What colour is the painted fence?", cosines)
    assert ranked.index(answer) < ranked.index(other)


def test_a_memory_that_names_a_time_answers_a_question_for_one():
    """And only that question."""
    scope, (bare, timed) = _notes("Ann moved to Porto", "Ann moved to Porto last May")
    settings = replace(PLAIN, time=0.3)
    assert scope.ids("When did Ann move to Porto?", settings=settings) == [timed, bare]
    assert scope.ids("Where did Ann move to, Porto?", settings=settings) == [bare, timed]
    [hit, _], _ = scope.rank("When did Ann move to Porto?", settings=settings)
    assert hit.why["scores"]["time"] > 0


def test_turns_around_a_match_count_by_their_distance():
    """Two turns away counts less than one, three for nothing, and all little among long texts."""
    shares: list[float] = []
    for words in (1, 150):
        padding = " ".join(f"clause{number}" for number in range(words))
        scope, rows = _notes(f"kayak {padding}", *[padding] * 4, session="s")
        settings = replace(PLAIN, window=0.5)
        ranked, _ = scope.rank("kayak", dict.fromkeys(rows, 0.3), settings=settings)
        why = {hit.row: hit.why["scores"] for hit in ranked}
        around = [why[row].get("window", 0.0) for row in rows]
        assert around[0] > around[1] > around[2] > around[3] == around[4]
        shares.append(around[0])
    assert shares[1] < shares[0] / 10


def test_a_session_that_holds_all_words_lifts_its_turns():
    """Over those of a session that holds one of them."""
    scope = SmallScope()
    for session, beside in (("s", "we sailed from the harbour"), ("t", "we had soup and bread")):
        for content in ("bought a kayak", "nice one", "how lovely", "it is late", beside):
            scope.add(f"{content}, {session}", session=session)
    ranked = scope.ids("who sailed a kayak from the harbour?", settings=replace(PLAIN, session=0.5))
    assert ranked.index(0) < ranked.index(5)
    assert scope.ids("who sailed a kayak from the harbour?", settings=PLAIN).index(0) > 0


def test_the_named_month_day_and_author_lift():
    """A near day counts more than its month."""
    scope = SmallScope()
    for day in (
        datetime(2024, 5, 2, tzinfo=UTC),
        datetime(2024, 5, 20, tzinfo=UTC),
        datetime(2023, 8, 1, tzinfo=UTC),
    ):
        scope.add("went to the lake", author="Ann", happened=day)
    bo = scope.add("went to the lake", author="Bo", happened=datetime(2023, 8, 1, tzinfo=UTC))
    assert scope.ids("lake in May 2024")[:2] == [0, 1]
    assert scope.ids("lake on 19 May")[0] == 1
    assert scope.ids("When was Bo at the lake?")[0] == bo


def test_questions_and_short_turns_yield_to_statements():
    """Among short texts, questions and short turns rank below statements."""
    scope, (asks, tells) = _notes(
        "Do you like kayak trips so much?", "I do like kayak trips very much"
    )
    assert scope.ids("kayak") == [tells, asks]
    scope, (short, long) = _notes(
        "Kayak!", "Kayak trips are what I look forward to all winter long"
    )
    assert scope.ids("kayak", {short: 0.5, long: 0.5}, settings=replace(PLAIN, substance=0.5)) == [
        long,
        short,
    ]


def test_an_agents_long_answer_yields_to_the_user_it_repeats():
    """An agent's long answer ranks below the user's words that it repeats; if no user speaks,
    nobody is the agent.
    """
    scope = SmallScope()
    padding = " ".join(f"clause{number}" for number in range(150))
    statement = scope.add(
        f"My kayak is stored in the harbour shed, {padding}", author="user", session="s"
    )
    answer = scope.add(
        f"A kayak in the harbour shed, your kayak, {padding}", author="helper", session="s"
    )
    assert scope.ids("kayak harbour shed") == [statement, answer]
    alone = SmallScope()
    for author in ("Ann", "helper"):
        alone.add(f"A kayak in the harbour shed, {padding}", author=author, session="s")
    ranked, _ = alone.rank("kayak harbour shed")
    assert ranked[0].score == ranked[1].score


def test_an_explanation_tells_what_found_a_memory():
    """By its words, its vector, or neither: what comes along as a neighbour, however often the
    words themselves were repeated.
    """
    scope = SmallScope()
    texts = ("a boat", "a kayak", "rain", *["a kayak"] * 60)
    rows = [scope.add(text, session="s") for text in texts]
    ranked, _ = scope.rank("a kayak in the harbour", {rows[0]: 0.1, rows[1]: 0.9})
    legs = {hit.row: hit.why["legs"] for hit in ranked}
    assert [legs[row] for row in rows[:3]] == [["vector"], ["text", "vector"], []]


def test_words_that_most_memories_hold_leave_the_dense_query():
    """Of scopes of 20 memories and more."""
    scope = SmallScope()
    for number in range(19):
        scope.add(f"note {number}", author="Caroline")
    query = "What did Caroline's brother research?"
    assert dense_text(query, scope.search_text(query)) == query
    scope.add("one more", author="Caroline")
    assert dense_text(query, scope.search_text(query)) == "What did brother research?"
    assert (
        dense_text("Where is Caroline?", scope.search_text("Where is Caroline?"))
        == "Where is Caroline?"
    )


def test_a_query_for_whom_the_scope_often_names_is_relevant():
    """A name that many memories hold tells that a query is about the scope."""
    scope, _ = _notes(*(f"Kate went to place {number}" for number in range(40)), "We saw a garden")
    known, unknown = (
        max(hit.relevance for hit in scope.rank(f"When does {name} visit the garden?")[0])
        for name in ("Kate", "Rome")
    )
    assert unknown < 0.38 < known


def test_an_embedder_that_calls_all_near_makes_none_relevant():
    """The usual cosine of a list counts for nothing."""
    scope, _ = _notes(
        "Ann bought a red kayak in Porto", *(f"note {number}" for number in range(30))
    )
    cosines = {number: 0.8 + number / 1000 for number in range(31)}
    assert (
        max(hit.relevance for hit in scope.rank("Write a haiku about autumn leaves", cosines)[0])
        < 0.2
    )
