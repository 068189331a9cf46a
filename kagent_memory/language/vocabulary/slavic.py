"""Russian and Polish; the telling words of Ukrainian and Czech."""

from __future__ import annotations

from typing import Final

from .language import Language

RUSSIAN: Final = Language(
    code="ru",
    letters="ыэъё",
    function_words="""
        и в во на не что он она оно они мы вы я ты с со к ко у о об от до из за по для при без над под про как но а же
        бы ли это этот эта эти тот та его её ее их мой моя мои твой наш ваш свой своя был была было были есть будет
        у_него когда где кто если уже еще ещё очень так же или
    """,
    light_words="""
        очень весьма довольно действительно также тоже уже ещё еще всегда часто сейчас теперь зовут называется берёт
        делает стоит каждый каждая каждую каждое примерно начал начала начинает пользователь пользователя человек
        говорит хочет много
    """,
    copulas="это есть был была было были является",
    conjunctions="и или да",
    articles="это этот эта эти тот та что который которая его её мой моя",
    prepositions="в во на с со к ко у о об от до из за по для при без над под перед после через между во_время когда",
    sources="из от с со",
    goals="в во на к ко до для",
    numbers="""
        ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать
        пятнадцать шестнадцать семнадцать восемнадцать девятнадцать двадцать
    """,
    more_numbers="""
        две:2 двух:2 двумя:2 двое:2 трёх:3 трех:3 тремя:3 трое:3 четырёх:4 четырех:4 пяти:5 шести:6 семи:7 восьми:8
        девяти:9 десяти:10 тридцать:30 сорок:40 пятьдесят:50 шестьдесят:60 семьдесят:70 восемьдесят:80 девяносто:90
        сто:100 двести:200 триста:300 пятьсот:500 тысяча:1000 тысячи:1000 тысяч:1000 тысячу:1000 миллион:1000000
        миллиона:1000000 миллионов:1000000 миллиард:1000000000 половина:0.5 половину:0.5 полтора:1.5 дюжина:12
        дважды:2 трижды:3 первый:1st первая:1st первую:1st первом:1st второй:2nd вторая:2nd вторую:2nd третий:3rd
        третья:3rd третью:3rd третьем:3rd четвёртый:4th пятый:5th
    """,
    months="""
        январь января январе | февраль февраля феврале | март марта марте | апрель апреля апреле | май мая мае | июнь
        июня июне | июль июля июле | август августа августе | сентябрь сентября сентябре | октябрь октября октябре |
        ноябрь ноября ноябре | декабрь декабря декабре
    """,
    weekdays="""
        понедельник понедельника понедельникам | вторник вторника вторникам | среда среду среды средам | четверг
        четверга четвергам | пятница пятницу пятницы пятницам | суббота субботу субботы субботам | воскресенье
        воскресенья
    """,
    dates="""
        yesterday: вчера | today: сегодня | tomorrow: завтра | overmorrow: послезавтра | ereyesterday: позавчера |
        spring: весна весной весну | summer: лето летом | autumn: осень осенью | winter: зима зимой зиму | weekend:
        выходные выходных | daily: ежедневно ежедневный | weekly: еженедельно еженедельный | monthly: ежемесячно
        ежемесячный | yearly: ежегодно ежегодный | mornings: утро утром утра | afternoons: днём днем | evenings: вечер
        вечером вечера | nights: ночь ночью ночи | noon: полдень | midnight: полночь
    """,
    nearness="""
        this: этот эта эту этом этой это | next: следующий следующая следующую следующем следующей будущем будущий |
        last: прошлый прошлая прошлую прошлом прошлой последний последнюю
    """,
    periods="неделя неделю неделе недели месяц месяце месяца год году года квартал раз выходные ночь сезон семестр",
    units="""
        second: секунда секунды секунд | minute: минута минуты минут | hour: час часа часов | day: день дня дней |
        week: неделя недели недель | month: месяц месяца месяцев | year: год года лет | time: раз раза | person:
        человека люди людей | percent: процент процента процентов | metre: метр метра метров | kilometre: километр
        километра километров км | mile: миля мили миль | gram: грамм грамма граммов | kilogram: кило килограмм
        килограмма килограммов кг | ton: тонна тонны тонн | litre: литр литра литров | usd: доллар доллара долларов |
        eur: евро | rub: рубль рубля рублей руб | inr: рупия рупии рупий | peso: песо | page: страница страницы
        страниц | degree: градус градуса градусов
    """,
    negations="не нет ни без никогда никто никого ничего нигде никакой нельзя невозможно ничто",
    concord=True,
    opposites="""
        open: открыт* откры* / закрыт* закры* |
        side: лев* / прав правый правая правой правую правое справа |
        before: до перед прежде / после потом |
        relative: брат* / сестр* / мать матери мама маму мамы / отец отца папа / сын* / доч* / бабушк* / дедушк* /
            тёт* тет* / дяд* / жен жена жены жену / муж мужа мужем |
        parent: родител* / дет* ребён* ребен* |
        gender: мужчин* мужск* / женщин* женск* |
        young_gender: мальчик* / девочк* |
        pronoun: он его ему / она её ее ей |
        allowed: разреш* можно позволен* / запрещ* запрет* нельзя |
        enabled: включ* актив* / выключ* отключ* неактив* |
        valid: действительн* / недействительн* |
        amount: больше более / меньше менее |
        height: высок* выше / низк* ниже |
        size: больш* крупн* / маленьк* мал мало |
        length: длинн* дольше / коротк* короче |
        age: стар* пожил* / молод* |
        newness: нов* / стар* |
        heat: горяч* жарк* / холодн* / тёпл* тепл* |
        timeliness: рано ранн* раньше / поздн* позже |
        sequence: сначала первы* / последн* наконец |
        often: всегда / иногда / редко / часто |
        everything: все всё весь вся каждый / некоторы* нескольк* |
        start: нача* начин* старт* / закончи* заверш* прекра* остан* конец конц* |
        buy: купи* покуп* / прода* |
        lend: одолжил_ дал_взаймы / занял_ взял_взаймы |
        win: выигр* побед* / проигр* |
        arrive: прибы* приех* приезж* прилет* / отбы* уех* уезж* отправ* вылет* |
        accept: приня* принима* одобр* / отклон* отказ* отверг* |
        increase: увелич* вырос* повы* раст* / уменьш* сниз* сниж* пониз* упал* |
        vertical: вверх наверх / вниз |
        truth: правд* истин* / лож* неправд* |
        correct: правильн* верн* / неправильн* неверн* ошиб* |
        quality: хорош* / плох* |
        better: лучш* / хуж* худш* |
        safe: безопасн* / опасн* |
        public: публичн* общественн* открыт* / частн* личн* секретн* |
        interior: внутр* / снаружи внешн* наружн* |
        above: над выше сверху / под ниже снизу |
        front: впереди перед / сзади за позади |
        near: близк* рядом около / далек* далёк* |
        compass: север* / юг юж* юга юге / восток* восточн* / запад* |
        teach: учител* преподава* / учени* студент* |
        employ: работодател* / работник* сотрудник* |
        medical: врач* доктор* / пациент* |
        rent: арендодател* / арендатор* |
        trade: покупател* / продав* |
        rank: начальник* руководител* / подчинён* подчинен* |
        marriage: женат* замужем / холост* незамужем / развед* / вдов* |
        life: жив живой живёт / мёртв* мертв* умер* |
        health: здоров* / больн* болен болеет |
        wealth: богат* / бедн* |
        strength: сильн* / слаб* |
        speed: быстр* / медленн* |
        weight: тяжел* тяжёл* / лёгк* легк* |
        difficulty: трудн* сложн* / легк* лёгк* прост* |
        fullness: полн* / пуст* |
        wetness: мокр* влажн* / сух* |
        cleanness: чист* / грязн* |
        loudness: громк* / тих* |
        brightness: светл* ярк* / тёмн* темн* |
        thickness: толст* / тонк* |
        width: широк* / узк* |
        depth: глубок* / мелк* |
        price: дорог* / дешев* дешёв* |
        charge: бесплатн* / платн* оплачен* |
        presence: присутств* / отсутств* |
        manual: вручную ручн* / автоматич* |
        duration: временн* / постоянн* |
        duty: добровольн* необязательн* / обязательн* |
        reading: чита* прочит* / писа* пиш* напис* |
        adding: добав* / удал* убра* |
        making: созда* постро* / уничтож* разруш* |
        including: включая / исключая кроме |
        bound: максим* / миним* |
        diet: веган* / вегетариан* |
        taste: сладк* / кисл* / горьк* / солён* солен* |
        meal: завтрак* / обед* / ужин* |
        voting: за / против |
        result: прибыл* / убыт* |
        sign: положительн* / отрицательн* |
        friendship: друг друзь* друга / враг* |
        question: спр* вопрос* / ответ* отвеч* |
        giving: дал дала дать даёт / получи* получа* взял* |
        hiring: нанял* нанима* / увол* |
        memory: помн* вспомн* / забы* |
        success: сдал* успешн* / провал* |
        colour: красн* / син* голуб* / зелён* зелен* / жёлт* желт* / оранжев* / фиолетов* / розов* / чёрн* черн* /
            бел* / сер* / коричнев* |
        mood: счастлив* рад рада / груст* печальн* |
        love: любит люблю любят обожа* / ненавид* |
        urban: город* / деревн* село |
        vote: да / нет
    """,
    synonyms="""
        любит обожает нравится |
        живёт живет проживает |
        работает трудится |
        купил приобрёл купила приобрела |
        машина автомобиль |
        врач доктор |
        говорит разговаривает |
        телефон мобильный
    """,
    starts="он она мы я они пользователь это мой моя его её",
    after_names="живёт живет любит работает пьёт ест говорит был была имеет знает руководит и",
)

POLISH: Final = Language(
    code="pl",
    letters="ąęłńśźż",
    function_words="""
        i w we na nie że on ona ono oni my wy ja ty z ze do od u o po za przez dla przy bez nad pod pro jak ale a czy
        to ten ta te tego jego jej ich mój moja nasz wasz swój swoja był była było byli jest są będzie się gdy gdzie
        kto jeśli już jeszcze bardzo tak lub albo oraz
    """,
    light_words="""
        bardzo dość naprawdę także też już jeszcze zawsze często teraz nazywa bierze robi kosztuje każdy każda każde
        około zaczął zaczęła zaczyna użytkownik użytkowniczka osoba mówi chce dużo
    """,
    copulas="jest są był była było byli to zostaje",
    conjunctions="i oraz lub albo",
    articles="to ten ta te co który która jego jej mój moja",
    prepositions="w we na z ze do od u o po za przez dla przy bez nad pod przed między podczas co gdy",
    sources="z ze od",
    goals="do na dla ku",
    agents="przez",
    numbers="""
        zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście dwanaście trzynaście
        czternaście piętnaście szesnaście siedemnaście osiemnaście dziewiętnaście dwadzieścia
    """,
    more_numbers="""
        dwie:2 dwoje:2 dwóch:2 dwaj:2 trzech:3 troje:3 czterech:4 pięciu:5 sześciu:6 siedmiu:7 trzydzieści:30
        czterdzieści:40 pięćdziesiąt:50 sześćdziesiąt:60 siedemdziesiąt:70 osiemdziesiąt:80 dziewięćdziesiąt:90
        sto:100 dwieście:200 trzysta:300 pięćset:500 tysiąc:1000 tysiące:1000 tysięcy:1000 milion:1000000
        miliony:1000000 pół:0.5 połowa:0.5 tuzin:12 pierwszy:1st pierwsza:1st drugi:2nd druga:2nd trzeci:3rd
        trzecia:3rd czwarty:4th piąty:5th
    """,
    months="""
        styczeń stycznia styczniu | luty lutego lutym | marzec marca marcu | kwiecień kwietnia kwietniu | maj maja
        maju | czerwiec czerwca czerwcu | lipiec lipca lipcu | sierpień sierpnia sierpniu | wrzesień września wrześniu
        | październik października październiku | listopad listopada listopadzie | grudzień grudnia grudniu
    """,
    weekdays="""
        poniedziałek poniedziałki | wtorek wtorki | środa środę środy | czwartek czwartki | piątek piątki | sobota
        sobotę soboty | niedziela niedzielę niedziele
    """,
    dates="""
        yesterday: wczoraj | today: dziś dzisiaj | tomorrow: jutro | overmorrow: pojutrze | ereyesterday: przedwczoraj
        | spring: wiosna wiosną | summer: lato latem | autumn: jesień jesienią | winter: zima zimą | weekend: weekend
        | daily: codziennie | weekly: tygodniowo cotygodniowy | monthly: miesięcznie | yearly: rocznie corocznie |
        mornings: rano rankiem | afternoons: popołudniu popołudnie | evenings: wieczór wieczorem | nights: noc nocą |
        noon: południe | midnight: północ
    """,
    nearness="""
        this: ten ta tę tym tej tego | next: następny następna następnym następnej przyszły przyszłym przyszłą | last:
        zeszły zeszłym zeszłą ostatni ostatnim ubiegły ubiegłym
    """,
    periods="tydzień tygodniu tygodnia miesiąc miesiącu roku rok kwartał weekend raz noc semestr",
    units="""
        second: sekunda sekundy sekund | minute: minuta minuty minut | hour: godzina godziny godzin godz | day: dzień
        dni | week: tydzień tygodnie tygodni | month: miesiąc miesiące miesięcy | year: rok lata lat | time: raz razy
        | person: osoby osób ludzi | percent: procent | metre: metr metry metrów | kilometre: kilometr kilometry
        kilometrów | gram: gram gramów | kilogram: kilo kilogram kilogramów | ton: tona tony ton | litre: litr litry
        litrów | usd: dolar dolary dolarów | eur: euro | pln: złoty złote złotych zł | rub: rubli | page: strona
        strony stron | degree: stopni
    """,
    negations="nie nigdy bez nikt nikogo nic żaden żadna żadnego żadnej ani nigdzie",
    concord=True,
    opposites="""
        open: otwart* otwier* / zamkn* zamyk* |
        side: lew* / praw* |
        before: przed przedtem / po potem |
        relative: brat* / siostr* / matk* mama mamy / ojc* ojciec tata / syn* / cór* / babci* / dziad* / cioc* ciot* /
            wuj* / żon* / mąż męż* |
        parent: rodzic* / dziec* |
        gender: mężczy* męsk* / kobiet* żeńsk* |
        young_gender: chłop* / dziewczyn* |
        allowed: dozwol* pozwol* wolno / zabroni* zakaz* |
        enabled: włącz* aktyw* / wyłącz* nieaktyw* |
        valid: ważn* / nieważn* |
        amount: więcej / mniej |
        height: wysok* wyż* / nisk* niż* |
        size: duż* wielk* / mał* |
        length: dług* / krótk* |
        age: star* / młod* |
        newness: now* / star* |
        heat: gorąc* / zimn* / ciepł* |
        timeliness: wcześn* / późn* |
        often: zawsze / czasem czasami / rzadko / często |
        everything: wszys* każdy / niektór* kilka |
        start: zacz* zaczyn* rozpocz* / kończ* skończ* zakończ* przesta* |
        buy: kup* / sprzeda* |
        lend: pożyczył_komuś / pożyczył_od |
        win: wygr* / przegr* |
        arrive: przyj* przyby* przylat* / wyj* odj* odlat* |
        accept: akcept* przyj* zatwierdz* / odrzuc* odmów* |
        increase: wzros* zwiększ* rośnie / spad* zmniejsz* |
        truth: prawd* / fałsz* nieprawd* |
        correct: poprawn* / niepoprawn* błędn* |
        quality: dobr* / zł* źl* |
        better: lepsz* lepiej / gorsz* gorzej |
        safe: bezpieczn* / niebezpieczn* |
        public: publiczn* / prywatn* tajn* |
        interior: wewnątrz wewnętrzn* / zewnątrz zewnętrzn* |
        above: nad powyżej / pod poniżej |
        near: blisk* / dalek* |
        compass: północ* / południ* / wschod* wschód / zachod* zachód |
        teach: nauczyciel* / uczeń uczni* student* |
        employ: pracodawc* / pracowni* |
        medical: lekarz* / pacjent* |
        marriage: żonat* zamężn* / kawaler panna / rozwied* rozwód / wdow* |
        life: żyj* żyw* / martw* zmarł* umarł* |
        health: zdrow* / chor* |
        wealth: bogat* / biedn* |
        strength: siln* / słab* |
        speed: szybk* / woln wolny wolno powoli |
        weight: ciężk* / lekk* |
        difficulty: trudn* / łatw* |
        fullness: pełn* / pust* |
        price: drog* / tani* |
        charge: darmow* bezpłatn* / płatn* |
        presence: obecn* / nieobecn* |
        manual: ręczn* / automat* |
        duration: tymczasow* / stał* |
        duty: dobrowoln* / obowiązk* |
        reading: czyt* / pis* napis* |
        adding: doda* / usu* |
        bound: maksym* / minim* |
        diet: wegań* weganin* / wegetaria* |
        meal: śniadan* / obiad* / kolac* |
        voting: za / przeciw |
        friendship: przyjaci* / wróg wrog* |
        memory: pamięt* / zapom* |
        colour: czerwon* / niebiesk* / zielon* / żółt* / pomarańcz* / fiolet* / różow* / czarn* / biał* / szar* /
            brąz* |
        mood: szczęśliw* / smutn* |
        love: kocha* uwielbia* / nienawid* |
        vote: tak / nie
    """,
    synonyms="""
        lubi uwielbia kocha |
        mieszka żyje |
        pracuje |
        kupił nabył kupiła nabyła |
        samochód auto |
        lekarz doktor
    """,
    doubtful="""
        i a do on to ten my for raz pod po za te we u o z no lata rok nic rano star star* tata wola man be ton ono
    """,
    starts="on ona my ja oni użytkownik to mój moja jego jej",
    after_names="jest był była ma mieszka pracuje lubi pije je mówi zna kieruje i",
)

UKRAINIAN: Final = Language(
    code="uk",
    letters="іїєґ",
    function_words="""
        і й та в у на не що він вона воно вони ми ви я ти з зі до від о про за по для при без над під як але а це є
        був була були дуже або
    """,
    copulas="це є був була були",
    conjunctions="і й та або",
    prepositions="в у на з зі до від о про за по для при без над під",
    sources="з зі від",
    goals="до в у на для",
    numbers="нуль один два три чотири п'ять шість сім вісім дев'ять десять",
    more_numbers="дві:2 двадцять:20 тридцять:30 сорок:40 п'ятдесят:50 сто:100 тисяча:1000 тисячі:1000 тисяч:1000",
    months="""
        січень січня | лютий лютого | березень березня | квітень квітня | травень травня | червень червня | липень
        липня | серпень серпня | вересень вересня | жовтень жовтня | листопад листопада | грудень грудня
    """,
    weekdays="понеділок | вівторок | середа середу | четвер | п'ятниця п'ятницю | субота суботу | неділя неділю",
    dates="yesterday: вчора | today: сьогодні | tomorrow: завтра",
    negations="не ні без ніколи ніхто нічого немає жоден жодна",
    concord=True,
    opposites="""
        open: відкри* відчин* / закри* зачин* |
        side: лів* / прав* |
        before: до перед / після |
        relative: брат* / сестр* / мати мам* / батьк* / син* / доньк* доч* |
        allowed: дозвол* / заборон* |
        enabled: увімк* / вимк* |
        love: люб* / ненавид* |
        colour: червон* / син* / зелен* / чорн* / біл* |
        heat: гаряч* / холодн* |
        size: велик* / мал* мален* |
        buy: купи* / прода* |
        amount: більше / менше
    """,
    starts="він вона ми я вони це",
)

CZECH: Final = Language(
    code="cs",
    letters="řěůťď",
    function_words="""
        a i v ve na že on ona ono oni my vy já ty s se z ze k ke u o od do po za pro při bez nad pod jak ale to ten ta
        je jsou byl byla bylo byli být má mají když kde kdo jestli už ještě velmi tak nebo
    """,
    copulas="je jsou byl byla bylo to",
    conjunctions="a i nebo",
    prepositions="v ve na s z ze k ke u o od do po za pro při bez nad pod před mezi",
    sources="z ze od",
    goals="do k ke na pro",
    numbers="nula jeden dva tři čtyři pět šest sedm osm devět deset",
    more_numbers="dvě:2 dvacet:20 třicet:30 čtyřicet:40 padesát:50 sto:100 tisíc:1000",
    months="""
        leden ledna lednu | únor února | březen března březnu | duben dubna dubnu | květen května květnu | červen
        června červnu | červenec července červenci | srpen srpna srpnu | září | říjen října říjnu | listopad listopadu
        | prosinec prosince prosinci
    """,
    weekdays="pondělí | úterý | středa středu | čtvrtek | pátek | sobota sobotu | neděle neděli",
    dates="yesterday: včera | today: dnes | tomorrow: zítra",
    negations="""
        nemá* nejí* nepije* nejde* není nebyl* nechce* nemůže* neví* nezná* nekouří* nepracuje* nebydlí* ne nejsou
        nikdy bez nikdo nic žádný žádná žádné ani nemá nemají
    """,
    concord=True,
    opposites="""
        open: otevř* otevír* / zavř* zavír* |
        side: lev* vlevo / prav* vpravo |
        before: před / po |
        relative: bratr* / sestr* / matk* máma / otec otce táta / syn* / dcer* |
        allowed: povolen* / zakáz* |
        enabled: zapn* / vypn* |
        colour: červen* / modr* / zelen* / čern* / bíl* |
        size: velk* / mal* |
        buy: koup* / prod* |
        amount: více / méně
    """,
    doubtful="a i o do to on my ten na za pro no se be ne s po od pod",
    starts="on ona my já oni uživatel to",
)
