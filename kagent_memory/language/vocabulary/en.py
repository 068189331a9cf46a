"""English."""

from __future__ import annotations

from typing import Final

from .language import Language

ENGLISH: Final = Language(
    code="en",
    function_words="""
        the a an and or but of in on at to for from with by as is are was were be been being am do does did has have
        had having it its this that these those he she they we you i me him her them us his their our your my mine who
        whom whose which what when where why how there here if then than so not no nor too also just will would can
        could shall should may might must about into onto over under after before during between through up down out
        off all any each every some such own same very because while until since again both few more most other
    """,
    light_words="""
        lot lots much very really quite rather so too also just even actually currently now already still always
        generally usually often started start starts starting begun began begin begins costs cost costing amounts
        amount called named name names takes take taking took taken makes make making made has have having had gets
        get getting got does do doing did goes go going gone went is are was were be being been thing things something
        kind sort bit each every per certain particular particularly especially highly greatly deeply truly simply bit
        own owns owned user users person someone people says said say states stated mentioned mentions mention reports
        reported told tells tell wants want wanted would like
    """,
    copulas="is are was were be been being am become becomes became remains equals means 's 're",
    conjunctions="and or nor both & plus",
    articles="the a an what that which who whom whose this these those my his her their our your its",
    prepositions="""
        in on at to for from with by of during since until till through near next about around after before between
        among within across along past above below behind beside besides inside outside under over against as like
        every each once twice because when while if
    """,
    sources="from off out",
    goals="to into onto toward towards for",
    agents="by",
    numbers="""
        zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty
    """,
    more_numbers="""
        thirty:30 forty:40 fifty:50 sixty:60 seventy:70 eighty:80 ninety:90 hundred:100 thousand:1000 million:1000000
        billion:1000000000 trillion:1000000000000 half:0.5 twice:2 double:2 thrice:3 triple:3 dozen:12 quarter:0.25
        first:1st second:2nd third:3rd fourth:4th fifth:5th sixth:6th seventh:7th eighth:8th ninth:9th tenth:10th
        eleventh:11th twelfth:12th thirteenth:13th fourteenth:14th fifteenth:15th twentieth:20th
    """,
    months="""
        january jan | february feb | march mar | april apr | may | june jun | july jul | august aug | september sep
        sept | october oct | november nov | december dec
    """,
    weekdays="""
        monday mon mondays | tuesday tue tues tuesdays | wednesday wed weds wednesdays | thursday thu thur thurs
        thursdays | friday fri fridays | saturday sat saturdays | sunday sun sundays
    """,
    dates="""
        yesterday: yesterday | today: today | tomorrow: tomorrow | tonight: tonight | spring: spring springtime |
        summer: summer summers summertime | autumn: autumn fall | winter: winter winters wintertime | weekend: weekend
        weekends | weekday: weekday weekdays workday workdays | daily: daily everyday | weekly: weekly | fortnightly:
        fortnightly biweekly | monthly: monthly | quarterly: quarterly | yearly: yearly annually annual | hourly:
        hourly | nightly: nightly | mornings: mornings morning | evenings: evenings evening | afternoons: afternoons
        afternoon | nights: nights night | noon: noon midday | midnight: midnight | ago: ago | christmas: christmas
        xmas | easter: easter
    """,
    capital_dates="may mar march jan sun sat mon wed second fall dec",
    nearness="this: this current | next: next coming upcoming following | last: last past previous preceding",
    periods="""
        week weeks month months year years quarter quarters weekend weekends night nights morning mornings evening
        evenings afternoon spring summer autumn winter season semester term time sprint decade century
    """,
    units="""
        second: s sec secs second seconds | minute: min mins minute minutes | hour: h hr hrs hour hours | day: d day
        days | week: w wk wks week weeks | month: month months | year: y yr yrs year years | decade: decade decades |
        century: century centuries | time: time times | person: person persons people | degree: degree degrees | star:
        star stars | page: page pages | percent: percent pct | millimetre: millimetre millimetres millimeter
        millimeters | centimetre: centimetre centimetres centimeter centimeters | metre: metre metres meter meters |
        kilometre: kilometre kilometres kilometer kilometers | mile: mile miles | foot: foot feet | inch: inch inches
        | yard: yard yards | milligram: milligram milligrams | microgram: microgram micrograms | gram: gram grams
        gramme grammes | kilogram: kilo kilos kilogram kilograms | ton: ton tons tonne tonnes | pound: pound pounds |
        ounce: ounce ounces | millilitre: millilitre millilitres milliliter milliliters | litre: litre litres liter
        liters | gallon: gallon gallons | cup: cup cups | teaspoon: teaspoon teaspoons tsp | tablespoon: tablespoon
        tablespoons tbsp | millisecond: millisecond milliseconds | microsecond: microsecond microseconds | nanosecond:
        nanosecond nanoseconds | byte: byte bytes | kilobyte: kilobyte kilobytes | megabyte: megabyte megabytes |
        gigabyte: gigabyte gigabytes | terabyte: terabyte terabytes | bit: bit bits | watt: watt watts | kilowatt:
        kilowatt kilowatts | megawatt: megawatt megawatts | milliwatt: milliwatt milliwatts | volt: volt volts |
        ampere: ampere amperes amp amps | hertz: hertz | calorie: calorie calories | celsius: celsius centigrade |
        fahrenheit: fahrenheit | kelvin: kelvin kelvins | usd: dollar dollars buck bucks | cent: cents | eur: euro
        euros | gbp: quid sterling | jpy: yen | cny: yuan renminbi | inr: rupee rupees | rub: rouble roubles ruble
        rubles | try: lira liras | peso: peso pesos | brl: reais | chf: franc francs | krona: krona kronor krone
        kroner | pln: zloty zlotys | krw: won | zar: rand | dirham: dirham dirhams | riyal: riyal riyals | shekel:
        shekel shekels | thb: baht | dinar: dinar dinars | huf: forint forints
    """,
    negations="""
        non-* not no never none nobody nothing nowhere neither nor without cannot cant dont doesnt didnt isnt arent
        wasnt werent wont wouldnt shouldnt couldnt hasnt havent hadnt mustnt neednt aint
    """,
    negation_forms="..n't .-free ...less",
    refusals="""
        hardly barely scarcely seldom stopped quit unable refuses refuse refused avoids avoid avoided avoiding
        dislikes dislike disliked hates hate hated lacks lack lacking unlike former formerly cancelled canceled except
        excluding failed fails fail failing denies deny denied
    """,
    opposites="""
        open: open* / close* closing shut shuts |
        side: left leftmost leftward* / right rightmost rightward* |
        before: before beforehand prior earlier / after afterwards later |
        relative: brother* / sister* / mother* mum mom mummy mommy / father* dad daddy / son sons / daughter* /
            grandmother* grandma / grandfather* grandpa / aunt aunts auntie / uncle uncles / niece* / nephew* / wife
            wives / husband* / cousin* / stepmother / stepfather / mother-in-law / father-in-law / girlfriend* /
            boyfriend* |
        parent: parent parents / child children kid kids |
        gender: man men male males / woman women female females |
        young_gender: boy boys / girl girls |
        pronoun: he him his himself / she her hers herself |
        royal: king kings / queen queens |
        sir: mr sir / mrs ms madam |
        allowed: allow* permit* permission legal authori* / forbid* forbad* prohibit* ban bans banned disallow*
            illegal |
        enabled: enable* activate* active switched_on turned_on turns_on turn_on / disable* deactivate* inactive
            switched_off turned_off turns_off turn_off |
        power: on! / off! |
        valid: valid* / invalid* void |
        amount: more / less fewer |
        extreme: most / least fewest |
        height: high higher highest / low lower lowest / medium moderate |
        size: big* large* huge / small* tiny little |
        length: long longer longest lengthy / short* brief* |
        tallness: tall taller tallest / short shorter shortest |
        age: old older oldest elderly elder / young younger youngest |
        newness: new newer newest / old older oldest used |
        heat: hot hotter hottest / cold colder coldest / warm warmer warmest / cool cooler |
        timeliness: early earlier earliest / late later latest |
        sequence: first firstly initial* / last lastly final* |
        often: always constantly / sometimes occasionally / rarely seldom / often frequently / never |
        everything: all everything everyone everybody every each entire* / some something someone somebody several few
            partial* / none nothing nobody |
        start: start* begin* began begun commenc* launch* / stop* end ends ended ending finish* terminat* complet* |
        buy: buy* bought purchas* / sell* sold sale |
        lend: lend* lent loan* / borrow* |
        win: win wins winning won winner* / lose loses losing lost loser* |
        arrive: arriv* / depart* leave leaves leaving left |
        accept: accept* approv* / reject* declin* refus* |
        increase: increas* raise raises raised raising rise rises rose risen grow* grew expand* gain* / decreas*
            reduc* lower* cut cuts drop* fall* fell shrink* shrank declin* |
        vertical: up upward* / down downward* |
        truth: true truth / false |
        correct: correct* right / wrong* incorrect* |
        quality: good well great / bad badly poor* terrible awful |
        better: better / worse |
        best: best / worst |
        safe: safe* secure* / danger* unsafe insecure risky |
        public: public* / private* secret* |
        interior: internal* inner inside indoor* within / external* outer outside outdoor* |
        above: above over atop on_the on_a on_my on_his on_her on_top_of / below under beneath underneath |
        top: top upper topmost / bottom lower bottommost |
        front: front in_front_of ahead / back behind rear |
        near: near nearby close / far distant remote* |
        compass: north* / south* / east* / west* |
        floor: upstairs / downstairs |
        direction: forward* / backward* reverse* |
        axis: horizontal* / vertical* diagonal* |
        teach: teacher* tutor* instructor* teach teaches taught teaching / student* pupil* learn learns learned learnt
            learning |
        employ: employer* / employee* |
        medical: doctor* physician* nurse* / patient patients |
        rent: landlord* lessor* / tenant* lessee* renter* |
        trade: buyer* / seller* |
        visit: host hosts hosted hosting / guest guests |
        network: client clients / server servers |
        mail: sender* send sends sent sending / recipient* receiver* receive receives received receiving |
        rank: boss* manager* supervisor* superior / subordinate* report assistant* |
        marriage: married marries marry / single unmarried bachelor / divorced / widowed / engaged |
        life: alive live living born / dead died dies deceased death |
        sleep: asleep sleeping / awake awoke |
        health: healthy well fit / sick ill unhealthy unwell |
        sobriety: drunk / sober |
        wealth: rich wealthy / poor |
        strength: strong* / weak* |
        speed: fast* quick* / slow* |
        weight: heavy heavier heaviest / light lighter lightest |
        hardness: hard harder hardest / soft* |
        difficulty: hard difficult tough / easy easier easiest simple |
        fullness: full / empty emptied empties |
        wetness: wet* damp moist / dry drier dried |
        cleanness: clean* / dirty dirtier soiled |
        loudness: loud* noisy / quiet* silent* |
        brightness: light bright* / dark* dim |
        thickness: thick* / thin* |
        width: wide* broad* / narrow* |
        depth: deep* / shallow* |
        price: cheap* inexpensive affordable / expensive* costly pricey |
        charge: free / paid charged |
        busy: free available / busy occupied unavailable |
        presence: present / absent |
        online: online / offline |
        place: remote* from_home / on-site onsite in-person in_person in_the_office |
        manual: manual* / automat* |
        duration: temporar* / permanent* |
        duty: optional* voluntar* / mandatory required compulsory obligatory |
        reading: read reads reading / write writes wrote written writing |
        io: input* / output* |
        transfer: import* / export* |
        load: upload* / download* |
        pushing: push* / pull* |
        adding: add adds added adding insert* / remov* delet* subtract* |
        making: creat* build builds built building / destroy* delet* demolish* |
        including: includ* / exclud* |
        showing: show shows showed shown showing display* / hide hides hid hidden hiding |
        attaching: attach* / detach* |
        climbing: ascend* / descend* |
        bound: maximum maximal max maximi* / minimum minimal min minimi* |
        share: majority / minority |
        seniority: senior* / junior* |
        diet: vegan* / vegetarian* / carnivor* / omnivor* / pescatarian* |
        taste: sweet* / sour* / bitter* / salty / spicy |
        cooking: raw / cooked |
        meal: breakfast* / lunch* / dinner* supper* |
        attitude: agree* support* supports in_favour_of in_favor_of / disagree* oppos* against |
        voting: for / against |
        account: credit* / debit* |
        result: profit* / loss losses |
        taxes: gross / net |
        sign: positive* plus / negative* minus |
        parity: odd / even |
        layer: frontend front-end / backend back-end |
        priority: primary / secondary |
        environment: production prod / staging / development dev / test testing |
        friendship: friend* ally allies / enem* foe foes |
        fight: attack* / defen* |
        question: ask asks asked asking question* / answer* repl* |
        giving: give gives gave given giving donat* / receiv* get gets got take takes took |
        joining: join* enter* / leave leaves left exit* quit |
        hiring: hire* hiring recruit* / fire fires fired firing dismiss* laid_off |
        memory: remember* / forget* forgot* |
        saving: save saves saved saving / spend spends spent spending |
        success: succe* pass passed passes passing / fail* |
        laughter: laugh* smile* / cry cries cried crying |
        flight: land lands landed landing / take_off takes_off took_off taking_off takeoff |
        movement: come comes came coming / go goes went going gone |
        locking: lock locks locked locking / unlock* |
        colour: red / blue / green / yellow / orange / purple violet / pink / black / white / grey gray / brown |
        hand: left-handed / right-handed |
        order: ascending / descending |
        mood: happy happier glad / sad sadder unhappy |
        hunger: hungry / thirsty / full |
        love: love loves loved adore* / hate hates hated loathe* |
        liking: like likes liked enjoy* / dislike* |
        distance: closer nearer / further farther |
        season_ticket: one-way / return round-trip |
        wholesale: wholesale / retail |
        urban: urban city / rural countryside |
        level: beginner* novice* / expert* advanced intermediate |
        trust: trust* believe* / distrust* doubt* |
        help: help* / hinder* harm* |
        stay: stay stays stayed remain* / leave leaves left go |
        catch: catch* caught / miss misses missed missing |
        freshness: fresh* / stale frozen |
        smoothness: smooth* / rough* |
        sharpness: sharp* / blunt* dull |
        guilt: guilty / innocent |
        war: war / peace |
        knowledge: known / unknown |
        tide: rising / falling |
        volume: louder / quieter |
        pay: debtor* owes owe owed / creditor* |
        offer: supply / demand |
        vote: yes / no |
        position: ahead / behind |
        synchrony: synchronous* / asynchronous* |
        mode: dark_mode / light_mode |
        wake: wake wakes woke / sleep sleeps slept |
        pass_side: sunrise dawn / sunset dusk |
        obligation: must should shall has_to have_to had_to / may can |
        certainty: will definitely certainly surely / may might maybe perhaps possibly probably |
        choice: and / or |
        condition: if / unless |
        exclusivity: only solely exclusively / also too as_well additionally |
        cap: up_to at_most no_more_than / over more_than at_least exceeding beyond |
        inward: in! moved_in move_in moves_in moving_in logged_in log_in logs_in signed_in sign_in signs_in checked_in
            check_in checks_in / out! moved_out move_out moves_out moving_out logged_out log_out logs_out signed_out
            sign_out signs_out checked_out check_out checks_out |
        working: works_for work_for worked_for working_for / works_with work_with worked_with working_with |
        status: done completed finished / pending outstanding unfinished incomplete in_progress |
        both: both / either |
        part_of_him: he / him |
        part_of_her: she / her! |
        part_of_them: they / them |
        part_of_me: i / me |
        part_of_us: we / us
    """,
    turns="""
        past: used_to | unpaid_yet: yet_to | doubt: might may maybe perhaps possibly probably supposedly allegedly |
        wish: want_to wants_to wanted_to wish* hope* would_like would_love plan_to plans_to planned_to planning_to
            intend* considering considers |
        attempt: try_to tries_to tried_to trying_to attempt* | pretence: pretend* | nearly: almost nearly |
        alternate: every_other every_second
    """,
    synonyms="""
        like likes liked liking enjoy enjoys enjoyed enjoying love loves loved fond keen |
        live lives lived living reside resides resided residing home inhabits |
        work works worked working employed job |
        own owns owned possess possesses have has |
        buy buys bought buying purchase purchases purchased purchasing |
        big large huge |
        small little tiny |
        begin begins began begun start starts started |
        finish finishes finished complete completes completed end |
        movie movies film films |
        car cars automobile automobiles auto |
        phone phones telephone mobile cellphone |
        doctor doctors physician |
        kid kids child children |
        mum mom mother |
        dad father |
        fast quick quickly rapidly |
        ill sick unwell |
        happy glad pleased |
        trip journey travel |
        repair repairs repaired fix fixes fixed mend mends mended |
        speak speaks talk talks spoke |
        learn learns learning study studies studying |
        prefer prefers preferred preference favourite favorite |
        require requires required need needs needed |
        use uses used using utilise utilises utilize utilizes |
        favourite favorite |
        colour color |
        error errors failure failures fault |
        broken broke break breaks fail failed fails failing |
        expensive costly pricey |
        cheap inexpensive |
        reply replies replied answer answers answered respond responds responded |
        flat apartment |
        holiday holidays vacation vacations |
        shop store |
        street road |
        city town |
        meet meets met encountered |
        ask asks asked request requests requested |
        help helps helped assist assists assisted |
        plan plans planned planning intend intends intended |
        choose chose chosen pick picked select selected |
        dog dogs puppy |
        cat cats kitten |
        gift present |
        photo photos picture pictures image images |
        boss manager supervisor |
        colleague coworker co-worker |
        automobile vehicle |
        bike bicycle |
        allergic allergy allergies |
        married wed |
        eat eats eating consume consumes |
        drink drinks drinking |
        stay stays stayed lodge |
        visit visits visited |
        wife spouse |
        husband spouse |
        begin commence |
        difficult hard tough |
        easy simple |
        smart clever intelligent |
        beautiful pretty lovely |
        residence home house |
        salary wage pay income |
        email e-mail mail |
        laptop notebook |
        fly flies flew flying flight flights |
        depart departs leave leaves |
        train trains railway
    """,
    starts="""
        user users the their his her my our your its team people everybody everyone somebody someone it he she they we
        you this that these those there here now then always often usually sometimes never prefers likes loves wants
        needs has works lives uses owns plays drinks eats reads speaks is was will can favourite favorite customer
        client agent assistant deployment
    """,
    after_names="""
        is was has had will would can could does did lives works likes prefers wants needs owns plays says said told
        moved drinks eats speaks uses loves hates goes went came got bought sold reads wrote writes and or manages
        managed owes lent gave met knows called asked taught hired helped married visited beat
    """,
)

# In capitals they are other words.
ACRONYMS: Final = """
    ace acid aids ara arc arm basic bat bell bit bot cad cap car care cart cat cob cobra cod cop dare dash dos
    dot ear elf era fat fed fit gap gas gin gut hip hop ice ink ira jam lab lad lap laser led lift lip log mac
    mad mam map mars mash mast mat mice mint moss nap net nut oar pal pan par pat pen pet pic pie pill pin pip
    pit pop pot ram rap rat raw rest rip rod rom rose sad salt sap sat saw seal sin sip smart soap soar spa
    spin star stem swat swift tag tan tap tin tip top van vat wan war wasp web win zip
"""
