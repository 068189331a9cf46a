"""What an agent says again of what memory holds, and what it says that is new beside it."""

# (what is stored, the same as an agent says it to the user)
STORED = [
    ("The user lives in Oslo with two cats.", "you live in Oslo with two cats"),
    ("The user's favourite tea is Darjeeling First Flush.", "your favourite tea is Darjeeling First Flush"),
    (
        "The user has booked flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15, seat 14C.",
        "you have booked flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15, seat 14C",
    ),
    ("The user does not eat meat.", "you don't eat meat"),
    (
        "The user's sister Anna works as a nurse at the city hospital.",
        "your sister Anna works as a nurse at the city hospital",
    ),
    ("The rent is 1,200 euros a month.", "the rent is 1,200 euros a month"),
    ("Deploys run tools/ship.sh with --dry-run first.", "deploys run tools/ship.sh with --dry-run first"),
    ("I always run five kilometres before breakfast.", "you always run five kilometres before breakfast"),
]
SAID_ON = "2026-05-06"  # a Wednesday

# What agents put around it. The user is called Ada.
_FRAMES = """
    As of 2026-05-06, {}.
    [2026-05-06] {}.
    - [2026-05-06, from Travel Desk] {}.
    * [2026-05-06] {}
    2026-05-06: {}.
    On 6 May 2026 you told me that {}.
    On May 6th, 2026, you told me that {}.
    You told me on Wednesday that {}.
    You told me on Wednesday, 6 May, that {}.
    Last week you mentioned that {}.
    You mentioned last week that {}.
    Three days ago you said that {}.
    Earlier today you told me that {}.
    {} (noted on 6 May 2026).
    {} (2026-05-06).
    {} [2026-05-06].
    {}, you said yesterday.
    {}, as you told me on 6 May.
    According to my notes from 6 May, {}.
    According to what you told me on 2026-05-06, {}.
    I have 3 memories about this: {}.
    I found 2 notes: {}.
    Here are two things that I remember: {}.
    1. {}
    2) {}
    (3) {}
    #4: {}
    Fact 2: {}.
    Memory #2: {}.
    Memory 1 of 3: {}.
    First, {}.
    Second, {}.
    You have told me twice that {}.
    You've told me 3 times that {}.
    You have mentioned this two times: {}.
    No problem, {}.
    No problem: {}.
    No problem! {}.
    No worries, {}.
    Not at all, {}.
    Don't worry, {}.
    Of course, {}.
    Sure thing, {}.
    Got it, {}.
    Got it — {}.
    Yes, {}.
    No, {}.
    Okay, so {}.
    Well, {}.
    Oh, {}!
    But {}.
    However, {}.
    And {}.
    So {}.
    Ah, but {}.
    Still, {}.
    Anyway, {}.
    Ada, {}.
    Hi Ada, {}.
    Hello Ada! {}.
    Dear Ada, {}.
    Sure, Ada: {}.
    No problem, Ada, {}.
    Yes, Ada, {}.
    {}, Ada.
    {}, dear Ada!
    {}, right?
    {}, correct?
    {}, isn't that so?
    {}, don't you?
    {}, isn't it?
    {}, doesn't she?
    {}, no?
    {}, am I right?
    {} - is that right?
    {}, if I remember correctly.
    {}, if I'm not mistaken.
    If I'm not mistaken, {}.
    Unless I'm mistaken, {}.
    I haven't forgotten that {}.
    Don't worry, I haven't forgotten that {}.
    I did not forget: {}.
    Didn't you tell me that {}?
    My records show that {}.
    I see in my notes that {}.
    I know that {}.
    I recall that {}.
    I have noted that {}.
    It is stored in my memory that {}.
    To sum up: {}.
    Just to confirm, {}.
    Just to confirm: {}?
    For the record, {}.
    As a reminder, {}.
    As you know, {}.
    As I said before, {}.
    Great, {}!
    Perfect, {}.
    Thanks for asking: {}.
    You're welcome, {}.
    Good question! {}.
    I'm sorry, {}.
    Sorry, but {}.
    Let me check... {}.
    **{}**
    > {}
    "{}"
    “{}.”
    `{}`
    - {}
    • {}
"""
FRAMES = [line.strip() for line in _FRAMES.splitlines() if line.strip()]

# (what is stored, what an agent or a tool says that is new beside it)
_FLIGHT = STORED[2][0]
_OSLO = STORED[0][0]
_TEA = STORED[1][0]
_MEAT = STORED[3][0]
_ANNA = STORED[4][0]
_RENT = STORED[5][0]
_SHIP = STORED[6][0]
_RUN = STORED[7][0]
NEWS = [
    *(
        (_FLIGHT, text)
        for text in (
            "Flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15 is overbooked.",
            "Flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15, seat 14C, is overbooked.",
            "Your booked flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15, seat 14C, is delayed.",
            "Your flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15, seat 14C, has been cancelled.",
            "Flight LH 4711 from Oslo to Lima on 3 June 2026 now leaves at 10:40.",
            "Flight LH 4711 from Oslo to Lima on 4 June 2026 at 9:15, seat 14C.",
            "You have booked flight LH 4711 from Lima to Oslo on 3 June 2026 at 9:15, seat 14C.",
            "You have booked flight LH 4712 from Oslo to Lima on 3 June 2026 at 9:15, seat 14C.",
            "You have booked flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15, seat 14D.",
            "You have booked flight LH 4711 from Oslo to Quito on 3 June 2026 at 9:15, seat 14C.",
            "You have not booked flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15.",
            "You have booked flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15 with a suitcase, seat 14C.",
            "Flight LH 4711 from Oslo to Lima departs from gate B12.",
            "Seat 14C on flight LH 4711 is broken.",
            "Check-in for flight LH 4711 from Oslo to Lima opens tomorrow.",
            "Flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15 costs 640 euros.",
            "Flight LH 4711 from Oslo to Lima on 3 June 2026 lands at 18:20.",
            "Flight LH 4711 from Oslo to Lima on 3 June 2026 is operated by Avianca.",
            "Your flight LH 4711 from Oslo to Lima was moved to 3 July 2026.",
            "You want to rebook flight LH 4711 from Oslo to Lima on 3 June 2026.",
            "You have booked a hotel in Lima from 3 June 2026.",
            "You have booked two seats on flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15, seat 14C.",
        )
    ),
    *(
        (_OSLO, text)
        for text in (
            "You live in Bergen with two cats.",
            "You live in Oslo with three cats.",
            "You live in Oslo with two dogs.",
            "You live in Oslo without two cats.",
            "You don't live in Oslo with two cats.",
            "You no longer live in Oslo with two cats.",
            "You used to live in Oslo with two cats.",
            "You will live in Oslo with two cats.",
            "You want to live in Oslo with two cats.",
            "You live in Oslo with two cats and a dog.",
            "You live in Oslo with two sick cats.",
            "Your two cats in Oslo need a vet.",
            "You moved to Oslo with two cats in 2019.",
            "Your brother lives in Oslo with two cats.",
            "Maria lives in Oslo with two cats.",
            "You live near Oslo with two cats.",
            "You live in Oslo with two cats until March.",
            "You live in a flat in Oslo with two cats.",
            "You live in Oslo with Maria and two cats.",
            "You live with two cats in West Oslo.",
        )
    ),
    *(
        (_TEA, text)
        for text in (
            "Your favourite tea is Assam Second Flush.",
            "Your favourite tea is not Darjeeling First Flush.",
            "Your favourite tea was never Darjeeling First Flush.",
            "Your favourite tea, Darjeeling First Flush, is sold out.",
            "Your favourite tea Darjeeling First Flush costs 20 euros.",
            "Your mother's favourite tea is Darjeeling First Flush.",
            "Your favourite tea is Darjeeling First Flush with milk.",
            "Your favourite tea used to be Darjeeling First Flush.",
            "Your least favourite tea is Darjeeling First Flush.",
            "I ordered your favourite tea, Darjeeling First Flush.",
            "Your favourite tea is Darjeeling First Flush from Makaibari.",
            "Your favourite coffee is Darjeeling First Flush.",
        )
    ),
    *(
        (_MEAT, text)
        for text in (
            "You eat meat.",
            "You don't eat fish.",
            "You don't eat meat on Fridays.",
            "Anna does not eat meat.",
            "You don't eat meat because of your kidneys.",
            "You didn't eat meat until 2020.",
            "You don't cook meat.",
            "Your cats don't eat meat.",
        )
    ),
    *(
        (_ANNA, text)
        for text in (
            "Your sister Maria works as a nurse at the city hospital.",
            "Your brother Anna works as a nurse at the city hospital.",
            "Your sister Anna works as a doctor at the city hospital.",
            "Your sister Anna works as a nurse at the county hospital.",
            "Your sister Anna no longer works as a nurse at the city hospital.",
            "Your sister Anna works nights as a nurse at the city hospital.",
            "Your sister Anna works as a head nurse at the city hospital.",
            "Your sister Anna quit at the city hospital.",
            "Your sister Anna worked as a nurse at the city hospital until 2020.",
            "Your sister Anna wants to work as a nurse at the city hospital.",
            "Your sister Anna works as a nurse at the city hospital with Bob.",
            "Your sister Anna is a patient at the city hospital.",
        )
    ),
    *(
        (_RENT, text)
        for text in (
            "The rent is 1,300 euros a month.",
            "The rent is 12,000 euros a month.",
            "The rent is 1,200 dollars a month.",
            "The rent is 1,200 euros a week.",
            "The rent is 1,200 euros a month plus heating.",
            "The rent of 1,200 euros a month is due on Friday.",
            "The rent was raised to 1,200 euros a month.",
            "The rent is not 1,200 euros a month.",
            "The garage rent is 1,200 euros a month.",
            "The rent of 1,200 euros a month is unpaid.",
        )
    ),
    *(
        (_SHIP, text)
        for text in (
            "Deploys run tools/ship.sh with --force first.",
            "Deploys run tools/build.sh with --dry-run first.",
            "Deploys run tools/ship.sh without --dry-run first.",
            "Deploys run tools/ship.sh with --dry-run last.",
            "Deploys ran tools/ship.sh with --dry-run first and it crashed.",
            "Deploys run tools/ship.sh with --dry-run --verbose first.",
            "Rollbacks run tools/ship.sh with --dry-run first.",
        )
    ),
    *(
        (_RUN, text)
        for text in (
            "You always run six kilometres before breakfast.",
            "You always run five miles before breakfast.",
            "You always run five kilometres after breakfast.",
            "You never run five kilometres before breakfast.",
            "You always swim five kilometres before breakfast.",
            "You always run five kilometres before dinner.",
            "You always run five kilometres before breakfast with Anna.",
            "You always run five kilometres barefoot before breakfast.",
        )
    ),
    ("Anna manages Bob.", "Bob manages Anna."),
    ("Anna manages Bob.", "Anna no longer manages Bob."),
    ("Anna lent Bob her red bike.", "Bob lent Anna his red bike."),
    ("Anna lent Bob her red bike.", "Bob lent Anna her red bike."),
    ("The train goes from Oslo to Bergen.", "The train goes from Bergen to Oslo."),
    ("The user is moving from Porto to Accra.", "You are moving from Accra to Porto."),
    ("The ratio is 2 to 3.", "The ratio is 3 to 2."),
    ("The door is open.", "The door is closed."),
    ("The feature flag is enabled in staging.", "The feature flag is disabled in staging."),
    ("The feature flag is enabled in staging.", "The feature flag is enabled in production."),
    ("The meeting is before lunch.", "The meeting is after lunch."),
    ("The key is under the left flowerpot.", "The key is under the right flowerpot."),
    ("Version 1.1 is deployed.", "Version 1.10 is deployed."),
    ("The server is db-01.", "The server is db-02."),
    ("The user has no problem with spicy food.", "You have a problem with spicy food."),
    ("The user has a problem with spicy food.", "You have no problem with spicy food."),
    ("The user has 2 cats.", "You told me you have 4 cats."),
    ("The user has 2 cats.", "I remember 3 cats."),
    ("The user has two cats.", "You mentioned that you have two cats and a parrot."),
    ("The user met Anna on Monday.", "You told me you met Anna on Tuesday."),
    ("The user lives with a sister.", "You live with your sister, Anna."),
    ("The user visited Lima in 2019.", "You told me in 2024 that you visited Lima in 2023."),
    ("The user's name is Ada.", "Your name is Grace."),
    ("用户住在北京。", "你住在上海。"),
    ("用户喜欢咖啡。", "你不喜欢咖啡。"),
    ("会议在周一。", "会议在周二。"),
    ("Der Benutzer wohnt in Oslo.", "Du wohnst in Bergen."),
    ("Der Benutzer trinkt Kaffee.", "Du trinkst keinen Kaffee."),
    ("Le loyer est de 500 euros.", "Le loyer est de 600 euros."),
    ("Le gusta el café.", "No le gusta el café."),
]

# Real news made of the words of several memories.
MIXED = [
    (["Anna works at Acme.", "Bob lives in Oslo."], "Anna lives in Oslo."),
    (["Anna works at Acme.", "Bob lives in Oslo."], "Bob works at Acme."),
    (["Anna works at Acme.", "Carl is Bob's boss.", "Dana lives in Lima."], "Anna, Bob's boss, lives in Lima."),
    (["The user eats meat.", "The user does not live in Oslo."], "You live in Oslo but don't eat meat."),
    (["The rent is 500 euros.", "The deposit is 900 euros."], "The rent is 900 euros."),
    (["The rent is 500 euros.", "The deposit is 900 euros."], "The rent is 900 euros and the deposit is 500 euros."),
    (["The review is on Monday.", "The exam is on Friday."], "The exam is on Monday."),
    (["The user has two dogs.", "Anna has three cats."], "You have two cats."),
    (["The red car is in the garage.", "The blue bike is in the cellar."], "The blue car is in the garage."),
    (["Server db-01 is in Oslo.", "Server db-02 is in Lima."], "Server db-02 is in Oslo."),
    (["Anna likes tea.", "Bob hates coffee."], "Bob hates tea."),
]
# The words of several memories, said again in one sentence.
UNITED = [
    ([_OSLO, _TEA], "You live in Oslo with two cats, and your favourite tea is Darjeeling First Flush."),
    ([_OSLO, _MEAT], "You live in Oslo but don't eat meat."),
    ([_OSLO, _MEAT], "You live in Oslo with two cats; you never eat meat."),
    ([_ANNA, _RENT], "Your sister Anna works as a nurse at the city hospital while the rent is 1,200 euros a month."),
    (
        [_TEA, _RUN],
        "Your favourite tea is Darjeeling First Flush, and you always run five kilometres before breakfast.",
    ),
    (["Anna lives in Oslo. She has two cats."], "Anna lives in Oslo with two cats."),
    (["The user lives in Oslo.", "The user has two cats."], "You live in Oslo and have two cats, right?"),
]
# Said again in other words or with less.
SHORTER = [
    (_OSLO, "You live in Oslo."),
    (_OSLO, "Your two cats in Oslo."),
    (_OSLO, "You live with two cats in Oslo."),
    (_OSLO, "You reside in Oslo with two cats."),
    (_OSLO, "Ada lives in Oslo with two cats."),
    (_OSLO, "Living in Oslo with 2 cats, right?"),
    (_TEA, "Darjeeling First Flush is your favourite tea."),
    (_TEA, "Favourite tea: Darjeeling First Flush"),
    (_TEA, "Your favourite tea? Darjeeling First Flush!"),
    (_FLIGHT, "Your flight LH 4711 is booked for 3 June 2026."),
    (_FLIGHT, "You have booked flight LH 4711 from Oslo to Lima, seat 14C."),
    (_FLIGHT, "Flight LH 4711, Oslo to Lima, 3 June 2026, 9:15, seat 14C"),
    (_MEAT, "You never eat meat."),
    (_ANNA, "Anna is a nurse at the city hospital."),
    (_ANNA, "Your sister is called Anna."),
    (_RENT, "Your rent is 1200 euros a month."),
    (_RENT, "The rent is €1,200 a month."),
    (_RUN, "You run 5 km before breakfast."),
    ("用户最喜欢的茶是龙井。", "你最喜欢的茶是龙井,对吗?"),
    ("Der Benutzer wohnt mit zwei Katzen in Oslo.", "Kein Problem, du wohnst mit zwei Katzen in Oslo, nicht wahr?"),
    ("Le loyer est de 500 euros.", "Pas de problème, le loyer est de 500 euros, n'est-ce pas ?"),
    ("El alquiler cuesta 500 euros.", "No hay problema, el alquiler cuesta 500 euros, ¿verdad?"),
]
