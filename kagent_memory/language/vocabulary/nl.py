"""Dutch."""

from __future__ import annotations

from typing import Final

from .language import Language

DUTCH: Final = Language(
    code="nl",
    function_words="""
        de het een en of maar niet is zijn was waren heeft hebben had hij zij ze wij we jij je ik u mij hem haar ons
        jullie hun mijn jouw zijn onze van naar in op aan met voor door bij uit om te tot over onder tussen als dan
        dat die dit deze wie wat waar wanneer ook nog al zeer er geen wordt worden kan moet zal wil
    """,
    light_words="""
        zeer heel erg echt ook nog al altijd vaak nu momenteel heet noemt genoemd neemt nemen maakt maken kost kosten
        elke elk per ongeveer begint begonnen gebruiker persoon zegt wil graag veel
    """,
    copulas="is zijn was waren wordt worden blijft heet",
    conjunctions="en of",
    articles="de het een die dat zijn haar mijn wat",
    prepositions="""
        van naar in op aan met voor door bij uit om tot over onder tussen sinds tijdens tegen zonder elke als
    """,
    sources="van uit vanaf vanuit",
    goals="naar voor aan tot",
    agents="door",
    numbers="""
        nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien zeventien
        achttien negentien twintig
    """,
    more_numbers="""
        dertig:30 veertig:40 vijftig:50 zestig:60 zeventig:70 tachtig:80 negentig:90 honderd:100 tweehonderd:200
        duizend:1000 tweeduizend:2000 miljoen:1000000 miljard:1000000000 half:0.5 halve:0.5 dubbel:2 tweemaal:2
        dozijn:12 eerste:1st tweede:2nd derde:3rd vierde:4th vijfde:5th
    """,
    units_joined="en",
    months="""
        januari | februari | maart | april | mei | juni | juli | augustus | september | oktober | november | december
    """,
    weekdays="maandag | dinsdag | woensdag | donderdag | vrijdag | zaterdag | zondag",
    dates="""
        yesterday: gisteren | today: vandaag | tomorrow: morgen | overmorrow: overmorgen | ereyesterday: eergisteren |
        spring: lente voorjaar | summer: zomer | autumn: herfst najaar | winter: winter | weekend: weekend | daily:
        dagelijks | weekly: wekelijks | monthly: maandelijks | yearly: jaarlijks | mornings: ochtend ochtends |
        afternoons: middag middags | evenings: avond avonds | nights: nacht nachts | midnight: middernacht |
        christmas: kerst kerstmis | easter: pasen
    """,
    nearness="this: deze dit | next: volgende volgend komende aanstaande | last: vorige vorig afgelopen laatste",
    periods="week weken maand jaar kwartaal weekend nacht keer seizoen semester",
    units="""
        second: seconde seconden | minute: minuut minuten | hour: uur uren | day: dag dagen | week: week weken |
        month: maand maanden | year: jaar jaren | time: keer maal | person: personen mensen | percent: procent |
        metre: meter | kilometre: kilometer | mile: mijl | gram: gram | kilogram: kilo kilogram | ton: ton | pound:
        pond | litre: liter | usd: dollar | eur: euro | inr: roepie roepies | rub: roebel | page: pagina | degree:
        graden | star: sterren | cup: kopje kopjes
    """,
    negations="niet geen nooit zonder niemand niets noch nergens nee",
    opposites="""
        open: open opent geopend* openen / dicht gesloten sluit* |
        side: links linker* / rechts rechter* |
        before: voor voordat eerder / na nadat later daarna |
        relative: broer* / zus zussen zuster* / moeder* mama / vader* papa / zoon zonen / dochter* / oma grootmoeder*
            / opa grootvader* / tante* / oom ooms / nicht* / neef neven / echtgenote vrouw / echtgenoot man |
        parent: ouder ouders / kind kinderen |
        gender: man mannen mannelijk* / vrouw vrouwen vrouwelijk* |
        young_gender: jongen* / meisje* |
        allowed: toegestaan* mag mogen toegelaten / verbod* verbied* |
        enabled: ingeschakeld* geactiveerd* actief inschakel* / uitgeschakeld* gedeactiveerd* inactief uitschakel* |
        power: aan! / uit! |
        valid: geldig* / ongeldig* |
        amount: meer / minder |
        height: hoog hoge hoger / laag lage lager |
        size: groot grote groter / klein* |
        length: lang lange langer / kort* |
        age: oud oude ouder / jong* |
        newness: nieuw* / oud oude |
        heat: heet hete / koud* / warm* / koel* |
        timeliness: vroeg* / laat late later |
        sequence: eerst / laatst |
        often: altijd / soms / zelden / vaak |
        everything: alle alles iedereen elke / sommige enkele |
        start: begin* start* gestart / eind* stop* gestopt beëindig* |
        buy: koop* kocht gekocht / verkoop* verkocht* |
        lend: leent_uit uitgeleend / leent geleend |
        win: win* won gewonnen / verlie* verloor verloren |
        arrive: aankom* aangekomen / vertrek* vertrok* |
        accept: accepte* geaccepteerd aangenomen goedgekeurd / weiger* geweigerd afgewezen |
        increase: stijg* gestegen verhoog* toegenomen / daal* gedaald verlaag* afgenomen |
        vertical: omhoog / omlaag |
        truth: waar! / onwaar vals |
        correct: juist* goed / onjuist* fout verkeerd |
        quality: goed goede / slecht* |
        better: beter* / slechter* |
        safe: veilig* / gevaarlijk* onveilig* |
        public: openbaar openbare publiek* / privé geheim* |
        interior: binnen* intern* / buiten* extern* |
        above: boven / onder beneden |
        front: voor vooraan / achter* |
        near: dichtbij nabij / ver verre |
        compass: noord* / zuid* / oost* / west* |
        teach: leraar lerares docent* / leerling* student* |
        employ: werkgever* / werknemer* |
        medical: arts artsen dokter* / patiënt* |
        rent: verhuurder* / huurder* |
        trade: koper* / verkoper* |
        rank: baas chef* / ondergeschikt* |
        marriage: getrouwd* gehuwd* / ongehuwd* alleenstaand* vrijgezel* / gescheiden / weduw* |
        life: leeft levend* / dood dode gestorven overleden |
        health: gezond* / ziek* |
        wealth: rijk* / arm arme |
        strength: sterk* / zwak* |
        speed: snel* / langzaam langzame traag |
        weight: zwaar zware / licht* |
        difficulty: moeilijk* / makkelijk* gemakkelijk* eenvoudig* |
        fullness: vol volle / leeg lege |
        wetness: nat natte / droog droge |
        cleanness: schoon* / vies vieze vuil* |
        loudness: luid* / stil* zacht |
        brightness: licht* helder* / donker* |
        width: breed brede / smal* |
        price: duur dure / goedkoop* |
        charge: gratis / betaald* |
        presence: aanwezig* / afwezig* |
        manual: handmatig* / automatisch* |
        duration: tijdelijk* / permanent* vast |
        duty: optioneel vrijwillig* / verplicht* |
        reading: leest lezen gelezen / schrijft schrijven geschreven |
        adding: toevoeg* toegevoegd / verwijder* |
        bound: maximaal maximum hoogstens / minimaal minimum minstens |
        diet: veganist* / vegetari* |
        taste: zoet* / zuur zure / bitter* / zout* |
        meal: ontbijt* / lunch* / avondeten diner* |
        voting: voor / tegen |
        result: winst* / verlies* |
        sign: positie* / negatie* |
        friendship: vriend* / vijand* |
        question: vraagt vraag gevraagd / antwoord* |
        giving: geeft geven gegeven / krijgt krijgen gekregen neemt |
        memory: herinner* / vergeet* vergeten |
        success: geslaagd slaagt / gezakt mislukt* |
        colour: rood rode / blauw* / groen* / geel gele / oranje / paars* / roze / zwart* / wit witte / grijs grijze /
            bruin* |
        mood: blij gelukkig* / verdrietig* droevig |
        love: houdt_van / haat haten |
        urban: stad / platteland dorp |
        vote: ja / nee
    """,
    synonyms="""
        houdt mag vindt lust |
        woont leeft verblijft |
        werkt |
        koopt kocht gekocht |
        auto wagen |
        telefoon mobiel |
        begint start |
        spreekt praat |
        fiets rijwiel
    """,
    doubtful="""
        een in is was had we me of van over die door om as al dat elf half nul win won mei open open waar! dan wit ton
        week ja want men wie ver
    """,
    starts="de het een hij zij wij ik gebruiker mijn zijn haar ons deze dit",
    after_names="is was heeft had woont werkt houdt drinkt eet spreekt gaat kent leidt",
)
