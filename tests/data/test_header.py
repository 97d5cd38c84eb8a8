"""First lines as public files have them: none that names the columns, two, one twice, a title."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused_in_one_line

from fairaudit.data.reading.tables import open_source
from fairaudit.errors import DataError

ROWS = [
    f"{20 + k % 50},{['State-gov', 'Private'][k % 2]},{k * 1013 % 9973},<=50K" for k in range(60)
]
CREDIT = [f"{k},{10_000 + 13 * k},{1 + k % 2},{k % 3 == 0:d}" for k in range(1, 60)]


def opened(tmp_path, lines):
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return open_source(path)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (ROWS, "has no header"),
        ([line.replace(",", ", ") for line in ROWS], "has no header"),
        ([f"{k % 3 - 1},{k % 7 / 2}" for k in range(30)], "has no header"),
        ([",X1,X2,Y", "ID,LIMIT_BAL,SEX,default", *CREDIT], "two header lines"),
        (["id,limit,sex,default", "(number),(dollars),(code),(flag)", *CREDIT], "two header lines"),
        (["id,limit,sex,default", "id,limit,sex,default", *CREDIT], "header twice"),
        (["id;age;sex", "id;age;sex", "1;30;F", "2;31;M"], "header twice"),
        (["Credit default of 2005", "id,limit,sex,default", *CREDIT], "looks like a title"),
    ],
)
def test_a_first_line_that_names_no_columns_is_refused_with_what_to_do(tmp_path, lines, said):
    with refused_in_one_line(DataError) as caught:
        opened(tmp_path, lines)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


@pytest.mark.parametrize(
    "lines",
    [
        ["id,limit,sex,default", *CREDIT],
        ["2019,2020,2021,2022", *CREDIT],  # a year for each column
        [",".join(map(str, range(4))), *CREDIT],  # pixels
        ["limit,limit2,sex,default", "unknown,5,1,0", *CREDIT],  # a mark of a missing value
        ["a,b", "1,2", "3,4"],
        ["name,city", "Ann,Rome", "Bob,Oslo", "Eve,Bern"],  # nothing but text
        ["F,M", "3,4", "5,6", "7,8"],
    ],
)
def test_a_header_is_taken_for_one(tmp_path, lines):
    assert opened(tmp_path, lines).schema.names == lines[0].split(",")


def test_tables_that_pandas_writes_have_headers(tmp_path):
    draw = np.random.default_rng(4)
    for number in range(200):
        width = int(draw.integers(2, 6))
        frame = pd.DataFrame(
            {
                f"c{k}": draw.choice(["a", "b", "c"], 30)
                if draw.random() < 0.4
                else draw.integers(-3, 40, 30) / draw.choice([1, 4])
                for k in range(width)
            }
        )
        path = tmp_path / f"{number}.csv"
        frame.to_csv(path, index=False)
        assert open_source(path).schema.names == list(frame.columns)
        frame.to_csv(path, index=False, header=False)
        numbers = frame.select_dtypes("number").columns.size
        if 0 < numbers < width:  # numbers alone may be names, as of years
            with pytest.raises(DataError):
                open_source(path)
