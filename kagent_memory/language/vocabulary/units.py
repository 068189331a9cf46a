"""Symbols of units and currencies, of all languages: "name: symbols"."""

from __future__ import annotations

from typing import Final

# Read without regard to case.
SYMBOLS: Final = """
    centimetre: cm | decimetre: dm | kilometre: km kms | mile: mi | foot: ft | inch: in | yard: yd yds | gram:
    gr | kilogram: kg kgs | pound: lb lbs | ounce: oz | litre: ltr | decilitre: dl | centilitre: cl | gallon:
    gal | hectare: ha | square_metre: m2 sqm m^2 | square_foot: sqft ft2 ft^2 | cubic_metre: m3 m^3 |
    square_kilometre: km2 km^2 | kilowatt_hour: kwh | watt_hour: wh | kph: kmh km/h kph kmph | mph: mph | mps:
    m/s | knot: kn kts | celsius: °c | fahrenheit: °f | degree: ° | percent: % | permille: ‰ | am: am a.m | pm:
    pm p.m | kilocalorie: kcal | decibel: db | rpm: rpm | fps: fps | dpi: dpi | ppm: ppm | ppb: ppb | pixel: px
    | point: pts | second: sec secs | minute: min mins | hour: hr hrs std | eur: € eur | usd: $ usd us$ | gbp: £
    gbp | jpy: ¥ jpy | cny: cny rmb | chf: chf sfr | inr: ₹ inr rs | rub: ₽ rub | try: ₺ try tl | krw: ₩ krw |
    ils: ₪ ils nis | thb: ฿ thb | vnd: ₫ vnd | pln: pln zł | sek: sek | nok: nok | dkk: dkk | krona: kr | czk:
    czk kč | huf: huf | ron: ron | bgn: bgn | uah: ₴ uah | mxn: mxn | brl: brl r$ | ars: ars | clp: clp | cop:
    cop | aud: aud a$ | cad: cad c$ | nzd: nzd | sgd: sgd s$ | hkd: hkd hk$ | zar: zar | aed: aed | sar: sar |
    egp: egp | php: php ₱ | idr: idr rp | myr: myr rm | btc: btc ₿ | eth: eth | ngn: ngn ₦ | kes: kes | pkr: pkr
    | bdt: bdt
"""

# Here the case tells units apart: milli and mega, bit and byte, second and siemens.
CASED: Final = """
    milliwatt: mW | megawatt: MW | kilowatt: kW KW kw | gigawatt: GW | terawatt: TW | watt: W | microwatt: μW |
    nanowatt: nW | millivolt: mV | megavolt: MV | kilovolt: kV KV | volt: V | microvolt: μV | milliampere: mA |
    megaampere: MA | kiloampere: kA | ampere: A | microampere: μA | millihertz: mHz | megahertz: MHz mhz |
    kilohertz: kHz KHz khz | gigahertz: GHz ghz | terahertz: THz | hertz: Hz hz | milliohm: mΩ | megaohm: MΩ |
    kiloohm: kΩ KΩ | ohm: Ω | gigaohm: GΩ | megabit: Mb | megabyte: MB | mb: mb | mB: mB | kilobit: kb Kb |
    kilobyte: kB KB | gigabit: Gb | gigabyte: GB | gb: gb | terabit: Tb | terabyte: TB | tb: tb | petabyte: PB |
    pb: pb | bit: b | byte: B | kilobit_per_second: kbps Kbps | kilobyte_per_second: kBps KBps |
    megabit_per_second: Mbps | megabyte_per_second: MBps | mbps: mbps | gigabit_per_second: Gbps |
    gigabyte_per_second: GBps | gbps: gbps | mebibit: Mib | mebibyte: MiB | kibibyte: KiB kiB | gibibyte: GiB |
    gibibit: Gib | tebibyte: TiB | millimetre: mm | megametre: Mm | micrometre: μm | nanometre: nm |
    millisecond: ms | megasecond: Ms | microsecond: μs | nanosecond: ns | second: s | siemens: S | hour: h |
    henry: H | milligram: mg | megagram: Mg | microgram: μg mcg | nanogram: ng | gram: g | gauss: G |
    millilitre: ml mL | megalitre: Ml ML | microlitre: μl μL | litre: l L | millipascal: mPa | megapascal: MPa |
    kilopascal: kPa KPa | hectopascal: hPa | gigapascal: GPa | pascal: Pa | millifarad: mF | farad: F |
    microfarad: μF | nanofarad: nF | picofarad: pF | petafarad: PF | millihenry: mH | microhenry: μH |
    millinewton: mN | meganewton: MN | kilonewton: kN | newton: N | millijoule: mJ | megajoule: MJ | kilojoule:
    kJ KJ | joule: J | gigajoule: GJ | millimole: mmol | megamole: Mmol | mole: mol | metre: m | mega: M | kilo:
    k | kelvin: K | tesla: T | ton: t | coulomb: C | carat: c | day: d | electronvolt: eV | kiloelectronvolt:
    keV | megaelectronvolt: MeV | gigaelectronvolt: GeV | millielectronvolt: meV | teraelectronvolt: TeV |
    megawatt_hour: MWh | milliwatt_hour: mWh | gigawatt_hour: GWh | milliampere_hour: mAh | ampere_hour: Ah |
    megaampere_hour: MAh | micromolar: μM | millimolar: mM | nanomolar: nM | year: y | pico: p | peta: P | nano:
    n
"""

CURRENCY_CODES: Final = """
    eur usd gbp jpy cny rmb chf inr rub try krw ils thb vnd pln sek nok dkk czk huf ron bgn uah mxn brl ars clp cop aud
    cad nzd sgd hkd zar aed sar egp php idr myr btc eth ngn kes pkr bdt
"""
