"""Swedish, and Danish with Norwegian."""

from __future__ import annotations

from typing import Final

from .language import Language

SWEDISH: Final = Language(
    code="sv",
    letters="åäö",
    function_words="""
        en ett den det de och eller men inte är var vara har hade att som i på till från med av för om under över
        mellan vid hos efter före genom mot utan han hon vi ni jag du mig dig honom henne oss er dem sin sitt sina min
        mitt mina din hans hennes vår vem vad när där här hur också bara mycket så kan ska vill måste blir blev
    """,
    light_words="""
        mycket väldigt ganska verkligen också ännu redan alltid ofta nu heter kallas kallad tar ta gör göra kostar
        varje per ungefär börjar börjat användare användaren person säger vill gärna lite
    """,
    copulas="är var vara blir blev förblir heter",
    conjunctions="och eller samt",
    articles="en ett den det de som vad sin sitt sina min mitt hans hennes",
    prepositions="i på till från med av för om under över mellan vid hos efter före genom mot utan sedan när varje",
    sources="från ur",
    goals="till åt mot för",
    agents="av",
    numbers="""
        noll en två tre fyra fem sex sju åtta nio tio elva tolv tretton fjorton femton sexton sjutton arton nitton
        tjugo
    """,
    more_numbers="""
        trettio:30 fyrtio:40 femtio:50 sextio:60 sjuttio:70 åttio:80 nittio:90 hundra:100 tvåhundra:200 tusen:1000
        tvåtusen:2000 miljon:1000000 miljoner:1000000 miljard:1000000000 halv:0.5 halva:0.5 dubbelt:2 dussin:12
        första:1st andra:2nd tredje:3rd fjärde:4th femte:5th tjugoett:21 trettioett:31 fyrtioett:41 femtioett:51
    """,
    tens_joined="",
    months="""
        januari | februari | mars | april | maj | juni | juli | augusti | september | oktober | november | december
    """,
    weekdays="""
        måndag måndagen måndagar | tisdag tisdagen tisdagar | onsdag onsdagen onsdagar | torsdag torsdagen torsdagar |
        fredag fredagen fredagar | lördag lördagen lördagar | söndag söndagen söndagar
    """,
    dates="""
        yesterday: igår | today: idag | tomorrow: imorgon | overmorrow: övermorgon | ereyesterday: förrgår | spring:
        vår våren | summer: sommar sommaren | autumn: höst hösten | winter: vinter vintern | weekend: helg helgen |
        daily: dagligen | weekly: veckovis | monthly: månadsvis | yearly: årligen | mornings: morgon morgonen |
        afternoons: eftermiddag eftermiddagen | evenings: kväll kvällen ikväll | nights: natt natten inatt |
        christmas: jul julen | easter: påsk påsken
    """,
    nearness="this: denna detta den_här det_här | next: nästa kommande | last: förra senaste föregående",
    periods="vecka veckan månad månaden år året kvartal helg natt gång gången säsong termin",
    units="""
        second: sekund sekunder | minute: minut minuter | hour: timme timmar | day: dag dagar | week: vecka veckor |
        month: månad månader | year: år | time: gång gånger | person: personer människor | percent: procent | metre:
        meter | kilometre: kilometer | mile: engelsk_mil | mil: mil | gram: gram | kilogram: kilo kilogram | ton: ton
        | litre: liter | usd: dollar | eur: euro | krona: krona kronor kr | inr: rupier | rub: rubel | page: sida
        sidor | degree: grader | star: stjärnor | cup: kopp koppar
    """,
    negations="inte ej icke aldrig ingen inget inga utan ingenting varken knappt nej",
    negation_forms="....lös ....löst ....lösa ....fri ....fritt ....fria",
    opposites="""
        open: öppen öppet öppna* öppnar / stängd* stängt stänger stäng* sluten |
        side: vänster* / höger* |
        before: före innan / efter |
        relative: bror brodern bröder / syster* systrar / mor mamma modern / far pappa fadern / son sonen söner /
            dotter* döttrar / mormor farmor / morfar farfar / moster faster / morbror farbror / fru hustru / make man
            maken / kusin* |
        parent: förälder* föräldrar / barn barnet |
        gender: man män manlig* / kvinna kvinnor kvinnlig* |
        young_gender: pojke* pojkar / flicka* flickor |
        allowed: tillåt* får / förbju* förbjud* förbud* otillåt* |
        enabled: aktiver* aktiv påslagen på! / inaktiver* avaktiver* inaktiv avstängd* av! |
        valid: giltig* / ogiltig* |
        amount: mer fler / mindre färre |
        height: hög* / låg lågt låga lägre |
        size: stor stort stora större / liten litet små mindre |
        length: lång* längre / kort kortare |
        age: gammal gammalt gamla äldre / ung ungt unga yngre |
        newness: ny nytt nya / gammal gammalt gamla |
        heat: het hett heta / kall* / varm* / sval* |
        timeliness: tidig* / sen sent sena senare |
        sequence: först / sist |
        often: alltid / ibland / sällan / ofta |
        everything: alla allt varje / några vissa |
        start: börja* start* / sluta* slut avsluta* |
        buy: köp* / sälj* sålt sålde såld* |
        lend: lånar_ut utlåna* / lånar lånat |
        win: vinn* vann vunnit / förlora* |
        arrive: ankom* anländ* / avgå* avres* lämna* |
        accept: accept* godkän* / avvisa* avslå* avslag nekad* vägra* |
        increase: öka* stig* / minska* sjunk* sänk* |
        vertical: uppåt upp / nedåt ned ner |
        truth: sann* sant / falsk* |
        correct: rätt riktig* korrekt* / fel felaktig* |
        quality: bra god gott goda / dålig* |
        better: bättre / sämre |
        best: bäst* / sämst* |
        safe: säker* säkra / farlig* osäker* |
        public: offentlig* / privat* hemlig* |
        interior: inne inomhus intern* inuti / ute utomhus extern* utanför |
        above: ovanför över / under nedanför |
        front: framför / bakom |
        near: nära / långt fjärran |
        compass: norr* nord* / söder* syd* / öst* / väst* |
        teach: lärare* / elev* student* |
        employ: arbetsgivare* / anställd* arbetstagare* |
        medical: läkare* / patient* |
        rent: hyresvärd* / hyresgäst* |
        trade: köpare* / säljare* |
        rank: chef* / underordnad* |
        marriage: gift* / ogift* singel / skild* / änk* |
        life: lever levande / död döda dog |
        health: frisk* / sjuk* |
        wealth: rik rika / fattig* |
        strength: stark* / svag* |
        speed: snabb* / långsam* |
        weight: tung* / lätt* |
        difficulty: svår* / lätt* enkel* |
        fullness: full fullt fulla / tom tomt tomma |
        wetness: våt* blöt* / torr* |
        cleanness: ren rent rena / smutsig* |
        loudness: högljud* / tyst* |
        brightness: ljus* / mörk* |
        width: bred* / smal* |
        price: dyr* / billig* |
        charge: gratis / betal* |
        presence: närvarande / frånvarande |
        manual: manuell* / automatisk* |
        duration: tillfällig* / permanent* |
        duty: frivillig* valfri* / obligatorisk* |
        reading: läs* / skriv* skrev |
        adding: lägger_till tillag* / ta_bort tar_bort borttag* |
        bound: högst maximal* / minst minimal* |
        diet: vegan* / vegetarian* |
        taste: söt* / sur surt sura / bitter* / salt* |
        meal: frukost* / lunch* / middag* |
        voting: för / emot mot |
        result: vinst* / förlust* |
        sign: positiv* / negativ* |
        friendship: vän vänner vännen / fiende* |
        question: fråga* / svar* |
        giving: ger gav ge / får fick tar |
        hiring: anställer anställts / sparka* avskeda* |
        memory: minns mindes / glöm* |
        success: lyckas godkänd* / misslyck* underkänd* |
        colour: röd rött röda / blå* / grön* / gul gult gula / orange / lila / rosa / svart* / vit vitt vita / grå* /
            brun* |
        mood: glad* lycklig* / ledsen olycklig* |
        love: älskar / hatar avskyr |
        urban: stad* / landet by |
        vote: ja / nej
    """,
    synonyms="gillar tycker älskar uppskattar | bor lever | arbetar jobbar | köper köpt | bil bilen | börjar startar",
    doubtful="""
        en i de var en men man under sex fem tre far son make for ni er mars vår by full fel på! av! som min mil sin
        elev har sur ta bort get hade salt slut make dog rent salt ton har ut
    """,
    starts="en ett den det de han hon vi jag användaren min mitt hans hennes",
    after_names="är var har hade bor arbetar gillar dricker äter talar går känner leder",
)

DANISH: Final = Language(
    code="da",
    letters="åæø",
    function_words="""
        en et den det de og eller men ikke er var være har havde at som i på til fra med af for om under over mellem
        ved hos efter før gennem mod uden han hun vi jeg du mig dig ham hende os dem sin sit sine min mit mine din
        hans hendes vores hvem hva hvad når hvor her der også bare meget så kan skal vil må bliver ble
    """,
    light_words="""
        meget veldig ganske virkelig også allerede altid ofte nå nu hedder heter kaldes kalles tager tar gør gjør
        koster hver hvert cirka begynder begynner bruger brugeren bruker brukeren person siger sier vil gerne gjerne
    """,
    copulas="er var være bliver blir hedder heter",
    conjunctions="og eller samt",
    articles="en et den det de som hvad sin sit sine min mit hans hendes",
    prepositions="""
        i på til fra med af av for om under over mellem mellom ved hos efter etter før mod mot uden uten når
    """,
    sources="fra",
    goals="til mod mot for",
    agents="af av",
    numbers="""
        nul en to tre fire fem seks syv otte ni ti elleve tolv tretten fjorten femten seksten sytten atten nitten tyve
    """,
    more_numbers="""
        null:0 sju:7 åtte:8 tjue:20 tredive:30 tretti:30 fyrre:40 førti:40 halvtreds:50 femti:50 tres:60 seksti:60
        halvfjerds:70 sytti:70 firs:80 åtti:80 halvfems:90 nitti:90 hundrede:100 hundre:100 tusind:1000 tusen:1000
        million:1000000 millioner:1000000 halv:0.5 halvanden:1.5 dobbelt:2 dusin:12 første:1st anden:2nd andre:2nd
        tredje:3rd fjerde:4th femte:5th
    """,
    units_joined="og",
    months="""
        januar | februar | marts mars | april | maj mai | juni | juli | august | september | oktober | november |
        december desember
    """,
    weekdays="mandag | tirsdag | onsdag | torsdag | fredag | lørdag | søndag",
    dates="""
        yesterday: igår | today: idag | tomorrow: imorgen | spring: forår vår våren | summer: sommer sommeren |
        autumn: efterår høst høsten | winter: vinter vinteren | weekend: weekend helg | daily: dagligt daglig |
        weekly: ugentligt ukentlig | monthly: månedligt månedlig | yearly: årligt årlig | mornings: morgen morgenen |
        afternoons: eftermiddag ettermiddag | evenings: aften kveld | nights: nat natt | christmas: jul | easter:
        påske
    """,
    nearness="this: denne dette | next: næste neste kommende | last: sidste siste forrige",
    periods="uge uke måned år kvartal weekend helg nat natt gang sæson sesong semester",
    units="""
        second: sekund sekunder | minute: minut minutter minutt | hour: time timer | day: dag dage dager | week: uge
        uger uke uker | month: måned måneder | year: år | time: gang gange ganger | person: personer mennesker |
        percent: procent prosent | metre: meter | kilometre: kilometer | gram: gram | kilogram: kilo kilogram | litre:
        liter | usd: dollar | eur: euro | krona: krone kroner kr | page: side sider | degree: grader
    """,
    negations="ikke ikkje ekki ej aldrig aldri ingen intet ingenting inga uden uten hverken verken næppe nej nei",
    negation_forms="....løs ....løst ....løse ....fri ....frit ....fritt",
    opposites="""
        open: åben* åpen* åpne* åbne* / lukke* stengt* |
        side: venstre / højre høyre |
        before: før / efter etter |
        relative: bror broder brødre / søster* / mor moren moder / far faren fader / søn sønn / datter* / bedstemor
            mormor farmor / bedstefar morfar farfar / tante* / onkel* / kone / mand mann |
        parent: forælder forældre foreldre / barn børn |
        gender: mand mænd mann menn / kvinde* kvinne* |
        young_gender: dreng* gutt* / pige* jente* |
        allowed: tillad* tillat* / forbud* forby* |
        enabled: aktiver* tændt / deaktiver* slukket |
        valid: gyldig* / ugyldig* |
        amount: mere mer flere / mindre færre |
        height: høj* høy* / lav lave lavt lavere |
        size: stor store stort større / lille små liten mindre |
        length: lang lange langt længere / kort korte |
        age: gammel gamle ældre eldre / ung unge yngre |
        newness: ny nye nyt nytt / gammel gamle |
        heat: hed varm* / kold* kald* |
        timeliness: tidlig* / sen sent sene senere |
        often: altid alltid / sommetider noen_ganger / sjælden* sjelden* / ofte |
        everything: alle alt hver / nogle noen |
        start: begynd* begynn* start* / slut* stop* ende* |
        buy: køb* kjøp* / sælg* selg* solgt* |
        win: vind* vinn* vant vandt / tab* tap* |
        arrive: ankom* / afgå* avgå* rejs* |
        accept: accept* godkend* godkjen* / afvis* avvis* |
        increase: stig* øg* øk* / fald* falt mindsk* reduk* |
        truth: sand* sann* / falsk* |
        correct: rigtig* riktig* korrekt* / forkert* feil |
        quality: god gode godt / dårlig* |
        better: bedre / værre verre |
        safe: sikker* sikre / farlig* usikker* |
        public: offentlig* / privat* hemmelig* |
        interior: inde inne intern* / ude ute ekstern* |
        above: over ovenfor / under nedenfor |
        front: foran / bag bak |
        near: nær / langt fjern* |
        compass: nord* / syd* sør* / øst* / vest* |
        teach: lærer* / elev* student* |
        employ: arbejdsgiver* arbeidsgiver* / ansat* ansatt* |
        medical: læge* lege* / patient* pasient* |
        marriage: gift* / ugift* single / skilt* |
        life: lever levende / død døde |
        health: rask frisk* / syg* syk* |
        wealth: rig rik rike / fattig* |
        strength: stærk* sterk* / svag* svak* |
        speed: hurtig* rask* / langsom* |
        weight: tung* / let lette lett |
        difficulty: svær* vanskelig* / let lett nem |
        fullness: fuld* full* / tom tomme tomt |
        price: dyr* / billig* |
        manual: manuel* / automatisk* |
        duty: frivillig* / obligatorisk* |
        meal: morgenmad frokost / aftensmad middag |
        voting: for / imod mot |
        friendship: ven venn* / fjende* fiende* |
        memory: husk* / glem* |
        colour: rød* / blå* / grøn* grønn* / gul* / orange / lilla / lyserød rosa / sort* svart* / hvid* hvit* / grå*
            / brun* |
        mood: glad* lykkelig* / trist* |
        love: elsker / hader hater |
        vote: ja / nej nei
    """,
    synonyms="elsker liker lide synes | bor lever | arbejder arbeider jobber | køber kjøper | bil bilen",
    doubtful="""
        en i de for at her under to tre fire fem ti ni far sin min var over der mars mai let som and time side tab
        lave ende sand bag mand den hun da man men time solo tres gang er rig ude lide hater null nul far
    """,
    starts="en et den det de han hun vi jeg brugeren brukeren min mit hans hendes",
    after_names="er var har havde bor arbejder arbeider drikker spiser taler går kender",
)
