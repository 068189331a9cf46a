"""Italian."""

from __future__ import annotations

from typing import Final

from .language import Language

ITALIAN: Final = Language(
    code="it",
    letters="ìò",
    function_words="""
        il lo la i gli le un uno una e o ma non è sono era erano essere ha hanno aveva avere si mi ti ci vi lui lei
        loro noi voi io tu suo sua suoi sue mio mia nostro vostro di del della dei delle dello degli al alla ai alle
        allo in nel nella nei con per da dal dalla su sul sulla tra fra che chi cui quando dove come se più molto
        anche questo questa quello quella
    """,
    light_words="""
        molto molta tanto assai davvero anche ancora già sempre adesso attualmente chiama chiamato chiamata prende
        prendere fa fare costa costano ogni circa inizia iniziato comincia utente persona dice vuole vorrebbe bene
        poco
    """,
    copulas="è sono era erano sarà resta rimane diventa chiama",
    conjunctions="e ed o oppure",
    articles="il lo la i gli le un uno una che suo sua mio mia",
    prepositions="""
        a al alla ai alle in nel nella nei nelle con di del della dei per da dal dalla dai su sul sulla tra fra
        durante prima dopo contro senza fino ogni quando se perché
    """,
    sources="da dal dalla dai",
    goals="a al alla per verso",
    numbers="""
        zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici
        diciassette diciotto diciannove venti
    """,
    more_numbers="""
        trenta:30 quaranta:40 cinquanta:50 sessanta:60 settanta:70 ottanta:80 novanta:90 cento:100 duecento:200
        trecento:300 cinquecento:500 mille:1000 duemila:2000 mila:1000 milione:1000000 milioni:1000000 mezzo:0.5
        mezza:0.5 doppio:2 dozzina:12 primo:1st prima_volta:1st secondo:2nd seconda:2nd terzo:3rd terza:3rd quarto:4th
        quarta:4th quinto:5th
    """,
    tens_joined="",
    months="""
        gennaio | febbraio | marzo | aprile | maggio | giugno | luglio | agosto | settembre | ottobre | novembre |
        dicembre
    """,
    weekdays="lunedì | martedì | mercoledì | giovedì | venerdì | sabato | domenica",
    dates="""
        yesterday: ieri | today: oggi | tomorrow: domani | overmorrow: dopodomani | ereyesterday: l'altroieri |
        spring: primavera | summer: estate | autumn: autunno | winter: inverno | weekend: finesettimana | daily:
        quotidiano quotidiana quotidianamente giornaliero | weekly: settimanale settimanalmente | monthly: mensile
        mensilmente | yearly: annuale annualmente | mornings: mattina mattino mattine | afternoons: pomeriggio
        pomeriggi | evenings: sera sere | nights: notte notti | noon: mezzogiorno | midnight: mezzanotte | christmas:
        natale | easter: pasqua
    """,
    nearness="""
        this: questo questa | next: prossimo prossima prossimi prossime seguente | last: scorso scorsa ultimo ultima
        passato passata precedente
    """,
    periods="settimana mese anno trimestre volta notte stagione semestre weekend",
    units="""
        second: secondo secondi | minute: minuto minuti | hour: ora ore | day: giorno giorni | week: settimana
        settimane | month: mese mesi | year: anno anni | time: volta volte | person: persona persone | percent:
        percento | metre: metro metri | kilometre: chilometro chilometri | centimetre: centimetro centimetri | mile:
        miglio miglia | gram: grammo grammi | kilogram: chilo chili chilogrammo chilogrammi | ton: tonnellata
        tonnellate | pound: libbra libbre sterlina sterline | litre: litro litri | usd: dollaro dollari | eur: euro |
        chf: franco franchi | rub: rublo rubli | inr: rupia rupie | page: pagina pagine | degree: grado gradi | star:
        stella stelle | cup: tazza tazze
    """,
    negations="non senza nessuno nessuna nessun niente nulla mai né neanche nemmeno neppure no",
    concord=True,
    opposites="""
        open: apert* apre aprono aprire / chius* chiud* |
        side: sinistr* / destr* |
        before: prima / dopo poi |
        relative: fratell* / sorell* / madre mamma / padre papà / figlio / figlia / nonna / nonno / zia / zio / moglie
            / marito / cugin* |
        parent: genitor* / figli bambin* |
        gender: uomo uomini maschi* / donna donne femmin* |
        young_gender: ragazzo ragazzi / ragazza ragazze |
        allowed: permess* consentit* permett* autorizz* / vietat* proibi* |
        enabled: attiv* abilit* acces* / disattiv* disabilit* spent* inattiv* |
        valid: valid* / invalid* non_valid* |
        amount: più / meno |
        height: alto alta alti alte / basso bassa bassi basse |
        size: grand* / piccol* |
        length: lung* / cort* brev* |
        age: vecchi* anzian* / giovan* |
        newness: nuov* / vecchi* usat* |
        heat: cald* / fredd* / tiepid* / fresc* |
        timeliness: presto / tardi |
        sequence: primo prima / ultimo ultima |
        often: sempre / talvolta volte / raramente / spesso |
        everything: tutto tutti tutta tutte ogni / alcun* qualche divers* |
        start: inizi* cominci* / finisc* fini* termin* smett* |
        buy: compr* acquist* / vend* |
        lend: prest* / chiede_in_prestito |
        win: vinc* vinto vittori* / perd* perso sconfitt* |
        arrive: arriv* / part parte partire partito partenz* |
        accept: accett* approv* / rifiut* respin* |
        increase: aument* sale salito cresc* / diminu* scend* riduc* ridott* |
        vertical: su! sopra / giù sotto |
        truth: ver vero vera verità / fals* |
        correct: corrett* giust* / sbagliat* errat* |
        quality: buon* bene / cattiv* male |
        better: miglior* meglio / peggior* peggio |
        safe: sicur* / pericolos* |
        public: pubblic* / privat* segret* |
        interior: dentro intern* / fuori estern* |
        above: sopra / sotto |
        front: davanti / dietro |
        near: vicin* / lontan* |
        compass: nord / sud / est! / ovest |
        teach: insegnant* professor* maestr* insegn* / student* alunn* impar* |
        employ: datore / dipendent* impiegat* |
        medical: medic* dottor* / pazient* |
        rent: proprietari* / inquilin* affittuari* |
        trade: acquirent* / venditor* |
        rank: capo / subordinat* |
        marriage: sposat* / single celib* nubil* / divorziat* / vedov* |
        life: viv* / mort* |
        health: san* / malat* |
        wealth: ricc* / pover* |
        strength: fort* / debol* |
        speed: veloc* rapid* / lent* |
        weight: pesant* / legger* |
        difficulty: difficil* / facil* |
        fullness: pien* / vuot* |
        wetness: bagnat* umid* / asciutt* secc* |
        cleanness: pulit* / sporc* |
        loudness: rumoros* / silenzios* |
        brightness: chiar* luminos* / scur* |
        width: larg* / strett* |
        price: car caro cara costos* / economic* |
        charge: gratis gratuit* / pagament* pagat* |
        presence: present* / assent* |
        manual: manual* / automatic* |
        duration: temporane* / permanent* |
        duty: facoltativ* opzional* / obbligatori* |
        reading: legg* letto / scriv* scritto |
        transfer: import* / esport* |
        adding: aggiung* aggiunt* / rimuov* rimoss* tolt* elimin* |
        making: crea* costru* / distru* |
        including: inclus* includ* / esclus* esclud* |
        bound: massim* / minim* |
        diet: vegan* / vegetarian* |
        taste: dolc* / salat* / amar* / acid* |
        meal: colazione / pranzo / cena |
        voting: favore / contro |
        result: profitt* guadagn* / perdit* |
        taxes: lordo / netto |
        sign: positiv* / negativ* |
        friendship: amic* / nemic* |
        question: chied* domand* chiesto / rispond* rispost* |
        giving: dà dare dato / ricev* prend* |
        hiring: assum* assunt* / licenzi* |
        memory: ricord* / dimentic* |
        success: riusc* superat* / fallit* bocciat* |
        colour: ross* / blu azzurr* / verd* / giall* / arancion* / viola / rosa / ner nero nera / bianc* / grigi* /
            marron* |
        mood: felic* content* / trist* infelic* |
        love: ama amano adora* / odia* |
        urban: città / campagna |
        vote: sì / no
    """,
    synonyms="""
        piace ama adora gradisce |
        abita vive risiede |
        lavora impiegato |
        compra acquista comprato acquistato |
        macchina auto automobile |
        telefono cellulare |
        medico dottore |
        inizia comincia |
        parla discute
    """,
    doubtful="""
        i a e o in per come due sei sale est! est no male presto dove non mai sera ora ore zero fa san car estate sole
        da la un le dice cento si note su! part valid fine ci vi di da mezzo grand con primo mi ti chi
    """,
    starts="il lo la i gli le un uno una io lui lei l'utente utente mio suo questo questa",
    after_names="è ha abita vive lavora beve mangia parla va dirige conosce era",
)
