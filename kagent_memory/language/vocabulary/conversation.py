"""What is said around a fact when it is handed on: none of it is part of the fact."""

from __future__ import annotations

# Verbs and nouns of telling and remembering, in the forms in which they are said.
TELLING = """
    remember remembers remembered recall recalls recalled mention mentions mentioned tell tells told say says said
    saying note notes noted state stated store stored save saved share shared write wrote written record records
    recorded forget forgot forgotten know known knew see find found confirm confirmed confirming show shows showed
    shown check checked checking memory memories message messages information info fact facts entry entries item
    items detail details point points conversation conversations chat chats history records reminder reminders
    question questions thing things answer reply mistaken wrong wonder correctly believe understand understood learn
    learned according gesagt erzählt erwähnt notiert gemerkt erinnere weiß erinnerung erinnerungen dit raconté
    mentionné noté souviens rappelle mémoire souvenir souvenirs dicho dijiste mencionaste contaste recuerdo anotado
    memoria memorias
"""
# Words that tell nothing beside them.
AROUND = """
    user users assistant earlier previously previous before past last ago first back again already yesterday today
    week weeks day days month months year years morning evening time times once twice just now here right there
    still yet if unless about in on at from of to for by with as you your i me my we us our he she it that this
    these those what which so and but or well the a an is are was were be been am have has had do does did 've 'm
    're 's can could let based since per also please because ever both all some any following one two three four
    five six seven eight nine ten many few several number previously recent recently lately though du mir mich ich
    dir dich sie ihr hast habe haben am im um vom von zu gestern heute letzte letzten woche mal tu vous m'as m'avez
    me je le la les de du hier il y a comme tú usted yo lo los las del el ayer hace como que ha has he
"""
# Courtesies and interjections that begin or end a sentence.
COURTESIES = """
    no problem | no problem at all | no worries | not a problem | not at all | don't worry | do not worry | never
    mind | no doubt | no need to worry | of course | sure | sure thing | certainly | definitely | absolutely |
    exactly | indeed | got it | understood | noted | will do | yes | yeah | yep | yup | no | nope | ok | okay |
    alright | all right | right | correct | true | that's right | that is right | that's correct | you're right |
    you are right | well | oh | ah | aha | hm | hmm | um | uh | er | hi | hello | hey | hi there | hello there | hey
    there | dear | good morning | good afternoon | good evening | good day | welcome | welcome back | greetings |
    great | perfect | wonderful | lovely | fantastic | excellent | awesome | nice | cool | super | brilliant |
    amazing | good | fine | good question | great question | good to know | good news | great news | thanks | thank
    you | many thanks | thanks a lot | thanks for asking | thank you for asking | thanks for letting me know |
    you're welcome | you are welcome | my pleasure | happy to help | glad to help | glad to hear it | sorry | i'm
    sorry | i am sorry | apologies | my apologies | excuse me | please | please note | look | listen | see | let me
    see | let me check | let's see | one moment | by the way | in fact | actually | anyway | anyways | however |
    nevertheless | still | moreover | furthermore | also | besides | in addition | additionally | then | now | so |
    and | but | or | yet | though | in short | in summary | to sum up | to summarise | to summarize | in other words
    | in conclusion | just to confirm | to confirm | to be clear | just to be clear | to be sure | for the record |
    for reference | for your information | fyi | as a reminder | just a reminder | as always | as ever | if i may |
    as you know | as you may know | first | firstly | second | secondly | third | thirdly | finally | lastly | next
    | am i right | right now | is that right | is that correct | is that so | is that still so | is that still right
    | is that still correct | is that still true | is this right | is this correct | isn't that so | isn't that
    right | isn't it so | isn't it right | innit | correct me if i'm wrong | welcome again | have a nice day | kein
    problem | keine sorge | klar | natürlich | gerne | gern geschehen | genau | ja | nein | doch | also | aber | und
    | hallo | guten tag | guten morgen | guten abend | danke | vielen dank | bitte | alles klar | verstanden | nicht
    wahr | oder | richtig | stimmt's | stimmt das | oder nicht | pas de problème | pas de souci | bien sûr |
    d'accord | oui | non | mais | et | donc | alors | bonjour | salut | bonsoir | merci | de rien | n'est-ce pas |
    c'est ça | pas vrai | hein | no hay problema | no te preocupes | claro | por supuesto | vale | sí | pero | y |
    entonces | hola | buenos días | gracias | de nada | verdad | no es así | correcto | cierto | nessun problema |
    certo | va bene | sì | ma | e | allora | ciao | grazie | prego | vero | giusto | non è vero | sem problema |
    claro que sim | sim | não | mas | olá | oi | obrigado | obrigada | certo | não é | né | geen probleem |
    natuurlijk | ja hoor | nee | maar | en | dus | hoi | dank je | toch | klopt dat | nietwaar |
    没问题 | 好的 | 当然 | 是的 | 不 | 但是 | 对吗 | 对吧 | 是吗 | 是吧 | 不是吗 | 你好 | 谢谢 | 不客气 |
    もちろん | はい | いいえ | でも | しかし | ですよね | でしょう | 了解です |
    問題ありません |
    물론입니다 | 네 | 아니요 | 하지만 | 맞죠 | 그렇죠
"""
# Of a question at the end: "don't you?", "isn't it?", "has she?".
TAG_VERBS = """
    is are am was were do does did have has had can could will would should must might isn't aren't ain't wasn't
    weren't don't doesn't didn't haven't hasn't hadn't can't cannot couldn't won't wouldn't shouldn't mustn't
"""
TAG_SUBJECTS = "i you he she it we they that this there one"
# Praise tells nothing of what it is said about.
PRAISE = """
    lovely great nice wonderful beautiful sweet cute amazing awesome delightful charming fantastic gorgeous dear
    excellent cool pretty
"""
# Small words that turn what is said into something else: only what holds them as well says the same.
TURNING = """
    used will won't would wouldn't should could might want wants wanted wish wishes hope hopes plan plans planned
    until till since anymore longer least less only almost nearly without near under over behind beside above below
    before after except instead if unless
"""
# Courtesies that need no pause behind them.
JOINERS = """
    and but so or yet then now also well still und aber also et mais donc y pero ja
"""
# What stands between the telling and what was told.
CONNECTORS = """
    that dass daß que qu' che dat
"""
# What a statement may begin with right behind the telling.
SUBJECTS = """
    you your yours i my we our he she they du ihr dein deine tu vous tú
"""
# Denials within a telling.
DENIALS = """
    not never haven't hasn't didn't don't doesn't did do have nicht pas no
"""
# What denies nothing of the fact when it is denied.
HARMLESS_DENIED = """
    forget forgot forgotten mistaken wrong vergessen oublié olvidado
"""
# A question whether something was told.
ASKING = """
    didn't haven't don't
"""
# Who is spoken to.
SECOND_PERSON = """
    you your you're you've you'll yours du dein deine ihr tu votre vos vous tú su usted
"""
# What stands in front of a name.
GREETINGS = """
    hi hello hey dear thanks welcome sure sorry yes no ok okay hallo liebe lieber bonjour hola
"""
