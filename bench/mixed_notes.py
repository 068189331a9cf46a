"""The second data set: notes, tickets, code, how-tos and German notes, with questions that say it
in other words.

Everything here is made up. Texts and questions stand side by side, parted by "|"; what varies by
rule (numbers, dates, versions) is made by `mixed.py`.
"""

# ruff: noqa: E501

# component | what goes wrong | asked in other words | cause
TICKETS = """
checkout | payment page hangs after the card is entered | customers cannot finish buying | a lock on the orders table
search | results stay empty for queries with accents | nothing is found when words have diacritics | missing folding
mailer | password reset mails arrive twice | duplicate messages for people who forgot their login | a retried job
uploader | files above two gigabytes are cut | big attachments end up truncated | a 32 bit length field
scheduler | nightly jobs run an hour late in summer | tasks start at the wrong time with daylight saving | local time
gateway | requests fail with a TLS handshake timeout | secure connections are not set up in time | an expired root
billing | invoices show the wrong tax rate for Norway | VAT is miscalculated on Scandinavian bills | a stale table
profile | avatars vanish after the name is edited | pictures get lost when somebody renames themselves | a cascade
reports | PDF export leaves out the last row | the final line is dropped from printed tables | an off by one loop
sync | phones drain the battery while idle | mobile app uses power in the background | a wake lock never released
login | single sign-on loops back to the start | people are redirected for ever when they authenticate | a cookie path
cache | stale prices are shown after an update | old amounts linger once a product changes | no invalidation
indexer | memory grows until the pod is killed | process runs out of RAM and is evicted | an unbounded queue
printer | labels come out mirrored | stickers are flipped left to right | a driver flag
webhook | signatures do not verify behind the proxy | callbacks are rejected as forged | a rewritten header
"""

# a personal note | the same asked in other words
NOTES = """
My sister Lena moved to Porto to work as a vet | Where does the animal doctor in my family live?
The landlord wants the rent by the third working day | When do I have to pay for the flat?
I am allergic to hazelnuts but almonds are fine | Which nuts must I avoid?
Booked the cabin near the glacier for the ski week | What accommodation did I reserve for winter holidays?
The bike shop on Mill Road replaced my rear brake pads | Who repaired my bicycle?
Grandpa's recipe uses smoked paprika and no cumin | Which spice is in the old family dish?
Started learning the cello with Mrs Okafor | What instrument am I taking lessons in?
The dentist found a crack in a lower molar | What did they discover about my tooth?
Our book club picked a novel about lighthouse keepers | What are we reading together next?
I prefer window seats on night trains | Where do I like to sit when travelling by rail?
The neighbours' cat is called Biscuit and visits daily | What is the name of the pet from next door?
Signed up for a half marathon along the river | Which race have I registered for?
The new passport took nine weeks to arrive | How long did my travel document take?
Tom owes me forty euros for the concert | Who has to pay me back for the show?
We painted the nursery pale green | What colour is the baby's room?
My blood type is O negative according to the donor card | What is my blood group?
The boiler was serviced and the pressure valve changed | What maintenance did the heating get?
I switched from coffee to rooibos after lunch | What do I drink in the afternoon now?
Priya recommended a podcast on deep sea mining | What did my colleague suggest listening to about the ocean?
The car failed inspection because of worn tyres | Why did the vehicle not pass its check?
Dad's birthday present is a restored radio from the fifties | What gift did we get for my father?
The allotment got a second water butt | What did we add to the vegetable garden?
I never answer calls from hidden numbers | How do I treat anonymous phone calls?
Yoga with Ines moved from the studio to the park | Where are the stretching classes held now?
The spare key is with the baker downstairs | Who keeps the extra key of my home?
We adopted a greyhound who is afraid of stairs | What is our dog scared of?
My thesis advisor wants a chapter on soil erosion | What should I write about for university?
The chess league meets above the old pharmacy | Where do we play board games competitively?
I sold the telescope to a school in Ghent | What happened to my astronomy equipment?
The piano tuner comes twice a year in spring and autumn | How often is the piano looked after?
"""

# file | name | what it does | asked in other words
CODE = """
net/retry.py | retry_with_backoff | doubles the wait after every failed attempt, up to a minute | growing pauses between tries
auth/tokens.py | rotateRefreshToken | replaces the long-lived credential and revokes the old one | renewing a login secret
db/pool.go | AcquireConn | blocks when all database handles are taken | waiting for a free database connection
ui/TableView.tsx | useColumnResize | lets people drag the borders of columns | changing the width of a grid's columns
core/money.rs | round_half_even | avoids bias when amounts end in five | banker's way of rounding sums
jobs/lease.py | steal_expired_lease | takes over work whose owner died | picking up tasks of a crashed worker
api/limits.go | TokenBucket | refuses callers that ask too often | throttling clients
parse/csv_dialect.py | sniff_delimiter | guesses whether commas or semicolons part the fields | detecting a separator
geo/haversine.ts | greatCircleKm | gives the distance between two coordinates on the globe | how far two places are apart
img/thumbs.py | strip_exif | removes camera metadata before publishing pictures | erasing hidden data in photos
mail/render.py | inline_css | moves styles into tags for old mail clients | making newsletters look right in Outlook
cache/lru.c | evict_oldest | drops the entry that was not used for the longest time | which item goes when the cache is full
search/fold.py | fold_accents | maps letters with marks to plain ones | ignoring diacritics
cron/next_run.rs | next_fire_time | finds when a schedule is due across clock changes | calculating the next start of a timer
log/redact.go | maskSecrets | hides passwords before lines are written | keeping credentials out of logs
graph/topo.py | topological_order | sorts steps so that dependencies come first | order in which to build things
crypto/compare.c | constant_time_equal | compares without leaking where strings differ | guarding against timing attacks
i18n/plural.ts | pluralForm | chooses the right word ending for a count | one apple or two apples in many languages
fs/atomic.py | write_then_rename | leaves either the old or the new file, never half | saving without corruption on power loss
http/etag.go | weakValidator | tells whether a page changed since last time | answering not modified
queue/dead_letter.py | bury_poison_job | puts aside work that failed too often | what happens to hopeless tasks
ml/split.py | stratified_folds | keeps the share of classes equal in every part | balanced cross-validation
text/wrap.ts | breakLongWords | hyphenates what does not fit on a line | text overflowing narrow boxes
time/parse_iso.py | parse_offset | reads the zone at the end of a timestamp | understanding +02:00
sec/csrf.go | doubleSubmitCookie | rejects forms posted from other sites | stopping cross-site request forgery
"""

# an instruction | the same asked in other words
HOW_TOS = """
To rotate the database password, change it in the vault first and then restart the API pods | How do I renew DB credentials?
To free disk space on the build agents, prune images older than a week | What helps when CI machines are full?
To add a language, copy the English catalogue and run the extraction again | How is a new translation started?
To release on a Friday, two people of the on-call group must agree | What is needed to ship before the weekend?
To reproduce the crash, rotate the tablet twice while the map loads | How can I trigger the failure on Android?
To restore a deleted project, ask for the snapshot within thirty days | Can erased work be brought back?
To print the badges, feed the card stock face down | Which way round goes the paper for name tags?
To onboard a contractor, open the access form and tick read only | How do freelancers get permissions?
To silence an alert, add a matcher with an end time | How do I mute notifications for a while?
To speed up the test run, split it over four runners by timing | How are slow checks made faster?
"""

# a statement and its contrary about another thing: the question must find the right one
NEGATIONS = """
The blue projector works without an adapter | The grey projector does not work without an adapter | Which projector needs an adapter?
Maria eats fish | Jonas does not eat fish | Who refuses fish?
Door four may be left open at night | Door seven must never be left open at night | Which door has to stay shut at night?
Backups of the wiki are encrypted | Backups of the forum are not encrypted | Which backups lack encryption?
The red route is safe in winter | The black route is not safe in winter | Which route is dangerous in winter?
Staging allows anonymous access | Production allows no anonymous access | Where is anonymous access forbidden?
Plan Basic includes support | Plan Free includes no support | Which plan comes without support?
The oak table is waterproof | The pine table is not waterproof | Which table must be kept dry?
Version four keeps the old settings | Version five does not keep the old settings | Which version loses the settings?
Anton has signed the contract | Berta has not signed the contract | Who has yet to sign the contract?
"""

# German: a note | the question
GERMAN = """
Der Klempner hat den Wasserhahn in der Küche repariert | Wer hat den tropfenden Wasserhahn gerichtet?
Meine Tochter lernt seit Herbst Geige | Welches Instrument spielt meine Tochter?
Wir haben im Garten drei Apfelbäume gepflanzt | Was wurde im Garten gepflanzt?
Der Zug nach Basel fährt immer von Gleis sieben | Von welchem Gleis geht der Zug nach Basel?
Frau Özdemir leitet ab Mai die Buchhaltung | Wer ist für die Buchhaltung zuständig?
Der Vertrag mit dem Stromanbieter endet im Dezember | Wann läuft der Stromvertrag aus?
Ich vertrage keine Milch, aber Käse geht | Welches Lebensmittel vertrage ich nicht?
Das Passwort des Gästenetzes hängt am Kühlschrank | Wo finde ich das Passwort für die Gäste?
Onkel Jürgen sammelt alte Postkarten aus Übersee | Was sammelt mein Onkel?
Die Waschmaschine schleudert nur noch mit halber Drehzahl | Was ist mit der Waschmaschine los?
Der Hausmeister heißt Schröder und kommt dienstags | Wie heißt der Hausmeister?
Unser Verein trainiert in der Halle an der Brücke | Wo trainiert der Verein?
Die Heizung wird über die App gesteuert | Womit steuere ich die Heizung?
Tante Grete hat am Nikolaustag Geburtstag | Wann hat Tante Grete Geburtstag?
Das Fahrrad steht im Keller hinter den Kisten | Wo steht das Fahrrad?
Die Steuererklärung liegt beim Berater Köhler | Wer bearbeitet die Steuererklärung?
Im Büro gibt es seit gestern einen höhenverstellbaren Tisch | Welches neue Möbel steht im Büro?
Der Hund frisst nur Futter ohne Getreide | Was frisst der Hund?
Die Wanderung zur Hütte dauert vier Stunden | Wie lange dauert die Wanderung?
Das Konzert wurde wegen Krankheit verschoben | Warum wurde das Konzert verschoben?
"""

# language | a note | the same asked with other forms of its words
LANGUAGES = """
Spanish | Las llaves del trastero están detrás del espejo | ¿Dónde está la llave del trastero?
Spanish | Mi hermana vende cuadros en el mercado de los domingos | ¿Qué cuadro vende mi hermana?
Spanish | Reservamos dos habitaciones con vistas al puerto | ¿Qué habitación reservamos?
Spanish | Los vecinos plantaron limoneros en la terraza | ¿Quién plantó un limonero?
Spanish | El médico me recetó gotas para los ojos | ¿Qué gota me recetó el médico?
Spanish | Aprendí a tocar canciones antiguas con la guitarra | ¿Qué canción antigua toco?
French | Les clés de la cave sont chez la gardienne | Où est la clé de la cave ?
French | Mon frère répare des horloges anciennes | Quelle horloge mon frère a-t-il réparée ?
French | Nous avons loué deux chambres près du lac | Quelle chambre avons-nous louée ?
French | Les voisines chantent dans une chorale | Quelle voisine chante ?
French | Le dentiste a trouvé une fissure dans une molaire | Qu'est-ce que le dentiste trouve dans mes molaires ?
French | Il faut arroser les tomates deux fois par semaine | Quand arroser la tomate ?
German mixed | Die Nachbarinnen gießen unsere Tomaten im Sommer | Wer gießt die Tomate?
German mixed | Meine Brille liegt beim Optiker in der Bahnhofstraße | Wo sind meine Brillen?
German mixed | Wir haben zwei Zimmer mit Seeblick gebucht | Welches Zimmer buchen wir?
German mixed | Der Zahnarzt hat eine Füllung erneuert | Welche Füllungen hat er gemacht?
German mixed | Tante Rosa verkauft selbst gemachte Seifen | Welche Seife verkauft Tante Rosa?
German mixed | Die Kinder sammeln Muscheln am Strand | Welche Muschel hat das Kind gesammelt?
Chinese | 我妹妹搬到了成都，在医院当护士 | 妹妹搬到哪里了？
Chinese | 备用钥匙放在厨房的抽屉里 | 备用钥匙在哪里？
Chinese | 我对花生过敏，但是可以吃杏仁 | 我对什么过敏？
Chinese | 爷爷每天早上在公园打太极拳 | 爷爷在公园做什么？
Chinese | 护照明年三月到期 | 护照什么时候到期？
Chinese | 邻居养了一只怕打雷的狗 | 谁养了一只狗？
Japanese | 妹は去年札幌に引っ越した | 妹はどこに引っ越した？
Japanese | 予備の鍵は台所の引き出しにある | 予備の鍵はどこ？
Japanese | 私はそばアレルギーがある | 何のアレルギーがある？
Japanese | 祖父は毎朝公園で太極拳をする | 祖父は公園で何をする？
Japanese | 隣の犬は雷を怖がる | 隣の犬は何を怖がる？
Japanese | 歯医者の予約は来週の火曜日だ | 歯医者の予約はいつ？
Arabic | المفتاح الاحتياطي في درج المطبخ | أين مفتاح المطبخ؟
Arabic | أختي انتقلت إلى الدار البيضاء للعمل | إلى أين انتقلت أخت؟
Arabic | عندي حساسية من الفول السوداني | ما الحساسية التي عندي؟
Arabic | جدي يزرع الطماطم والنعناع في الحديقة | من يزرع طماطم؟
Arabic | الكلب يخاف من الرعد | من ماذا تخاف الكلاب؟
Arabic | موعد الطبيب يوم الثلاثاء القادم | متى موعد طبيب؟
"""
