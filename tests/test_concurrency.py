"""What is remembered within bounds, and what is worked on in portions."""

from __future__ import annotations

import random
import threading

import pytest

from kagent_memory.concurrency import LRU, each_aside


def test_what_was_used_longest_ago_goes_first():
    kept = LRU[str, int](3)
    for number, key in enumerate("abc"):
        kept[key] = number
    assert kept.get("a") == 0
    assert kept.setdefault("b", 9) == 1
    kept["d"] = 3
    assert list(kept) == ["a", "b", "d"]
    assert kept.get("c") is None
    kept["a"] = 4
    kept["e"] = 5
    assert {key: kept.get(key) for key in kept} == {"d": 3, "a": 4, "e": 5}


def test_the_value_used_last_stays_however_large_it_is():
    kept = LRU[str, str](5, len)
    kept["a"] = "four"
    kept["b"] = "much too large"
    assert (list(kept), kept.size) == (["b"], 14)
    kept["c"] = "five!"
    assert (list(kept), kept.size) == (["c"], 5)


def test_a_value_that_grew_is_counted_anew_unless_it_is_gone():
    kept = LRU[str, list[int]](5, len)
    kept["a"], kept["b"] = [1], [1]
    grown = kept.get("b")
    assert grown is not None
    grown += [2, 3, 4]
    kept.resize("b", grown)
    assert kept.size == 5
    kept.pop("b")
    kept.resize("b", grown)
    kept["b"] = [1]
    kept.resize("b", grown)
    assert (kept.size, kept.get("b")) == (2, [1])
    kept.clear()
    assert (len(kept), kept.size, list(kept)) == (0, 0, [])


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_a_plain_list_whatever_is_done(seed: int):
    dice, kept, plain = random.Random(seed), LRU[int, str](20, len), list[tuple[int, str]]()
    for _ in range(2000):
        key, value = dice.randrange(9), "x" * dice.randrange(12)
        held = dict(plain)
        match dice.randrange(4):
            case 0:
                kept[key] = value
                held[key] = value
            case 1:
                assert kept.get(key) == held.get(key)
            case 2:
                assert kept.setdefault(key, value) == held.setdefault(key, value)
            case _:
                assert kept.pop(key) == held.pop(key, None)
        order = [one for one, _ in plain if one in held and one != key] + [key] * (key in held)
        plain = [(one, held[one]) for one in order]
        while sum(len(text) for _, text in plain) > 20 and len(plain) > 1:
            plain.pop(0)
        assert list(kept) == [one for one, _ in plain]
        assert kept.size == sum(len(text) for _, text in plain)


def test_threads_share_it():
    kept = LRU[int, str](50, len)

    def work(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(3000):
            kept[dice.randrange(40)] = "x" * dice.randrange(9)
            kept.get(dice.randrange(40))
            kept.pop(dice.randrange(40))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.size == sum(len(kept.get(key) or "") for key in kept)


@pytest.mark.parametrize("size", [1, 5_000])
async def test_an_item_whose_work_stops_an_iteration_is_an_error_and_no_end_of_the_items(size: int):
    def work(item: int) -> int:
        return next(one for one in (1, 3) if one == item)

    assert await each_aside([1, 3, 1], lambda _: size, work) == [1, 3, 1]
    with pytest.raises(RuntimeError, match="StopIteration"):
        await each_aside([1, 2, 3], lambda _: size, work)
