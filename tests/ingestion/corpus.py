"""Pairs of facts made from patterns: those that must stand side by side, corrections, and other words for the same."""

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal


@dataclass(frozen=True)
class Pair:
    kind: Literal["coexisting", "correction", "paraphrase"]
    old: str
    new: str
    subject: str = ""
    attribute: str = ""


PEOPLE = ["Anna", "Bob", "Chidi", "Daniela", "Emre", "Fatima"]
CITIES = ["Oslo", "Lima", "Kyoto", "Accra", "Porto", "Tbilisi"]

_COEXISTING = [
    *((f"The {thing} costs {a} euros.", f"The {thing} costs {b} euros.")
      for thing, (a, b) in product(["rent", "server", "course", "ticket", "parking space"],
                                   [(5, 50), (100, 1000), ("two", "three")])),
    *((f"The {thing} is on {a}.", f"The {thing} is on {b}.")
      for thing, (a, b) in product(["review", "concert", "exam", "dinner"], [("Monday", "Tuesday"), ("3 May", "3 June"),
                                                                   ("2024-05-03", "2024-05-04")])),
    *((f"Runs {a} every week.", f"Runs {b} every week.")
      for a, b in [("5 km", "5 miles"), ("two hours", "two days"), ("10 kg", "10 lbs"), ("6am", "6pm")]),
    *((f"The user {yes}.", f"The user {no}.")
      for yes, no in [("likes coffee", "does not like coffee"), ("eats fish", "never eats fish"),
                      ("smokes", "doesn't smoke"), ("works with Java", "works without Java"),
                      ("can swim", "cannot swim"), ("has siblings", "has no siblings")]),
    *((f"The job {a} failed in the night.", f"The job {b} failed in the night.")
      for a, b in [("ERR-0012", "ERR-0013"), ("build_17", "build_18"), ("src/a.py", "src/b.py"), ("a@x.org", "b@x.org"),
                   ("v1.2.3", "v1.2.4"), ("getUser", "setUser"), ("AWS", "GCP"), ("#4711", "#4712")]),
    *((pattern.format(a), pattern.format(b))
      for pattern, (a, b) in product(["{} lives near the harbour.", "The user met {} at the fair.",
                                      "{}'s dog is brown.", "Works on the payment team together with {}."],
                                     list(pairwise(PEOPLE)))),
    *((f"The user has visited {a}.", f"The user has visited {b}.") for a, b in pairwise(CITIES)),
    ("Er trinkt Kaffee.", "Er trinkt keinen Kaffee."),
    ("Das Treffen ist am Montag.", "Das Treffen ist am Dienstag."),
    ("Elle mange de la viande.", "Elle ne mange pas de viande."),
    ("Le loyer est de 500 euros.", "Le loyer est de 600 euros."),
    ("Le gusta el café.", "No le gusta el café."),
    ("La reunión es el lunes.", "La reunión es el martes."),
    ("用户喜欢咖啡。", "用户不喜欢咖啡。"), ("用户住在北京。", "用户住在上海。"), ("会议在周一。", "会议在周二。"),
    ("コーヒーを飲みます。", "コーヒーを飲みません。"), ("猫を2匹飼っている。", "猫を3匹飼っている。"),
]  # fmt: skip

_CORRECTIONS = [
    *((f"{who} lives in {a}.", f"{who} has moved to {b}.", who, "home city")
      for who, (a, b) in product(PEOPLE, list(zip(CITIES, CITIES[2:], strict=False)))),
    *((f"The {thing} is {a}.", f"The {thing} is now {b}.", "project", thing)
      for thing, (a, b) in product(["budget", "deadline", "team size", "price", "target"],
                                   [("500 euros", "750 euros"), ("3 May", "10 June"), ("four", "six")])),
    *((f"The user's {thing} is {a}.", f"The user's {thing} is {b}.", "user", thing)
      for thing, a, b in [("favourite tea", "Assam", "Sencha"), ("phone", "0170 1111", "0170 2222"),
                          ("car", "red", "blue"),
                          ("employer", "Acme", "Globex"), ("manager", "Anna", "Bob"), ("diet", "vegan", "not vegan"),
                          ("editor", "vim", "emacs"), ("shift", "mornings", "evenings"),
                          ("email", "a@x.org", "b@x.org"),
                          ("weight", "70 kg", "68 kg"), ("Wohnort", "Köln", "Bonn"), ("住址", "北京", "上海")]),
]  # fmt: skip

_PARAPHRASES = [
    *((a.format(x), b.format(x)) for (a, b), x in product([
        ("The user prefers {} in the evening.", "In the evenings, {} is what the user prefers."),
        ("The user really likes {}.", "{} is something the user likes a lot."),
        ("The user is allergic to {}.", "The user has an allergy to {}."),
        ("The user is learning how to make {}.", "The user has started learning to make {}."),
    ], ["green tea", "fresh bread", "lentil soup", "dark chocolate", "sourdough pizza", "plum jam"])),
    *((a.format(x), b.format(x)) for (a, b), x in product([
        ("{} works as a nurse at the city hospital.", "{} is a nurse who works at the city hospital."),
        ("The user met {} at the fair.", "At the fair the user met {}."),
        ("The user's sister is called {}.", "The user has a sister, {}."),
    ], PEOPLE)),
    *((a.format(x), b.format(x)) for (a, b), x in product([
        ("The rent is {} euros a month.", "Each month the rent costs {} euros."),
        ("The team has {} people.", "There are {} people in the team."),
    ], [4, 12, "1,000", 7, 30])),
    *((a.format(x), b.format(x)) for (a, b), x in product([
        ("The deployment to {} failed because the disk was full.", "A full disk made the deployment to {} fail."),
        ("The user flies to {} on 3 May.", "On 3 May the user takes a flight to {}."),
    ], CITIES)),
    ("The user does not eat meat.", "The user never eats meat."),
    ("Ticket ERR-0012 is about the login page.", "ERR-0012 is the ticket for the login page."),
    ("Er trinkt gern Kaffee.", "Kaffee trinkt er gern."), ("Elle aime beaucoup le thé.", "Elle aime bien le thé."),
    ("Le gusta mucho el café.", "El café le gusta mucho."), ("用户非常喜欢咖啡。", "用户很喜欢咖啡。"),
    ("The user wakes at 6 p.m. for the night shift.", "For the night shift the user wakes at 6pm."),
]  # fmt: skip

PAIRS = [
    *(Pair("coexisting", old, new) for old, new in _COEXISTING),
    *(Pair("correction", old, new, subject, attribute) for old, new, subject, attribute in _CORRECTIONS),
    *(Pair("paraphrase", old, new) for old, new in _PARAPHRASES),
]

# Each link looks like the next, the ends have nothing to do with each other.
CHAINS = [
    [f"{who} likes {a}.", f"{who} likes {a} and {b}.", f"{who} likes {b} and {c}.", f"{who} likes {c}."]
    for who, (a, b, c) in product(
        PEOPLE, [("tea", "rain", "jazz"), ("chess", "bread", "boats"), ("maps", "owls", "figs")]
    )
]
