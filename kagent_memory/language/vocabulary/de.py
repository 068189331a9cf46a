"""German."""

from __future__ import annotations

from typing import Final

from .language import Language

GERMAN: Final = Language(
    code="de",
    letters="äöüß",
    function_words="""
        der die das den dem des ein eine einen einem einer eines und oder aber nicht ist sind war waren sein hat haben
        hatte er sie es wir ihr ich du mich dich ihn ihm uns euch mein meine dein seine seinen ihre ihren unser euer
        in im an am auf zu zum zur mit von vom bei beim für aus nach über unter vor hinter neben zwischen durch um als
        wie wenn weil dass daß ob auch noch nur schon sehr so da dort hier wird werden wurde kann muss soll will mag
        was wer wo wann warum man sich kein keine keinen
    """,
    light_words="""
        sehr ganz recht ziemlich wirklich auch nur noch schon eben gern gerne etwas viel immer meist jetzt derzeit
        momentan gerade heißt nennt genannt macht machen gemacht kostet kosten beträgt jede jeder jedes jeden pro etwa
        ungefähr besonders beginnt begonnen angefangen fängt nimmt nehmen benutzer benutzerin nutzer nutzerin person
        sagt sagte möchte will wohl einfach
    """,
    copulas="ist sind war waren wird werden wurde bleibt heißt",
    conjunctions="und oder sowie",
    articles="der die das den dem des ein eine einen einem einer eines was welche welcher welches mein dein sein ihr",
    prepositions="""
        in im ins an am ans auf zu zum zur mit von vom bei beim für aus nach über unter vor hinter neben zwischen
        durch um seit während bis gegen ohne jeden jede jedes wenn weil als pro
    """,
    sources="von vom aus ab",
    goals="nach zu zum zur für an ins",
    agents="durch",
    numbers="""
        null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
        siebzehn achtzehn neunzehn zwanzig
    """,
    more_numbers="""
        dreißig:30 dreissig:30 vierzig:40 fünfzig:50 sechzig:60 siebzig:70 achtzig:80 neunzig:90 hundert:100
        einhundert:100 zweihundert:200 dreihundert:300 fünfhundert:500 tausend:1000 eintausend:1000 zweitausend:2000
        million:1000000 millionen:1000000 milliarde:1000000000 milliarden:1000000000 halb:0.5 halbe:0.5 halben:0.5
        doppelt:2 zweimal:2 dreimal:3 viermal:4 dutzend:12 zwo:2 erste:1st ersten:1st erster:1st zweite:2nd
        zweiten:2nd zweiter:2nd dritte:3rd dritten:3rd dritter:3rd vierte:4th vierten:4th fünfte:5th fünften:5th
        sechste:6th sechsten:6th
    """,
    units_joined="und",
    months="""
        januar jänner | februar feber | märz | april | mai | juni | juli | august | september | oktober okt | november
        | dezember dez
    """,
    weekdays="""
        montag montags | dienstag dienstags | mittwoch mittwochs | donnerstag donnerstags | freitag freitags | samstag
        sonnabend samstags | sonntag sonntags
    """,
    dates="""
        yesterday: gestern | today: heute | tomorrow: morgen | overmorrow: übermorgen | ereyesterday: vorgestern |
        spring: frühling frühjahr | summer: sommer | autumn: herbst | winter: winter | weekend: wochenende wochenenden
        | daily: täglich | weekly: wöchentlich | monthly: monatlich | yearly: jährlich | mornings: vormittag
        vormittags morgens früh | afternoons: nachmittag nachmittags | evenings: abend abends | nights: nacht nachts |
        noon: mittag mittags | midnight: mitternacht | christmas: weihnachten | easter: ostern
    """,
    capital_dates="mai mittag",
    nearness="""
        this: diese dieser dieses diesen diesem | next: nächste nächster nächstes nächsten nächstem kommende kommenden
        kommender | last: letzte letzter letztes letzten letztem vorige vorigen voriger vergangene vergangenen
    """,
    periods="woche wochen monat monate monats jahr jahre jahres quartal wochenende nacht semester mal saison",
    units="""
        second: sekunde sekunden | minute: minute minuten | hour: stunde stunden std | day: tag tage tagen | week:
        woche wochen | month: monat monate monaten | year: jahr jahre jahren | time: mal | person: personen leute |
        percent: prozent | metre: meter metern | kilometre: kilometer kilometern | centimetre: zentimeter |
        millimetre: millimeter | mile: meile meilen | gram: gramm | kilogram: kilo kilogramm | ton: tonne tonnen |
        pound: pfund | litre: liter litern | millilitre: milliliter | usd: dollar | eur: euro | chf: franken rappen |
        rub: rubel | inr: rupie rupien | page: seite seiten | degree: grad | star: sterne | cup: tasse tassen
    """,
    negations="""
        kein* nicht nichts nie niemals niemand niemanden niemandem ohne weder außer ausser nirgends nirgendwo nein
        keinerlei keinesfalls
    """,
    negation_forms="""
        ....los ....lose ....losen ....loser ....loses ....frei ....freie ....freien ....freier ....freies
    """,
    refusals="kaum verweigert vermeidet hasst scheiterte",
    opposites="""
        open: offen* öffne* öffnet geöffnet* aufgemacht auf! / geschlossen* schließ* schliess* zu! |
        side: links linke linken linker linkes / rechts rechte rechten rechter rechtes |
        before: vor vorher zuvor davor / nach nachher danach |
        relative: bruder* brüder* / schwester* / mutter* mama / vater* papa / sohn söhne sohnes / tochter töchter /
            großmutter* oma / großvater* opa / tante* / onkel* / nichte* / neffe* / ehefrau* gattin / ehemann* gatte /
            cousin* |
        parent: eltern* / kind kinder kindern |
        gender: mann männer männlich* herr / frau frauen weiblich* |
        young_gender: junge jungen / mädchen |
        allowed: erlaub* gestatte* zulässig* darf dürfen / verbot* verbiet* untersag* unzulässig* |
        enabled: aktivier* eingeschaltet* angeschaltet* einschalten aktiv / deaktivier* ausgeschaltet* abgeschaltet*
            ausschalten inaktiv |
        power: an! ein! / aus! |
        valid: gültig* / ungültig* |
        amount: mehr / weniger |
        extreme: meisten / wenigsten |
        height: hoch hohe hohen hoher hohes höher* höchst* / niedrig* tief tiefe tiefer* |
        size: groß große großen großer großes größer* gross* / klein* |
        length: lang lange langen langer länger* / kurz kurze kurzen kürzer* |
        age: alt alte alten alter älter* / jung junge jünger* |
        newness: neu neue neuen neuer neues / alt alte alten alter altes |
        heat: heiß* / kalt kalte kalten kälter* / warm warme wärmer* / kühl* |
        timeliness: früh frühe früher* / spät späte später* |
        sequence: zuerst anfangs / zuletzt schließlich |
        often: immer / manchmal / selten / oft häufig |
        everything: alle allen alles jeder jede jeden / einige manche mehrere wenige / keine |
        start: beginn* anfang* anfäng* startet start gestartet / ende* endet beend* aufhör* stopp* |
        buy: kauf* gekauft* / verkauf* |
        lend: verleih* verliehen leiht geliehen / ausleih* borgt geborgt |
        win: gewinn* gewonnen* sieg* / verlier* verlor* verloren* |
        arrive: ankommen ankunft angekommen kommt_an / abfahr* abreise* abgereist abflug |
        accept: annehm* angenommen* akzeptier* genehmig* / ablehn* abgelehnt* verweiger* |
        increase: erhöh* steig* gestiegen zunahme zugenommen wächst / senk* gesenkt sinkt gesunken verringer*
            reduzier* abnahme |
        vertical: hinauf aufwärts rauf / hinunter abwärts runter herunter |
        truth: wahr wahre / falsch* |
        correct: richtig* korrekt* / falsch* |
        quality: gut gute guten guter gutes / schlecht* |
        better: besser* / schlechter* schlimmer* |
        best: beste besten bester / schlechteste* schlimmste* |
        safe: sicher* / gefährlich* unsicher* |
        public: öffentlich* / privat* geheim* |
        interior: innen* drinnen innerhalb intern* / außen* draußen außerhalb extern* |
        above: über oben / unter unten |
        front: vorn vorne vor / hinten hinter |
        near: nah nahe nahen näher / fern weit entfernt |
        compass: nord* nördlich* / süd* / ost osten östlich* / west* |
        teach: lehrer* lehrt unterrichtet / schüler* lernt student* |
        employ: arbeitgeber* / arbeitnehmer* angestellt* |
        medical: arzt ärzt* / patient* |
        rent: vermiet* / mieter* mietet gemietet |
        trade: käufer* / verkäufer* |
        visit: gastgeber* / gast gäste |
        rank: chef* vorgesetzt* / untergeben* mitarbeiter* |
        marriage: verheiratet* / ledig* single / geschieden* / verwitwet* / verlobt* |
        life: lebt lebend* lebendig* / tot tote gestorben starb verstorben* |
        health: gesund* / krank* |
        wealth: reich reiche / arm arme |
        strength: stark* / schwach* |
        speed: schnell* / langsam* |
        weight: schwer* / leicht* |
        hardness: hart harte / weich* |
        difficulty: schwierig* schwer* / einfach* leicht* |
        fullness: voll volle voller / leer* |
        wetness: nass* feucht* / trocken* |
        cleanness: sauber* / schmutzig* dreckig* |
        loudness: laut* / leise* ruhig* still* |
        brightness: hell* / dunkel* dunkl* |
        thickness: dick* / dünn* |
        width: breit* weit / schmal* eng enge |
        price: billig* günstig* / teuer* teure* |
        charge: kostenlos* gratis / kostenpflichtig* bezahlt* |
        presence: anwesend* / abwesend* |
        manual: manuell* / automatisch* |
        duration: vorübergehend* befristet* / dauerhaft* unbefristet* ständig |
        duty: freiwillig* optional* / pflicht* verpflichtend* obligatorisch* |
        reading: liest lesen gelesen las / schreibt schreiben geschrieben schrieb |
        transfer: import* / export* |
        adding: hinzufüg* hinzugefügt / entfern* gelöscht lösch* |
        making: erstell* gebaut baut / zerstör* gelöscht |
        including: einschließlich inklusive / ausschließlich exklusive |
        bound: maximal* maximum höchstens / minimal* minimum mindestens |
        diet: vegan* / vegetarisch* vegetarier* |
        taste: süß* / sauer saure / bitter* / salzig* |
        meal: frühstück* / mittagessen / abendessen |
        attitude: dafür / dagegen |
        voting: für / gegen |
        result: gewinn* / verlust* |
        taxes: brutto / netto |
        sign: positiv* / negativ* |
        friendship: freund* / feind* |
        question: frag* gefragt / antwort* geantwortet |
        giving: gibt geben gegeben gab / bekommt bekommen erhält erhalten nimmt |
        joining: beitreten beigetreten eintr* / austr* ausgetreten verlässt verlassen |
        hiring: eingestellt einstell* / entlass* gefeuert gekündigt |
        memory: erinner* merkt / vergess* vergisst vergaß |
        success: bestanden besteht erfolgreich* / durchgefallen gescheitert scheiter* |
        laughter: lacht lachen / weint weinen |
        movement: kommt kommen gekommen / geht gehen gegangen |
        locking: verriegel* abgeschlossen / entriegel* aufgeschlossen |
        colour: rot* / blau* / grün* / gelb* / orange / lila / rosa / schwarz* / weiß* / grau* / braun* |
        mood: glücklich* froh / traurig* unglücklich* |
        love: liebt lieben / hasst hassen |
        urban: stadt / land dorf |
        vote: ja / nein |
        attract: mag mögen / hasst verabscheut
    """,
    turns="""
        doubt: vielleicht eventuell möglicherweise wahrscheinlich womöglich angeblich vermutlich | past: früher damals |
        wish: möchte möchten wünsch* hofft hoffen plant planen beabsichtig* | attempt: versuch* | nearly: fast beinahe |
        pretence: tut_so
    """,
    synonyms="""
        mag mögen liebt gefällt gern gerne |
        wohnt lebt wohnen leben |
        arbeitet tätig beschäftigt |
        kauft erwirbt gekauft erworben |
        auto wagen pkw |
        telefon handy |
        spricht redet |
        beginnt startet anfängt |
        arzt doktor |
        fahrrad rad
    """,
    doubtful="ab an ein um was war man die mal elf null bin in am so da der den des will art",
    starts="der die das ein eine er sie es wir ich benutzer nutzer mein meine sein seine ihr ihre unser man",
    after_names="ist war hat hatte wohnt arbeitet mag liebt lebt trinkt isst spricht kommt geht leitet kennt",
)
