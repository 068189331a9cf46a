"""French."""

from __future__ import annotations

from typing import Final

from .language import Language

FRENCH: Final = Language(
    code="fr",
    letters="çœêèàùëïîôû",
    function_words="""
        le la les un une des du de d l et ou mais ne pas est sont était être a ont avait avoir il elle ils elles on
        nous vous je tu me te se lui leur mon ma mes ton ta tes son sa ses notre votre leurs ce cet cette ces que qui
        quoi dont où dans en à au aux sur sous avec pour par chez entre vers plus très aussi comme si quand parce y
    """,
    light_words="""
        très beaucoup bien assez vraiment aussi encore déjà toujours souvent maintenant actuellement s'appelle appelle
        nommé nommée prend prendre fait faire coûte coûtent chaque par environ commence commencé utilisateur
        utilisatrice personne dit veut voudrait trop peu
    """,
    copulas="est sont était étaient sera devient reste s'appelle c'est",
    conjunctions="et ou ainsi",
    articles="le la les l un une des ce cet cette qui que mon ma son sa",
    prepositions="""
        dans en à au aux sur sous avec pour par chez entre vers depuis pendant durant avant après jusqu' jusque de du
        des d' sans contre chaque quand si parce
    """,
    sources="de du des d' depuis",
    goals="à au aux vers pour chez",
    agents="par",
    numbers="""
        zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept
        dix-huit dix-neuf vingt
    """,
    more_numbers="""
        vingt-et-un:21 trente:30 quarante:40 cinquante:50 soixante:60 soixante-dix:70 septante:70 quatre-vingt:80
        quatre-vingts:80 huitante:80 quatre-vingt-dix:90 nonante:90 cent:100 cents:100 mille:1000 million:1000000
        millions:1000000 milliard:1000000000 milliards:1000000000 demi:0.5 demie:0.5 double:2 triple:3 douzaine:12
        premier:1st première:1st deuxième:2nd seconde:2nd troisième:3rd quatrième:4th cinquième:5th
    """,
    months="""
        janvier janv | février févr | mars | avril | mai | juin | juillet juil | août | septembre | octobre | novembre
        | décembre
    """,
    weekdays="""
        lundi lundis | mardi mardis | mercredi mercredis | jeudi jeudis | vendredi vendredis | samedi samedis |
        dimanche dimanches
    """,
    dates="""
        yesterday: hier | today: aujourd'hui | tomorrow: demain | overmorrow: après-demain | ereyesterday: avant-hier
        | spring: printemps | summer: été | autumn: automne | winter: hiver | weekend: week-end | daily: quotidien
        quotidienne quotidiennement | weekly: hebdomadaire | monthly: mensuel mensuelle | yearly: annuel annuelle |
        mornings: matin matins matinée | afternoons: après-midi | evenings: soir soirs soirée | nights: nuit nuits |
        noon: midi | midnight: minuit | christmas: noël | easter: pâques
    """,
    nearness="""
        this: ce cet cette | next: prochain prochaine prochains prochaines suivant suivante | last: dernier dernière
        derniers dernières passé passée précédent précédente
    """,
    periods="semaine mois an année trimestre fois nuit saison semestre week-end",
    units="""
        second: seconde secondes | minute: minute minutes | hour: heure heures | day: jour jours | week: semaine
        semaines | month: mois | year: an ans année années | time: fois | person: personne personnes gens | percent:
        pourcent | metre: mètre mètres | kilometre: kilomètre kilomètres | centimetre: centimètre centimètres | mile:
        mille milles | gram: gramme grammes | kilogram: kilo kilos kilogramme kilogrammes | ton: tonne tonnes | pound:
        livre livres | litre: litre litres | usd: dollar dollars | eur: euro euros | chf: franc francs | rub: rouble
        roubles | inr: roupie roupies | peso: peso pesos | page: page pages | degree: degré degrés | star: étoile
        étoiles | cup: tasse tasses
    """,
    negations="ne pas jamais aucun aucune sans ni rien guère nullement personne non plus_jamais nulle_part",
    concord=True,
    opposites="""
        open: ouvert* ouvr* / fermé* ferme ferment fermer |
        side: gauche / droite droit |
        before: avant auparavant / après ensuite |
        relative: frère* / sœur* soeur* / mère* maman / père* papa / fils / fille filles / grand-mère* / grand-père* /
            tante* / oncle* / nièce* / neveu* / épouse femme / époux mari |
        parent: parent* / enfant* |
        gender: homme* masculin* / femme* féminin* |
        young_gender: garçon* / fille filles |
        allowed: autoris* permis* permet / interdi* prohib* |
        enabled: activ* allumé* / désactiv* éteint* inactif* |
        valid: valide* valable* / invalide* non-valide |
        amount: plus / moins |
        height: haut haute hauts hautes élevé* / bas basse basses faible* |
        size: grand grande grands grandes gros grosse / petit petite petits petites |
        length: long longue longs longues / court courte courts courtes bref brève |
        age: vieux vieille âgé* ancien* / jeune* |
        newness: nouveau nouvelle nouveaux nouvelles neuf neuve / vieux vieille ancien* |
        heat: chaud* / froid* / tiède* / frais fraîche |
        timeliness: tôt / tard |
        sequence: premier première d'abord / dernier dernière enfin |
        often: toujours / parfois / rarement / souvent |
        everything: tout tous toute toutes chaque / quelques certains plusieurs / aucun aucune |
        start: commenc* début* démarr* / fini* termin* arrêt* fin |
        buy: achet* achat* / vend* vente* vendu* |
        lend: prêt* / emprunt* |
        win: gagn* victoire* / perd* perdu* défaite* |
        arrive: arriv* / part partir partent parti partie départ* |
        accept: accept* approuv* / refus* rejet* |
        increase: augment* hausse* monte monté croît / diminu* baiss* rédui* |
        vertical: monter haut / descendre descend* bas |
        truth: vrai* / faux fausse* |
        correct: correct* juste / incorrect* faux |
        quality: bon bonne bons bonnes bien / mauvais* mal |
        better: meilleur* mieux / pire* |
        safe: sûr sûre / dangereu* |
        public: public publique* / privé* secret* |
        interior: intérieur* dedans interne* / extérieur* dehors externe* |
        above: dessus sur / dessous sous |
        front: devant avant / derrière arrière |
        near: près proche* / loin lointain* |
        compass: nord / sud / est! / ouest |
        teach: professeur* enseignant* enseigne / élève* étudiant* apprend |
        employ: employeur* / employé* salarié* |
        medical: médecin* docteur* / patient patients patiente |
        rent: propriétaire* bailleur* / locataire* |
        trade: acheteur* / vendeur* |
        rank: chef* patron* supérieur* / subordonné* |
        marriage: marié* / célibataire* / divorcé* / veuf veuve / fiancé* |
        life: vivant* vit / mort morte décédé* |
        health: sain saine / malade* |
        wealth: riche* / pauvre* |
        strength: fort forte forts / faible* |
        speed: rapide* vite / lent lente* |
        weight: lourd* / léger légère* |
        difficulty: difficile* dur / facile* simple* |
        fullness: plein* / vide* |
        wetness: mouillé* humide* / sec sèche* |
        cleanness: propre* / sale* |
        loudness: bruyant* / silencieu* calme* |
        brightness: clair* lumineu* / sombre* foncé* obscur* |
        thickness: épais* / mince* fin fine |
        width: large* / étroit* |
        price: cher chère* coûteu* / bon_marché |
        charge: gratuit* / payant* payé* |
        presence: présent* / absent* |
        manual: manuel* / automati* |
        duration: temporaire* / permanent* définitif* |
        duty: facultati* optionnel* / obligatoire* |
        reading: lit lire lu / écri* |
        transfer: import* / export* |
        load: téléverse* / télécharge* |
        adding: ajout* / supprim* enlev* retir* |
        making: cré* construi* / détrui* |
        including: inclu* compris / exclu* |
        bound: maximum maximal* maximum / minimum minimal* |
        diet: végan* végétalien* / végétarien* |
        taste: sucré* doux / salé* / amer* / acide* |
        meal: petit-déjeuner / déjeuner / dîner |
        voting: pour / contre |
        result: bénéfice* profit* gain* / perte* |
        taxes: brut / net |
        sign: positi* / négati* |
        friendship: ami amie amis amies / ennemi* |
        question: demand* question* / répond* répons* |
        giving: donn* / reçoi* reçu* prend* |
        joining: rejoi* adhér* entr* / quitt* sort* |
        hiring: embauch* engag* / licenci* renvoy* |
        memory: souvien* rappel* / oubli* |
        success: réuss* / échou* échec* |
        colour: rouge* / bleu* / vert verte verts / jaune* / orange / violet* / rose* / noir* / blanc* / gris* / brun*
            marron |
        mood: heureu* content* / triste* malheureu* |
        love: aime aiment adore* / déteste* hait |
        urban: ville / campagne |
        vote: oui / non
    """,
    turns="""
        doubt: peut-être probablement sans_doute éventuellement | wish: voudrait aimerait espère espèrent envisage* |
        attempt: essaie essaye essayé tente | nearly: presque | past: autrefois jadis
    """,
    synonyms="""
        aime adore apprécie plaît |
        habite vit réside loge |
        travaille bosse employé |
        achète acquiert acheté acquis |
        voiture auto |
        téléphone portable |
        médecin docteur |
        commence débute |
        parle discute |
        vélo bicyclette
    """,
    doubtful="""
        a on en y est an mars plus pas ton me son est! fin personne non sept six dix cent double million pour car neuf
        mais droit part bas droite fort sale mille on or ou sort
    """,
    starts="le la les un une il elle nous je vous on mon ma mes son sa ses notre utilisateur l'utilisateur cette ce",
    after_names="est a habite aime vit travaille boit mange parle va dirige connaît était",
)
