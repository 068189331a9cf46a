"""Portuguese."""

from __future__ import annotations

from typing import Final

from .language import Language

PORTUGUESE: Final = Language(
    code="pt",
    letters="ãõç",
    function_words="""
        o a os as um uma uns umas e ou mas não é são era foi ser está estão estava estar tem têm tinha ter há se me te
        nos lhe seu sua seus suas meu minha nosso nossa de do da dos das em no na nos nas ao à aos às com por para
        pelo pela sem sobre entre até desde que quem qual quando onde como mais muito também já este esta isto esse
        essa isso ele ela eles elas eu você
    """,
    light_words="""
        muito muita bastante realmente também ainda já sempre agora atualmente chama chamado chamada toma tomar faz
        fazer custa custam cada cerca começa começou usuário usuária utilizador pessoa diz quer gostaria algo bem
        pouco
    """,
    copulas="é são era eram foi está estão será fica continua chama",
    conjunctions="e ou",
    articles="o a os as um uma uns umas que seu sua meu minha",
    prepositions="""
        a ao à aos em no na nos nas com de do da dos das por pelo pela para sem sobre entre até desde durante antes
        depois contra cada quando se porque
    """,
    sources="de do da desde",
    goals="a ao à para até",
    agents="por pelo pela",
    numbers="""
        zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete
        dezoito dezenove vinte
    """,
    more_numbers="""
        duas:2 quatorze:14 dezasseis:16 dezassete:17 dezanove:19 trinta:30 quarenta:40 cinquenta:50 sessenta:60
        setenta:70 oitenta:80 noventa:90 cem:100 cento:100 duzentos:200 trezentos:300 quinhentos:500 mil:1000
        milhão:1000000 milhões:1000000 meio:0.5 meia:0.5 dobro:2 dúzia:12 primeiro:1st primeira:1st segundo:2nd
        segunda_vez:2nd terceiro:3rd terceira:3rd quarto:4th quinto:5th
    """,
    months="""
        janeiro | fevereiro | março | abril | maio | junho | julho | agosto | setembro | outubro | novembro | dezembro
    """,
    weekdays="""
        segunda-feira segunda segundas | terça-feira terça | quarta-feira quarta | quinta-feira quinta | sexta-feira
        sexta | sábado sábados | domingo domingos
    """,
    dates="""
        yesterday: ontem | today: hoje | tomorrow: amanhã | ereyesterday: anteontem | spring: primavera | summer:
        verão | autumn: outono | winter: inverno | weekend: fim_de_semana | daily: diário diária diariamente | weekly:
        semanal semanalmente | monthly: mensal mensalmente | yearly: anual anualmente | mornings: manhã manhãs
        madrugada | afternoons: tarde tardes | nights: noite noites | noon: meio-dia | midnight: meia-noite |
        christmas: natal | easter: páscoa
    """,
    nearness="""
        this: este esta | next: próximo próxima próximos próximas seguinte que_vem vem | last: passado passada último
        última anterior
    """,
    periods="semana mês ano trimestre vez noite temporada semestre",
    units="""
        second: segundo segundos | minute: minuto minutos | hour: hora horas | day: dia dias | week: semana semanas |
        month: mês meses | year: ano anos | time: vez vezes | person: pessoa pessoas gente | percent: porcento |
        metre: metro metros | kilometre: quilômetro quilômetros quilómetro quilómetros | centimetre: centímetro
        centímetros | mile: milha milhas | gram: grama gramas | kilogram: quilo quilos quilograma | ton: tonelada
        toneladas | pound: libra libras | litre: litro litros | usd: dólar dólares | eur: euro euros | brl: real reais
        | peso: peso pesos | inr: rupia rúpia rúpias | rub: rublo rublos | page: página páginas | degree: grau graus |
        star: estrela estrelas | cup: xícara xícaras chávena
    """,
    negations="não nunca jamais sem nenhum nenhuma nada ninguém nem tampouco",
    concord=True,
    opposites="""
        open: abert* abre abrem abrir abriu / fechad* fecha* |
        side: esquerd* / direit* |
        before: antes / depois após |
        relative: irmão irmãos / irmã irmãs / mãe mães mamãe / pai papai / filho / filha / avó / avô / tia / tio /
            sobrinha / sobrinho / esposa mulher / esposo marido / primo / prima |
        parent: pais / filhos crianças |
        gender: homem homens masculin* / mulher mulheres feminin* |
        young_gender: menino rapaz / menina moça |
        allowed: permit* permiti* autoriz* / proib* vedad* |
        enabled: ativ* habilit* ligad* / desativ* desabilit* desligad* inativ* |
        valid: válid* / inválid* |
        amount: mais / menos |
        height: alto alta altos altas / baixo baixa baixos baixas |
        size: grande* / pequen* |
        length: long* comprid* / curt* breve |
        age: velh* idos* / jovem jovens nov* |
        newness: nov novo nova novos novas / velh* usad* antig* |
        heat: quente* calor / frio fria frios / morn* / fresc* |
        timeliness: cedo / tarde |
        sequence: primeiro primeira / último última |
        often: sempre / vezes / raramente / frequentemente |
        everything: tudo todos todas todo toda cada / alguns algumas vários várias / nenhum |
        start: começ* inici* / termin* acab* par parou fim |
        buy: compr* / vend* |
        lend: empresta* / pede_emprestado |
        win: ganh* venc* / perd* derrot* |
        arrive: cheg* / sai sair saiu part partiu partida |
        accept: aceit* aprov* / rejeit* recus* |
        increase: aument* sobe subiu cresc* / diminu* desce desceu reduz* baixou |
        vertical: acima cima / abaixo baixo |
        truth: verdad* / fals* |
        correct: corret* cert* / incorret* errad* |
        quality: bom boa bons boas bem / mau má ruim mal |
        better: melhor* / pior* |
        safe: segur* / perigos* insegur* |
        public: públic* / privad* secret* |
        interior: dentro interior* intern* / fora exterior* extern* |
        above: acima sobre cima / abaixo sob debaixo |
        front: frente / atrás |
        near: perto próxim* / longe distant* |
        compass: norte / sul / leste / oeste |
        teach: professor* ensin* / alun* estudant* aprend* |
        employ: empregador* / empregad* funcionári* |
        medical: médic* doutor* / pacient* |
        rent: proprietári* senhori* / inquilin* |
        trade: comprador* / vendedor* |
        rank: chefe* / subordinad* |
        marriage: casad* / solteir* / divorciad* / viúv* |
        life: viv* / mort* morreu falec* |
        health: saudáv* / doent* |
        wealth: rico rica / pobre* |
        strength: fort* / frac* |
        speed: rápid* / lent* devagar |
        weight: pesad* / lev leve leves |
        difficulty: difícil difíceis / fácil fáceis |
        fullness: chei* / vazi* |
        wetness: molhad* úmid* / sec* |
        cleanness: limp* / suj* |
        loudness: barulhent* / silencios* |
        brightness: clar* / escur* |
        width: larg* / estreit* |
        price: caro cara caros / barat* |
        charge: grátis gratuit* / pag* |
        presence: presente* / ausente* |
        manual: manual* / automátic* |
        duration: temporári* / permanente* |
        duty: opcional* voluntári* / obrigatóri* |
        reading: lê ler leu / escrev* |
        transfer: import* / export* |
        adding: adicion* acrescent* / remov* elimin* apag* |
        making: cria* constru* / destru* |
        including: inclu* / exclu* |
        bound: máxim* / mínim* |
        diet: vegan* / vegetarian* |
        taste: doce* / salgad* / amarg* / azed* |
        meal: café_da_manhã pequeno-almoço / almoç* / jantar* |
        voting: favor / contra |
        result: lucro* / prejuízo* |
        taxes: bruto / líquido |
        sign: positiv* / negativ* |
        friendship: amig* / inimig* |
        question: pergunt* / respond* respost* |
        giving: dá dar deu / receb* |
        hiring: contrat* / demit* despedi* |
        memory: lembr* record* / esquec* |
        success: aprovad* passou / reprovad* falh* |
        colour: vermelh* / azul azuis / verde* / amarel* / laranja / rox* / rosa / preto preta / branc* / cinz* /
            marrom castanh* |
        mood: feliz alegre / triste* |
        love: ama amo adora* / odei* odi* |
        urban: cidade / campo |
        vote: sim / não
    """,
    synonyms="""
        gosta ama adora aprecia |
        mora vive reside |
        trabalha empregado |
        compra adquire comprou adquiriu |
        carro automóvel |
        telefone celular telemóvel |
        médico doutor |
        começa inicia |
        fala conversa
    """,
    doubtful="""
        a o e os as em no na nos do da se me te par pai fora tarde mil sete sete meia real um com por sem nem sec pro
        ter tem sob cert bom uns das mais como seis part nov segunda quarta quinta sexta
    """,
    starts="o a os as um uma eu ele ela meu minha seu sua usuário este esta",
    after_names="é tem mora vive trabalha bebe come fala vai dirige conhece era foi está gosta",
)
