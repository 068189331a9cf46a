"""Spanish."""

from __future__ import annotations

from typing import Final

from .language import Language

SPANISH: Final = Language(
    code="es",
    letters="ñ¿¡",
    function_words="""
        el la los las un una unos unas y o pero no es son era fue ser está están estaba estar ha han había haber hay
        tiene se le les lo me te nos su sus mi mis tu tus nuestro nuestra de del al a en con por para sin sobre entre
        hasta desde que qué quien cual cuando donde como si más muy también ya este esta esto ese esa eso
    """,
    light_words="""
        muy mucho mucha bastante realmente también ya siempre ahora actualmente llama llamado llamada toma tomar hace
        hacer cuesta cuestan cada unos unas aproximadamente empieza empezado empezó comienza usuario usuaria persona
        dice quiere quisiera algo bien
    """,
    copulas="es son era eran fue está están será sigue llama",
    conjunctions="y e o u",
    articles="el la los las un una unos unas que lo mi tu su",
    prepositions="""
        a al en con de del por para sin sobre entre hasta desde hacia según durante antes después contra bajo cada
        cuando si porque
    """,
    sources="de del desde",
    goals="a al para hacia hasta",
    agents="por",
    numbers="""
        cero un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete
        dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete
        veintiocho veintinueve treinta
    """,
    more_numbers="""
        dieciseis:16 veintiún:21 veintidos:22 veintitres:23 cuarenta:40 cincuenta:50 sesenta:60 setenta:70 ochenta:80
        noventa:90 cien:100 ciento:100 doscientos:200 doscientas:200 trescientos:300 quinientos:500 mil:1000
        millón:1000000 millones:1000000 medio:0.5 media:0.5 doble:2 docena:12 primero:1st primera:1st primer:1st
        segundo:2nd segunda:2nd tercero:3rd tercera:3rd tercer:3rd cuarto:4th cuarta:4th quinto:5th quinta:5th
    """,
    months="""
        enero | febrero | marzo | abril | mayo | junio | julio | agosto | septiembre setiembre | octubre | noviembre |
        diciembre
    """,
    weekdays="lunes | martes | miércoles miercoles | jueves | viernes | sábado sábados sabado | domingo domingos",
    dates="""
        yesterday: ayer | today: hoy | tomorrow: mañana | ereyesterday: anteayer | spring: primavera | summer: verano
        | autumn: otoño | winter: invierno | weekend: fin_de_semana | daily: diario diaria diariamente | weekly:
        semanal semanalmente | monthly: mensual mensualmente | yearly: anual anualmente | mornings: mañanas madrugada
        | afternoons: tarde tardes | nights: noche noches | noon: mediodía | midnight: medianoche | christmas: navidad
        | easter: pascua
    """,
    nearness="""
        this: este esta | next: próximo próxima próximos próximas siguiente que_viene viene entrante | last: pasado
        pasada último última pasados pasadas anterior
    """,
    periods="semana mes año trimestre vez noche temporada semestre",
    units="""
        second: segundo segundos | minute: minuto minutos | hour: hora horas | day: día días dia dias | week: semana
        semanas | month: mes meses | year: año años | time: vez veces | person: persona personas gente | percent:
        porciento | metre: metro metros | kilometre: kilómetro kilómetros kilometros | centimetre: centímetro
        centímetros | mile: milla millas | gram: gramo gramos | kilogram: kilo kilos kilogramo kilogramos | ton:
        tonelada toneladas | pound: libra libras | litre: litro litros | usd: dólar dólares dolares | eur: euro euros
        | peso: peso pesos | inr: rupia rupias | rub: rublo rublos | chf: franco francos | brl: reales | page: página
        páginas | degree: grado grados | star: estrella estrellas | cup: taza tazas
    """,
    negations="no nunca jamás sin ni ningún ninguna ninguno ningunos nada nadie tampoco",
    concord=True,
    opposites="""
        open: abiert* abre abren abrir abrió / cerrad* cierra* cerrar cerró |
        side: izquierd* / derech* |
        before: antes / después luego |
        relative: hermano hermanos / hermana hermanas / madre* mamá / padre papá / hijo / hija / abuela* / abuelo /
            tía / tío / sobrina / sobrino / esposa mujer / esposo marido / primo / prima |
        parent: padres / hijos niños |
        gender: hombre* masculin* varón / mujer* femenin* |
        young_gender: niño chico / niña chica |
        allowed: permit* permiti* autoriz* / prohib* vedad* |
        enabled: activ* habilit* encend* / desactiv* deshabilit* apag* inactiv* |
        valid: válid* / inválid* |
        amount: más / menos |
        height: alto alta altos altas / bajo baja bajos bajas / mediano |
        size: grande* gran / pequeñ* |
        length: largo larga largos / corto corta cortos breve |
        age: viejo vieja mayor ancian* / joven jóvenes menor |
        newness: nuevo nueva nuevos nuevas / viejo vieja usado |
        heat: caliente* calor / frío fría frio / tibi* / fresc* |
        timeliness: temprano / tarde |
        sequence: primero primera / último última |
        often: siempre / veces / raramente / menudo frecuentemente |
        everything: todo todos toda todas cada / algunos algunas varios varias / ninguno |
        start: empez* empiez* comenz* comienz* inici* / termin* acab* finaliz* fin para! |
        buy: compr* / vend* vent* |
        lend: presta prestó prestar / prestado pide_prestado |
        win: gana* ganó victoria / perd* pierd* derrota |
        arrive: lleg* / sale salir salió parte partió |
        accept: acept* aprueb* aprob* / rechaz* deneg* |
        increase: aument* sube subió subir crec* incremen* / disminu* baja bajó bajar reduc* reduj* |
        vertical: arriba / abajo |
        truth: verdad* cierto / fals* mentira |
        correct: correct* / incorrect* equivocad* |
        quality: bueno buena buen bien / malo mala mal |
        better: mejor* / peor* |
        safe: segur* / peligros* insegur* |
        public: públic* / privad* secret* |
        interior: dentro interior* intern* / fuera exterior* extern* |
        above: encima sobre / debajo bajo |
        front: delante frente / detrás atrás |
        near: cerca cercan* / lejos lejan* |
        compass: norte / sur / este! / oeste |
        teach: profesor* maestr* enseñ* / alumn* estudiante* aprend* |
        employ: empleador* / emplead* |
        medical: médic* doctor* / paciente* |
        rent: propietari* arrendador* / inquilin* arrendatari* |
        trade: comprador* / vendedor* |
        rank: jefe jefa / subordinad* |
        marriage: casad* / solter* / divorciad* / viud* |
        life: viv* / muert* murió fallec* |
        health: san sano sana / enferm* |
        wealth: rico rica / pobre* |
        strength: fuerte* / débil* |
        speed: rápid* / lent* |
        weight: pesad* / liger* |
        difficulty: difícil* / fácil* |
        fullness: llen* / vací* |
        wetness: mojad* húmed* / sec* |
        cleanness: limpi* / suci* |
        loudness: ruidos* / silencios* tranquil* |
        brightness: clar* luminos* / oscur* |
        thickness: grues* / delgad* fin fino |
        width: anch* / estrech* angost* |
        price: car caro cara costos* / barat* |
        charge: gratis gratuit* / pag* |
        presence: presente* / ausente* |
        manual: manual* / automátic* |
        duration: temporal* / permanente* |
        duty: opcional* voluntari* / obligatori* |
        reading: lee leer leyó / escrib* |
        transfer: import* / export* |
        load: subir / descarg* |
        adding: añad* agreg* / elimin* quit* borr* |
        making: crea* constru* / destru* |
        including: inclu* / exclu* |
        bound: máxim* / mínim* |
        diet: vegan* / vegetarian* |
        taste: dulce* / salad* / amarg* / ácid* |
        meal: desayun* / almuerz* / cena* |
        voting: favor / contra |
        result: ganancia* beneficio* / pérdida* |
        taxes: bruto / neto |
        sign: positiv* / negativ* |
        friendship: amig* / enemig* |
        question: pregunt* / respond* respuest* |
        giving: da dar dio / recib* toma* |
        joining: une unió entra / deja dejó abandon* |
        hiring: contrat* / despid* despedi* |
        memory: recuerd* record* / olvid* |
        success: aprob* éxito / suspend* fracas* reprob* |
        colour: roj* / azul* / verde* / amarill* / naranja* / morad* / rosa* / negr* / blanc* / gris* / marrón* |
        mood: feliz content* / triste* |
        love: ama amo amar adora* encant* / odi* |
        urban: ciudad / campo |
        vote: sí / no
    """,
    turns="""
        doubt: quizás quizá tal_vez probablemente posiblemente | wish: quisiera querría espera_que desea desean |
        attempt: intenta intentó intentan | nearly: casi | past: solía solían
    """,
    synonyms="""
        gusta encanta adora disfruta agrada |
        vive reside habita |
        trabaja labora empleado |
        compra adquiere compró adquirió |
        coche carro auto automóvil |
        teléfono móvil celular |
        médico doctor |
        empieza comienza inicia |
        habla conversa |
        piso apartamento departamento |
        ordenador computadora
    """,
    doubtful="""
        no me a es en como se once sin dos mes para para! este este! sale car ser media parte nada vez tu total mil
        doble son fin sobre favor gran pero un o y e la las los sur san da come
    """,
    starts="el la los las yo él ella un una mi su nuestro usuario este esta",
    after_names="es tiene trabaja vive bebe come habla va dirige conoce era fue está",
)
