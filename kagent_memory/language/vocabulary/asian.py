"""Turkish, Arabic, Hindi; the telling words of Persian, Hebrew, Indonesian, Vietnamese and Thai."""

from __future__ import annotations

from typing import Final

from .language import Language

TURKISH: Final = Language(
    code="tr",
    letters="ışğ",
    function_words="""
        ve bir bu şu o da de ile için gibi kadar ama fakat çok daha en mi mı mu mü ki ne kim nerede nasıl ben sen biz
        siz onlar onun benim senin bizim her hem ya veya ise var yok sonra önce olarak olan oldu üzere göre
    """,
    light_words="""
        çok oldukça gerçekten ayrıca hâlâ zaten hep sık şimdi adı adlı her yaklaşık başladı başlıyor kullanıcı
        kullanıcının kişi diyor istiyor biraz
    """,
    copulas="dır dir oldu",
    conjunctions="ve ile veya ya",
    agents="tarafından",
    numbers="""
        sıfır bir iki üç dört beş altı yedi sekiz dokuz on onbir oniki onüç ondört onbeş onaltı onyedi onsekiz ondokuz
        yirmi
    """,
    more_numbers="""
        otuz:30 kırk:40 elli:50 altmış:60 yetmiş:70 seksen:80 doksan:90 yüz:100 ikiyüz:200 beşyüz:500 bin:1000
        milyon:1000000 milyar:1000000000 yarım:0.5 buçuk:0.5 çift:2 düzine:12 birinci:1st ikinci:2nd üçüncü:3rd
        dördüncü:4th beşinci:5th
    """,
    months="""
        ocak ocakta | şubat şubatta | mart martta | nisan nisanda | mayıs mayısta | haziran haziranda | temmuz
        temmuzda | ağustos ağustosta | eylül eylülde | ekim ekimde | kasım kasımda | aralık aralıkta
    """,
    weekdays="""
        pazartesi pazartesileri | salı salıları | çarşamba çarşambaları | perşembe perşembeleri | cuma cumaları |
        cumartesi cumartesileri | pazar pazarları
    """,
    dates="""
        yesterday: dün | today: bugün | tomorrow: yarın | spring: ilkbahar ilkbaharda baharda | summer: yaz yazın |
        autumn: sonbahar sonbaharda | winter: kış kışın | weekend: haftasonu | daily: günlük | weekly: haftalık |
        monthly: aylık | yearly: yıllık | mornings: sabah sabahları | afternoons: öğleden | evenings: akşam akşamları
        | nights: gece geceleri | noon: öğle öğlen | midnight: geceyarısı
    """,
    nearness="this: bu | next: gelecek önümüzdeki sonraki | last: geçen geçtiğimiz önceki",
    periods="hafta haftaya ay ayda yıl sene çeyrek gece kez sezon dönem",
    units="""
        second: saniye | minute: dakika | hour: saat | day: gün günü | week: hafta | month: ay | year: yıl yaşında
        sene | time: kez kere defa | person: kişi kişilik | percent: yüzde | metre: metre | kilometre: kilometre |
        mile: mil | gram: gram | kilogram: kilo kilogram | ton: ton | litre: litre | usd: dolar | eur: euro avro |
        try: lira | page: sayfa | degree: derece | star: yıldız | cup: bardak fincan
    """,
    negations="değil yok asla hiç hayır hiçbir kimse",
    negation_forms="""
        .miyor* .mıyor* .muyor* .müyor* .amıyor* .emiyor* ..mez ..maz ..mezsin* ..mazsın* ..mezler ..mazlar ..mezdi*
        ..mazdı* ..medi ..madı ..medim ..madım ..medin ..madın ..medik ..madık ..mediler ..madılar ..mediniz ..madınız
        ..memiş* ..mamış* ..meyece* ..mayaca* ..memeli* ..mamalı* ...siz ...sız ...suz ...süz ...meden ...madan ..mem
    """,
    concord=True,
    opposites="""
        open: açık açtı açılır açar açılı* / kapalı kapat* kapan* |
        side: sol* / sağda sağa sağ sağdaki |
        before: önce / sonra |
        relative: kardeş* erkek_kardeş / kız_kardeş abla* / anne* / baba* / oğlu oğul* / kızı / büyükanne* nine* /
            büyükbaba* dede* / teyze* hala* / amca* dayı* / karısı eşi / kocası |
        gender: erkek* adam* / kadın* |
        allowed: izin* serbest* / yasak* |
        enabled: etkin* aktif* / devre_dışı pasif* |
        power: açık / kapalı |
        valid: geçerli* / geçersiz* |
        amount: fazla çok / az |
        height: yüksek* / alçak* düşük* |
        size: büyük* / küçük* |
        length: uzun* / kısa* |
        age: yaşlı* / genç* |
        newness: yeni* / eski* |
        heat: sıcak* / soğuk* / ılık* |
        timeliness: erken* / geç |
        sequence: ilk / son |
        often: daima her_zaman / bazen / nadiren / sık_sık |
        everything: bütün tüm hepsi herkes / bazı birkaç |
        start: başla* / bit* dur* son_ver* |
        buy: satın_al* aldı alıyor / sat satt* satıyor satar |
        win: kazan* / kaybet* kaybed* |
        arrive: var gel* ulaş* / ayrıl* git* kalk* |
        accept: kabul* onay* / red redd* |
        increase: art* yüksel* / azal* düş* |
        truth: doğru* / yanlış* |
        quality: iyi* / kötü* |
        safe: güvenli* / tehlikeli* |
        public: kamu* / özel* gizli* |
        interior: iç* içeri* / dış* |
        above: üst* / alt altta altın* |
        near: yakın* / uzak* |
        compass: kuzey* / güney* / doğu* / batı* |
        teach: öğretmen* / öğrenci* |
        employ: işveren* / işçi* çalışan* |
        medical: doktor* hekim* / hasta hastası |
        rent: ev_sahibi / kiracı* |
        trade: alıcı* / satıcı* |
        marriage: evli* / bekar* bekâr* / boşan* / dul |
        life: yaşıyor canlı* / ölü öldü |
        health: sağlıklı* / hasta* |
        wealth: zengin* / fakir* yoksul* |
        strength: güçlü* / zayıf* |
        speed: hızlı* / yavaş* |
        weight: ağır* / hafif* |
        difficulty: zor* / kolay* |
        fullness: dolu* / boş* |
        wetness: ıslak* / kuru* |
        cleanness: temiz* / kirli* |
        brightness: aydınlık* / karanlık* |
        price: pahalı* / ucuz* |
        charge: ücretsiz* bedava* / ücretli* |
        manual: elle / otomatik* |
        duty: isteğe_bağlı / zorunlu* |
        reading: oku* / yaz* yazıyor |
        adding: ekle* / sil* kaldır* |
        diet: vegan* / vejetaryen* |
        taste: tatlı* / ekşi* / acı* / tuzlu* |
        meal: kahvaltı* / öğle_yemeği / akşam_yemeği |
        friendship: arkadaş* dost* / düşman* |
        memory: hatırla* / unut* |
        colour: kırmızı* / mavi* / yeşil* / sarı* / turuncu* / mor / pembe* / siyah* / beyaz* / gri* / kahverengi* |
        mood: mutlu* / üzgün* mutsuz* |
        love: sev* / nefret* |
        sugar: şekerli / şekersiz |
        milk: sütlü / sütsüz |
        vote: evet / hayır
    """,
    synonyms="seviyor sever beğeniyor | yaşıyor oturuyor | araba otomobil | doktor hekim | telefon cep",
    doubtful="""
        on bin bir o da de en var ya o ben ne mi her ay altı yaz salı pazar mart kez ton mor as sat son art bit son
        dur sol git red yok son alt as red iç
    """,
    starts="kullanıcı o bu ben biz",
    after_names="ve ile",
)

ARABIC: Final = Language(
    code="ar",
    function_words="""
        في من إلى على عن مع هذا هذه ذلك تلك التي الذي الذين هو هي هم نحن أنا أنت كان كانت يكون قد ثم أو و أن إن لأن كل
        بعض عند بين حتى منذ بعد قبل كما مثل جدا أيضا لكن إذا
    """,
    light_words="جدا كثيرا أيضا دائما الآن حاليا كل يسمى اسمه تسمى المستخدم مستخدم شخص يقول يريد حوالي بدأ يبدأ",
    copulas="هو هي كان كانت يكون",
    conjunctions="و أو",
    prepositions="في من إلى على عن مع عند بين حتى منذ بعد قبل كل",
    sources="من",
    goals="إلى",
    numbers="صفر واحد اثنان ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة",
    more_numbers="""
        اثنين:2 اثنتان:2 اثنتين:2 ثلاث:3 أربع:4 خمس:5 ست:6 سبع:7 ثماني:8 ثمان:8 تسع:9 عشر:10 عشرون:20 عشرين:20
        ثلاثون:30 ثلاثين:30 أربعون:40 أربعين:40 خمسون:50 خمسين:50 ستون:60 ستين:60 سبعون:70 سبعين:70 ثمانون:80
        ثمانين:80 تسعون:90 تسعين:90 مائة:100 مئة:100 مئتان:200 مئتين:200 ألف:1000 آلاف:1000 ألفان:2000 ألفين:2000
        مليون:1000000 نصف:0.5 الأول:1st الأولى:1st الثاني:2nd الثانية:2nd الثالث:3rd الثالثة:3rd الرابع:4th الخامس:5th
    """,
    months="يناير | فبراير | مارس | أبريل | مايو | يونيو | يوليو | أغسطس | سبتمبر | أكتوبر | نوفمبر | ديسمبر",
    weekdays="الاثنين الإثنين | الثلاثاء | الأربعاء | الخميس | الجمعة | السبت | الأحد",
    dates="""
        yesterday: أمس | today: اليوم | tomorrow: غدا غداً | spring: الربيع | summer: الصيف | autumn: الخريف | winter:
        الشتاء | daily: يوميا يومياً | weekly: أسبوعيا أسبوعياً | monthly: شهريا شهرياً | yearly: سنويا سنوياً | mornings:
        صباحا الصباح صباحاً | evenings: مساء المساء مساءً | nights: الليل ليلا ليلاً | noon: الظهر ظهرا | midnight:
        منتصف_الليل
    """,
    nearness="""
        this: هذا هذه | next: القادم القادمة المقبل المقبلة التالي التالية | last: الماضي الماضية السابق السابقة
    """,
    periods="الأسبوع أسبوع الشهر شهر السنة سنة العام عام الليلة المرة",
    units="""
        second: ثانية ثوان ثواني | minute: دقيقة دقائق | hour: ساعة ساعات | day: يوم أيام يوما | week: أسبوع أسابيع |
        month: شهر أشهر شهور | year: سنة سنوات عام أعوام عاما | time: مرة مرات | person: شخص أشخاص | metre: متر أمتار
        | kilometre: كيلومتر كيلومترات كم | gram: غرام | kilogram: كيلو كيلوغرام | litre: لتر | usd: دولار دولارات |
        eur: يورو | riyal: ريال ريالات | dirham: درهم دراهم | dinar: دينار دنانير | peso: بيزو | inr: روبية | page:
        صفحة صفحات
    """,
    negations="لا ليس ليست لست ليسوا لم لن ما غير بدون دون عدم أبدا مطلقا ولا فلا بلا ولم ولن لا_أحد",
    concord=True,
    opposites="""
        open: مفتوح* فتح* يفتح تفتح المفتوح* / مغلق* أغلق* يغلق تغلق المغلق* |
        side: يسار* اليسار* أيسر الأيسر اليسرى / يمين* اليمين* أيمن الأيمن اليمنى |
        before: قبل / بعد |
        relative: أخ أخوه أخي أخوها شقيق* الأخ / أخت* شقيقة الأخت / أم والدة* أمه أمي / أب والد والده أبي / ابن ابنه /
            ابنة ابنته بنت / جدة جدته / جد جده / عمة خالة / عم خال / زوجة زوجته / زوج زوجها |
        gender: رجل الرجل ذكر / امرأة المرأة أنثى |
        young_gender: ولد / بنت |
        allowed: مسموح* يسمح يجوز / ممنوع* محظور* يمنع |
        enabled: مفعل مفعّل تفعيل نشط / معطل معطّل تعطيل |
        valid: صالح* / باطل* |
        amount: أكثر / أقل |
        height: عال عالي عالية مرتفع* / منخفض* |
        size: كبير* الكبير* / صغير* الصغير* |
        length: طويل* / قصير* |
        age: كبير* عجوز / شاب* صغير* |
        newness: جديد* الجديد* / قديم* القديم* |
        heat: حار* ساخن* الساخن* / بارد* البارد* / دافئ* |
        timeliness: مبكر* / متأخر* |
        often: دائما دائماً / أحيانا أحياناً / نادرا نادراً / غالبا غالباً |
        everything: كل جميع / بعض |
        start: بدأ* يبدأ تبدأ / انتهى ينتهي تنتهي توقف* |
        buy: اشترى يشتري شراء اشترت / باع يبيع بيع باعت |
        win: فاز* ربح* / خسر* |
        arrive: وصل* يصل / غادر* يغادر |
        accept: قبل وافق* / رفض* يرفض |
        increase: زاد* ارتفع* يزيد / نقص* انخفض* يقل |
        truth: صحيح* / خطأ خاطئ* |
        quality: جيد* / سيئ* |
        better: أفضل / أسوأ |
        safe: آمن* / خطير* خطر |
        public: عام عامة / خاص خاصة سري* |
        interior: داخل* الداخل / خارج* الخارج |
        above: فوق / تحت |
        front: أمام / خلف وراء |
        near: قريب* / بعيد* |
        compass: شمال* الشمال* / جنوب* الجنوب* / شرق* الشرق* / غرب* الغرب* |
        teach: معلم* مدرس* أستاذ* / طالب* تلميذ* |
        medical: طبيب* / مريض* |
        trade: مشتر مشتري / بائع* |
        marriage: متزوج* / أعزب عزباء / مطلق* / أرمل* |
        life: حي حية يعيش / ميت* مات توفي |
        wealth: غني* / فقير* |
        strength: قوي* / ضعيف* |
        speed: سريع* / بطيء* |
        weight: ثقيل* / خفيف* |
        difficulty: صعب* / سهل* |
        fullness: ممتلئ* مليء / فارغ* |
        price: غال غالي غالية / رخيص* |
        charge: مجان* / مدفوع* |
        diet: نباتي* / |
        taste: حلو* / مالح* / مر |
        meal: الإفطار فطور / الغداء غداء / العشاء عشاء |
        friendship: صديق* / عدو* |
        memory: يتذكر تذكر / ينسى نسي |
        colour: أحمر حمراء الأحمر الحمراء / أزرق زرقاء الأزرق الزرقاء / أخضر خضراء الأخضر / أصفر صفراء / أسود سوداء
            الأسود / أبيض بيضاء الأبيض / رمادي* / بني |
        mood: سعيد* / حزين* |
        love: يحب تحب أحب / يكره تكره أكره |
        vote: نعم / لا
    """,
    synonyms="يحب تحب يفضل | يعيش يسكن يقيم تعيش تسكن | سيارة | طبيب دكتور",
)

HINDI: Final = Language(
    code="hi",
    function_words="""
        का की के को से में पर है हैं था थी थे और या लेकिन यह वह ये वे हम मैं तुम आप उस इस उसका उसकी उनके अपने अपनी
        अपना ने भी ही तो कि जो जब तक कर रहा रही रहे हो होता होती गया गयी गई किया कुछ लिए साथ एक बहुत
    """,
    light_words="बहुत काफी भी हमेशा अब अभी नाम हर लगभग उपयोगकर्ता व्यक्ति कहता चाहता शुरू रहा रही रहे रहता",
    copulas="है हैं था थी थे",
    conjunctions="और या",
    prepositions="ने को से में पर का की के तक",
    numbers="शून्य एक दो तीन चार पाँच छह सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस बीस",
    more_numbers="""
        पांच:5 छः:6 छे:6 पन्द्रह:15 इक्कीस:21 बाईस:22 तेईस:23 चौबीस:24 पच्चीस:25 तीस:30 पैंतीस:35 चालीस:40 पैंतालीस:45
        पचास:50 साठ:60 सत्तर:70 अस्सी:80 नब्बे:90 सौ:100 हज़ार:1000 हजार:1000 लाख:100000 करोड़:10000000 आधा:0.5 आधे:0.5
        डेढ़:1.5 ढाई:2.5 दोगुना:2 पहला:1st पहली:1st पहले_दिन:1st दूसरा:2nd दूसरी:2nd तीसरा:3rd तीसरी:3rd चौथा:4th
        पाँचवाँ:5th
    """,
    months="""
        जनवरी | फरवरी | मार्च | अप्रैल | मई | जून | जुलाई | अगस्त | सितंबर सितम्बर | अक्टूबर | नवंबर नवम्बर | दिसंबर दिसम्बर
    """,
    weekdays="सोमवार | मंगलवार | बुधवार | गुरुवार बृहस्पतिवार | शुक्रवार | शनिवार | रविवार इतवार",
    dates="""
        yesterday: कल | today: आज | spring: वसंत | summer: गर्मी गर्मियों | winter: सर्दी सर्दियों | daily: रोज़ रोज
        प्रतिदिन | weekly: साप्ताहिक | monthly: मासिक | yearly: वार्षिक | mornings: सुबह | afternoons: दोपहर | evenings:
        शाम | nights: रात
    """,
    nearness="this: इस यह | next: अगले अगला अगली आने_वाले | last: पिछले पिछला पिछली गत",
    periods="हफ्ते हफ़्ते सप्ताह महीने माह साल वर्ष बार रात तिमाही",
    units="""
        second: सेकंड | minute: मिनट | hour: घंटा घंटे घंटों | day: दिन दिनों | week: हफ्ता हफ्ते हफ़्ते सप्ताह | month:
        महीना महीने | year: साल वर्ष | time: बार | person: लोग लोगों व्यक्ति | percent: प्रतिशत | metre: मीटर | kilometre:
        किलोमीटर किमी | gram: ग्राम | kilogram: किलो किलोग्राम | litre: लीटर | usd: डॉलर | eur: यूरो | inr: रुपया रुपये
        रुपए | peso: पेसो | page: पृष्ठ पन्ने
    """,
    negations="नहीं न ना मत बिना कभी_नहीं कोई_नहीं बगैर",
    concord=True,
    opposites="""
        open: खुला खुली खुले खोल* खुल* / बंद |
        side: बाएँ बाएं बायाँ बाईं / दाएँ दाएं दायाँ दाईं |
        before: पहले / बाद |
        relative: भाई / बहन / माँ मां माता / पिता पापा / बेटा बेटे पुत्र / बेटी पुत्री / दादी नानी / दादा नाना / चाची
            मौसी बुआ / चाचा मामा / पत्नी / पति |
        gender: पुरुष आदमी / महिला औरत स्त्री |
        young_gender: लड़का लड़के / लड़की |
        allowed: अनुमति इजाज़त / मना वर्जित निषिद्ध प्रतिबंधित |
        enabled: चालू सक्रिय सक्षम / बंद निष्क्रिय अक्षम |
        valid: वैध मान्य / अवैध अमान्य |
        amount: ज़्यादा ज्यादा अधिक / कम |
        height: ऊँचा ऊंचा ऊँची उच्च / नीचा निम्न |
        size: बड़ा बड़ी बड़े / छोटा छोटी छोटे |
        length: लंबा लंबी लंबे / छोटा छोटी |
        age: बूढ़ा बूढ़ी बुजुर्ग / जवान युवा |
        newness: नया नई नए / पुराना पुरानी पुराने |
        heat: गर्म गरम / ठंडा ठंडी ठंडे / गुनगुना |
        timeliness: जल्दी / देर |
        often: हमेशा / कभी-कभी / अक्सर |
        everything: सब सभी हर / कुछ |
        start: शुरू आरंभ / ख़त्म खत्म समाप्त बंद |
        buy: ख़रीद* खरीद* / बेच* |
        win: जीत* / हार* |
        arrive: पहुँच* पहुंच* आया आई / निकल* रवाना गया गई |
        accept: स्वीकार मंज़ूर / अस्वीकार नामंज़ूर |
        increase: बढ़* / घट* |
        truth: सच सही / झूठ ग़लत गलत |
        quality: अच्छा अच्छी अच्छे / बुरा बुरी ख़राब खराब |
        safe: सुरक्षित / ख़तरनाक खतरनाक असुरक्षित |
        public: सार्वजनिक / निजी गुप्त |
        interior: अंदर भीतर / बाहर |
        above: ऊपर / नीचे |
        front: आगे सामने / पीछे |
        near: पास निकट नज़दीक / दूर |
        compass: उत्तर / दक्षिण / पूर्व पूरब / पश्चिम |
        teach: शिक्षक अध्यापक / छात्र विद्यार्थी |
        medical: डॉक्टर चिकित्सक / मरीज़ मरीज रोगी |
        trade: ख़रीदार खरीदार / विक्रेता |
        marriage: विवाहित शादीशुदा / अविवाहित कुंवारा / तलाकशुदा / विधवा विधुर |
        life: जीवित ज़िंदा / मृत मर |
        wealth: अमीर धनी / ग़रीब गरीब |
        strength: मज़बूत मजबूत ताकतवर / कमज़ोर कमजोर |
        speed: तेज़ तेज / धीमा धीरे |
        weight: भारी / हल्का हल्की |
        difficulty: कठिन मुश्किल / आसान सरल |
        fullness: भरा भरी / ख़ाली खाली |
        wetness: गीला गीली / सूखा सूखी |
        price: महंगा महँगा महंगी / सस्ता सस्ती |
        charge: मुफ़्त मुफ्त / सशुल्क |
        diet: शाकाहारी / मांसाहारी / वीगन |
        taste: मीठा मीठी / खट्टा / कड़वा / नमकीन |
        meal: नाश्ता / दोपहर_का_खाना / रात_का_खाना |
        friendship: दोस्त मित्र / दुश्मन शत्रु |
        memory: याद / भूल* |
        colour: लाल / नीला नीली नीले / हरा हरी हरे / पीला पीली / नारंगी / बैंगनी / गुलाबी / काला काली काले / सफ़ेद सफेद
            / भूरा भूरी |
        mood: ख़ुश खुश / दुखी उदास |
        love: पसंद प्यार / नापसंद नफ़रत नफरत |
        vote: हाँ / नहीं
    """,
    synonyms="पसंद प्यार | रहता रहती निवास | कार गाड़ी | डॉक्टर चिकित्सक",
)

PERSIAN: Final = Language(
    code="fa",
    letters="پچژگ",
    function_words="""
        و در به از که این آن را با برای است هست بود شد می‌کند تا یا هم او من ما شما آنها یک بر نیز اما خود
    """,
    copulas="است هست بود",
    conjunctions="و یا",
    prepositions="در به از با برای تا بر",
    sources="از",
    goals="به برای تا",
    numbers="صفر یک دو سه چهار پنج شش هفت هشت نه ده",
    more_numbers="بیست:20 سی:30 چهل:40 پنجاه:50 شصت:60 هفتاد:70 هشتاد:80 نود:90 صد:100 هزار:1000",
    dates="yesterday: دیروز | today: امروز | tomorrow: فردا",
    nearness="this: این | next: آینده بعد | last: گذشته پیش قبل",
    periods="هفته ماه سال",
    negations="نہیں نمی* نیست نه هرگز بدون هیچ نبود ندارد نداشت نیستند",
    opposites="""
        open: باز / بسته |
        side: چپ / راست |
        before: قبل / بعد |
        relative: برادر* / خواهر* / مادر* / پدر* |
        size: بزرگ* / کوچک* |
        heat: گرم* داغ / سرد* |
        newness: جدید* نو / قدیمی* |
        buy: خرید* / فروخ* فروش* |
        colour: قرمز سرخ / آبی / سبز / زرد / سیاه / سفید |
        allowed: مجاز / ممنوع*
    """,
    doubtful="نه",
)

HEBREW: Final = Language(
    code="he",
    function_words="""
        את של על אל עם הוא היא הם הן אני אתה אנחנו זה זאת זו כי אם או גם רק יש היה הייתה להיות בין עד מן כל מאוד
    """,
    copulas="הוא היא היה הייתה",
    conjunctions="או",
    prepositions="על אל עם בין עד מן של",
    numbers="אפס אחת שתיים שלוש ארבע חמש שש שבע שמונה תשע עשר",
    more_numbers="""
        שני:2 שתי:2 שניים:2 שלושה:3 ארבעה:4 חמישה:5 שישה:6 שבעה:7 תשעה:9 עשרה:10 עשרים:20 שלושים:30 ארבעים:40
        חמישים:50 מאה:100 אלף:1000
    """,
    dates="yesterday: אתמול | today: היום | tomorrow: מחר",
    negations="לא אין אינו אינה אל בלי ללא אף מעולם לעולם",
    concord=True,
    opposites="""
        open: פתוח* / סגור* |
        side: שמאל* / ימין* |
        before: לפני / אחרי |
        relative: אח אחיו / אחות* / אמא אם / אבא אב |
        size: גדול* / קטן* |
        heat: חם חמה / קר קרה |
        newness: חדש* / ישן ישנה |
        buy: קנה קונה / מכר מוכר |
        colour: אדום* / כחול* / ירוק* / צהוב* / שחור* / לבן* |
        allowed: מותר* / אסור* |
        love: אוהב* / שונא*
    """,
    doubtful="אל אם",
)

INDONESIAN: Final = Language(
    code="id",
    function_words="""
        yang dan di ke dari untuk dengan pada adalah ini itu dia saya kami kita mereka anda akan sudah telah oleh juga
        atau tetapi karena seperti sebagai ada nya
    """,
    copulas="adalah ialah",
    conjunctions="dan atau",
    prepositions="di ke dari untuk dengan pada oleh",
    sources="dari",
    goals="ke untuk",
    agents="oleh",
    numbers="nol satu dua tiga empat lima enam tujuh delapan sembilan sepuluh",
    more_numbers="""
        sebelas:11 dua_puluh:20 tiga_puluh:30 seratus:100 seribu:1000 ribu:1000 puluh:10 ratus:100 juta:1000000
    """,
    months="""
        januari | februari | maret | april | mei | juni | juli | agustus | september | oktober | november | desember
    """,
    weekdays="senin | selasa | rabu | kamis | jumat | sabtu | minggu",
    dates="yesterday: kemarin | today: hari_ini | tomorrow: besok",
    nearness="this: ini | next: depan | last: lalu",
    periods="minggu bulan tahun",
    units="inr: rupe | idr: rupiah | hour: jam | day: hari | minute: menit",
    negations="tidak bukan belum jangan tanpa tak",
    opposites="""
        open: buka terbuka dibuka / tutup tertutup ditutup |
        side: kiri / kanan |
        before: sebelum / sesudah setelah |
        relative: ibu / ayah bapak |
        allowed: boleh diizinkan / dilarang terlarang |
        size: besar / kecil |
        heat: panas / dingin |
        buy: membeli beli / menjual jual |
        colour: merah / biru / hijau / kuning / hitam / putih |
        love: suka cinta / benci
    """,
    doubtful="di dan ke itu minggu mei lima dua dia jam tutup buka tak ada pada",
    starts="dia saya pengguna ini",
)

VIETNAMESE: Final = Language(
    code="vi",
    letters="ươđạảấầẩẫậắằẳẵặẹẻẽếềểễệịọốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    function_words="""
        và của là có không được cho với trong từ đến ở này đó một những các người tôi anh chị ông bà họ nó đã đang sẽ
        rất cũng thì mà khi hoặc
    """,
    copulas="là",
    conjunctions="và hoặc",
    prepositions="của cho với trong từ đến ở",
    sources="từ",
    goals="đến cho",
    numbers="không_số một hai ba bốn năm sáu bảy tám chín mười",
    dates="yesterday: hôm_qua | today: hôm_nay | tomorrow: ngày_mai",
    nearness="this: này | next: sau tới | last: trước",
    periods="tuần tháng",
    negations="không chẳng chưa đừng chả",
    opposites="""
        open: mở / đóng |
        side: trái / phải |
        before: trước / sau |
        size: to lớn / nhỏ bé |
        heat: nóng / lạnh |
        newness: mới / cũ |
        buy: mua / bán |
        colour: đỏ / xanh / vàng / đen / trắng |
        allowed: cho_phép / cấm |
        love: thích yêu / ghét
    """,
    doubtful="ba to hai một năm",
)
