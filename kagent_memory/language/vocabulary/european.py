"""The telling words of Finnish, Hungarian, Romanian and Greek."""

from __future__ import annotations

from typing import Final

from .language import Language

FINNISH: Final = Language(
    code="fi",
    letters="äö",
    function_words="""
        ja on ei se hän he me te minä sinä oli ovat että kun jos mutta myös niin kuin joka mikä tämä tuo hyvin ennen
        jälkeen kanssa tai
    """,
    copulas="on oli ovat olivat",
    conjunctions="ja tai sekä",
    numbers="nolla yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän kymmenen",
    more_numbers="kahta:2 kolmea:3 neljää:4 viittä:5 kaksikymmentä:20 kolmekymmentä:30 sata:100 tuhat:1000",
    weekdays="""
        maanantai maanantaina | tiistai tiistaina | keskiviikko keskiviikkona | torstai torstaina | perjantai
        perjantaina | lauantai lauantaina | sunnuntai sunnuntaina
    """,
    dates="yesterday: eilen | today: tänään | tomorrow: huomenna",
    nearness="this: tällä tämä | next: ensi | last: viime",
    periods="viikko viikolla kuukausi kuussa vuosi vuonna",
    negations="ei en et emme ette eivät ilman koskaan älä eikä",
    negation_forms="....ton ....tön",
    opposites="""
        open: auki avoinna avo* / kiinni sulje* |
        side: vasen vasem* / oikea oikeal* |
        before: ennen / jälkeen |
        relative: veli velje* / sisko sisar* / äiti äidi* / isä isän |
        size: iso* suuri suure* / pieni piene* |
        heat: kuuma* / kylmä* |
        newness: uusi uude* / vanha* |
        buy: osta* / myy* myi |
        colour: puna* / sini* / vihreä* / musta* / valko* |
        allowed: sallit* / kiellet* |
        enabled: käytössä päällä / pois
    """,
    doubtful="on se he me te en et ja ei ton",
    starts="hän he se minä käyttäjä",
)

HUNGARIAN: Final = Language(
    code="hu",
    letters="őű",
    function_words="""
        a az és is nem egy hogy van volt ez de én te ő mi ti ők meg már csak még mint vagy ha nagyon után előtt
    """,
    copulas="van volt lesz",
    conjunctions="és vagy meg",
    numbers="nulla egy kettő három négy öt hat hét nyolc kilenc tíz",
    more_numbers="két:2 húsz:20 harminc:30 negyven:40 ötven:50 száz:100 ezer:1000",
    weekdays="""
        hétfő hétfőn | kedd kedden | szerda szerdán | csütörtök csütörtökön | péntek pénteken | szombat szombaton |
        vasárnap
    """,
    dates="yesterday: tegnap | today: ma | tomorrow: holnap",
    nearness="this: ezen ez | next: jövő következő | last: múlt elmúlt",
    periods="hét héten hónap hónapban év évben",
    units="huf: forint",
    negations="nem ne nincs nincsenek soha nélkül sem senki semmi",
    concord=True,
    opposites="""
        open: nyit* nyitva / zár* zárva csuk* |
        side: bal balra / jobb jobbra |
        before: előtt / után |
        relative: testvér* báty* öcs* / nővér* húg* / any* / ap* apa |
        size: nagy* / kicsi* kis |
        heat: forró* meleg* / hideg* |
        newness: új* / régi* |
        buy: vesz vett vásárol* / elad* |
        colour: piros* vörös* / kék* / zöld* / sárga* / fekete* / fehér* |
        allowed: szabad megenged* / tilos* tilt*
    """,
    doubtful="a is de mi te ha hat ne az meg ma van volt ez any* ap* bal kis vett hogy",
)

ROMANIAN: Final = Language(
    code="ro",
    letters="ășț",
    function_words="""
        și în de la cu pe o un nu este sunt era a au că din pentru care mai să se lui ei el ea noi voi eu dar sau ca
        fost foarte
    """,
    copulas="este sunt era",
    conjunctions="și sau",
    prepositions="în de la cu pe din pentru",
    sources="din de",
    goals="la spre pentru",
    numbers="zero unu doi trei patru cinci șase șapte opt nouă zece",
    more_numbers="două:2 douăzeci:20 treizeci:30 patruzeci:40 cincizeci:50 sută:100 mie:1000 mii:1000",
    months="""
        ianuarie | februarie | martie | aprilie | mai | iunie | iulie | august | septembrie | octombrie | noiembrie |
        decembrie
    """,
    weekdays="luni | marți | miercuri | joi | vineri | sâmbătă | duminică",
    dates="yesterday: ieri | today: azi astăzi | tomorrow: mâine",
    nearness="this: această acest asta | next: viitoare viitor următoare următor | last: trecută trecut",
    periods="săptămână săptămâna lună luna an anul",
    negations="nu niciodată fără nici nimeni nimic niciun nicio",
    concord=True,
    opposites="""
        open: deschis* deschid* / închis* închid* |
        side: stâng* / drept* dreapt* |
        before: înainte / după |
        relative: frate* / sor* sora / mam* / tat* |
        size: mare mari / mic mică mici |
        heat: cald* fierbinte / rece |
        newness: nou nouă / vechi* |
        buy: cumpăr* / vinde vând* |
        colour: roș* / albastr* / verde* / galben* / negr* / alb albă |
        allowed: permis* / interzis*
    """,
    doubtful="a de la o un mai mai mare lui ei ea opt luni doi zero el se ca pe cu au an mic tat* sor* mam* mici noi",
)

GREEK: Final = Language(
    code="el",
    function_words="""
        ο η το οι τα του της των τον την και να με σε για από είναι ήταν που θα στο στη στην στον στα αλλά ως κατά
        μετά πριν ένα μια ένας πολύ
    """,
    copulas="είναι ήταν",
    conjunctions="και ή",
    prepositions="με σε για από στο στη στην στον στα κατά",
    sources="από",
    goals="προς στο στη στην για",
    numbers="μηδέν ένα δύο τρία τέσσερα πέντε έξι επτά οκτώ εννέα δέκα",
    more_numbers="""
        δυο:2 τρεις:3 τέσσερις:4 εφτά:7 οχτώ:8 εννιά:9 είκοσι:20 τριάντα:30 σαράντα:40 πενήντα:50 εκατό:100 χίλια:1000
    """,
    weekdays="δευτέρα | τρίτη | τετάρτη | πέμπτη | παρασκευή | σάββατο | κυριακή",
    dates="yesterday: χθες χτες | today: σήμερα | tomorrow: αύριο",
    nearness="this: αυτή αυτό αυτόν | next: επόμενη επόμενο επόμενος | last: περασμένη περασμένο προηγούμενη",
    periods="εβδομάδα μήνα χρόνο έτος",
    negations="δεν μην όχι ποτέ χωρίς κανένας καμία τίποτα ούτε δε",
    concord=True,
    opposites="""
        open: ανοιχτ* ανοίγ* / κλειστ* κλείν* |
        side: αριστερ* / δεξι* |
        before: πριν / μετά |
        relative: αδελφός αδερφός / αδελφή αδερφή / μητέρα μαμά / πατέρας μπαμπάς |
        size: μεγάλ* / μικρ* |
        heat: ζεστ* καυτ* / κρύ* |
        newness: νέ* καινούργι* / παλι* |
        buy: αγορά* / πουλ* πώλη* |
        colour: κόκκιν* / μπλε / πράσιν* / μαύρ* / άσπρ* λευκ* |
        allowed: επιτρέπ* / απαγορ* |
        love: αγαπ* / μισ*
    """,
)
