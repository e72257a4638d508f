"""Word lists of the made-up tasks: names, things, topics of tools."""


def words(text: str) -> list[str]:
    """Returns the words of a text, each once."""
    return list(dict.fromkeys(text.split()))


TOPICS = words(
    "weather temperature price stock time address phone number population capital color size "
    "weight height status version balance distance schedule menu rating title author owner "
    "language currency rate score result position speed level length date age name code map "
    "note report order ticket invoice letter message picture song film book recipe holiday "
    "traffic train flight hotel room table seat team player doctor school shop museum river "
    "mountain island country city street house garden animal plant tree flower bird fish food "
    "drink fruit shape word meaning user account file folder log setting device job"
)
OWNERS = words(
    "city person product file country user company order item place word book room animal "
    "shop project server student team device"
)
NAMES = words(
    "Anna Berlin Paris Rome Tom Maria London Peter Oslo Lisbon Emma Vienna Tokyo Paul Clara "
    "Madrid Dublin Prague Hugo Nora Cairo Lima Delhi Boston Dallas Geneva Zurich Milan Kiev "
    "Hanoi Quito Bruno Felix Greta Ivan Jonas Karin Lena Marta Nils Olga Petra Ralf Sonja "
    "Theo Ute Vera Willi"
)
PRODUCTS = words(
    "lamp chair table desk shoe shirt phone camera watch bottle paper pencil brush spoon "
    "knife apple pear bread cheese milk coffee sugar honey salt rice bean onion garlic river "
    "house dog"
)
CONDITIONS = words(
    "sunny cloudy rainy windy open closed ready empty full free busy late early new old red "
    "blue green high low good bad fast slow hot cold dry wet lost found sold paid"
)
COLORS = words("red blue green black white yellow brown small big old new round heavy light")
THINGS = words("key book ring ball cup map coin box hat bag letter lamp pen card stone clock")
PLACES = words("garden kitchen drawer house box car room office cellar tree bag school boat shed")
IDENTIFIERS = words(
    "total value item count name text line key data path size width start end result index "
    "node left right first last number word letter source target limit step row column rate "
    "price amount color user order list table event query reply load state mode level scale "
    "point"
)
