"""What reading data shows: of columns and values, of rows, of groups and labels, of predictions."""

from dataclasses import dataclass
from typing import Literal

from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.messages.names import listed, quoted, typed

_SHOWN_MARKS = 5  # of the texts that are named


# --- columns and their values


@dataclass(frozen=True, slots=True)
class MixedTypes(Message):
    """Columns of numbers and texts.

    ``contents``: what each holds, as a clause with its name; ``words``: the texts among numbers.
    """

    code = "mixed_types"
    when = "a column of text holds numbers and other texts, and is read as text"

    contents: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"read as categories: {'; '.join(self.contents)}"

    @property
    def fix(self) -> str:
        if len(self.words) == 1:
            return f"if that means a missing value: --missing-values {typed(self.words[0])}"
        return "if it is numeric, name what is missing with --missing-values"


@dataclass(frozen=True, slots=True)
class MarkedValue:
    """A text that often stands for a missing value, in a column of text; in how many rows."""

    column: str
    mark: str
    rows: int

    def __str__(self) -> str:
        return f"{quoted(self.mark)} in {quoted(self.column)} ({numbered(self.rows, 'row')})"


@dataclass(frozen=True, slots=True)
class MarksAsValues(Message):
    """Texts, such as NA, that are read as values like others."""

    code = "marks_as_values"
    level = "notice"
    when = "a column of text holds a text that often stands for a missing value"

    marks: tuple[MarkedValue, ...]

    @property
    def text(self) -> str:
        shown = ", ".join(map(str, self.marks[:_SHOWN_MARKS]))
        hidden = len(self.marks) - _SHOWN_MARKS
        more = f" and {hidden} more" if hidden > 0 else ""
        return f"read as a value like others: {shown}{more}"

    @property
    def fix(self) -> str:
        word = f"{self.marks[0].column}={self.marks[0].mark}"
        return f"where it means a missing value: --missing-values {typed(word)}"


@dataclass(frozen=True, slots=True)
class UnusedMarks(Message):
    """Texts that are said to be missing values and stand nowhere."""

    code = "marks_not_found"
    when = "no value is one of the texts that --missing-values names"

    marks: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"--missing-values: no value is {listed(self.marks)}"

    @property
    def fix(self) -> str:
        return "repeat the option for each text"


@dataclass(frozen=True, slots=True)
class Infinities(Message):
    """Columns with infinite values."""

    code = "infinities"
    when = "a column holds infinite values, which count as missing"

    columns: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"infinite values in {listed(self.columns)} count as missing"

    @property
    def fix(self) -> str:
        return "replace them in the data if they mean something"


@dataclass(frozen=True, slots=True)
class UnsupportedColumns(Message):
    """Columns that hold neither numbers nor text.

    ``list_length``: Where some of them hold lists, the length from which on lists are inputs; else
    None. ``are_bytes``: whether some of them hold bytes.
    """

    code = "unsupported_columns"
    when = "a column holds neither numbers nor text, and is left out"

    columns: tuple[str, ...]
    list_length: int | None
    are_bytes: bool

    @property
    def text(self) -> str:
        return f"left out, not numbers or text: {listed(self.columns)}"

    @property
    def fix(self) -> str:
        if self.list_length is not None:
            length = f"{self.list_length} numbers or more"
            return f"lists are inputs where all have one length, of {length}"
        if self.are_bytes:
            return "bytes that are the pixels of images are read with --pixels HEIGHTxWIDTH"
        return ""


@dataclass(frozen=True, slots=True)
class PixelsAsNumbers(Message):
    """Columns of bytes, from ``first`` to ``last``, that may be images of ``shape``."""

    code = "pixels_as_numbers"
    level = "notice"
    when = "columns look like the pixels of images, and are read as numbers"

    first: str
    last: str
    shape: str

    @property
    def text(self) -> str:
        return f"{quoted(self.first)} to {quoted(self.last)} are read as numbers of one row"

    @property
    def fix(self) -> str:
        return f"if they are the pixels of images: --pixels {self.shape}"


@dataclass(frozen=True, slots=True)
class ColumnsDropped(Message):
    """Columns that are left out for one reason.

    ``split``: that one of them which seems to say how rows are split; "" where none does.
    """

    code = "columns_dropped"
    level = "notice"
    when = "columns are left out, as ids or those beside images"

    columns: tuple[str, ...]
    reason: str
    split: str

    @property
    def text(self) -> str:
        return f"left out, {self.reason}: {listed(self.columns)}"

    @property
    def fix(self) -> str:
        if self.split:
            return f"a split that the data bring is used with --split-column {self.split}"
        return ""


@dataclass(frozen=True, slots=True)
class UndeclaredColumns(Message):
    """Features of which nothing is declared, beside others of which something is."""

    code = "undeclared_columns"
    when = "columns are declared and a feature is not among them"

    columns: tuple[str, ...]

    @property
    def text(self) -> str:
        shown = listed(self.columns)
        return f"not declared, so they are scaled by what training rows hold: {shown}"

    @property
    def fix(self) -> str:
        return "declare them too, or leave them out with --drop"


@dataclass(frozen=True, slots=True)
class UndeclaredValues(Message):
    """How many values are not as their columns were declared."""

    code = "outside_declaration"
    when = "a value lies outside what is declared of its column"

    values: int
    columns: tuple[str, ...]

    @property
    def text(self) -> str:
        values = numbered(self.values, "value is", "values are")
        return f"{values} not as declared in {listed(self.columns)}"

    @property
    def fix(self) -> str:
        return "each was clipped or counts as missing, as declared"


@dataclass(frozen=True, slots=True)
class _TellingColumn(Message):
    """A column that gives something away, or one ``value`` of it against all others.

    ``value``: what a row with it does, as "is 0"; "" where the column gives it away as it is.
    """

    column: str
    value: str

    @property
    def _subject(self) -> str:
        if self.value:
            return f"whether column {quoted(self.column)} {self.value} alone"
        return f"column {quoted(self.column)} alone"


@dataclass(frozen=True, slots=True)
class FeaturePredictsLabel(_TellingColumn):
    """A feature that gives the label away."""

    code = "feature_predicts_label"
    when = "a feature alone leaves at most a quarter of the errors that guessing the label makes"

    label: str

    @property
    def text(self) -> str:
        return f"{self._subject} predicts the label {quoted(self.label)}"

    @property
    def fix(self) -> str:
        return f"if it is known only afterwards: --drop {typed(self.column)}"


@dataclass(frozen=True, slots=True)
class FeatureDeterminesGroup(_TellingColumn):
    """A feature that gives the group away."""

    code = "feature_determines_group"
    when = "a feature alone tells the group of 99 % of the rows"

    grouping: str

    @property
    def text(self) -> str:
        return f"{self._subject} determines the group {quoted(self.grouping)}"

    @property
    def fix(self) -> str:
        return f"a model that must not see the group needs --drop {typed(self.column)}"


# --- rows


@dataclass(frozen=True, slots=True)
class RowsDropped(Message):
    """How many rows are left out for one reason."""

    code = "rows_dropped"
    when = "rows are left out, as those without a label"

    rows: int
    reason: str

    @property
    def text(self) -> str:
        return f"{numbered(self.rows, 'row')} left out: {self.reason}"

    @property
    def fix(self) -> str:
        return "their counts by group are in the report"


@dataclass(frozen=True, slots=True)
class UnlabelledDropped(RowsDropped):
    """How many rows of given predictions are left out since they have no label."""

    @property
    def fix(self) -> str:
        return "their counts are in the report; a gate that they could turn does not pass"


@dataclass(frozen=True, slots=True)
class UnpredictedDropped(RowsDropped):
    """How many rows are left out since no prediction is given for them."""

    @property
    def fix(self) -> str:
        return "predict every row: no gate about their groups passes"


@dataclass(frozen=True, slots=True)
class _EqualRows(Message):
    """How many of ``rows`` are equal to an earlier one.

    ``are_predicted``: the table is one of given predictions.
    """

    repeated: int
    rows: int
    are_predicted: bool

    @property
    def _share(self) -> str:
        percent = 100 * self.repeated / self.rows
        if self.repeated == self.rows:
            share = "100"
        elif percent < 99.5:
            share = f"{percent:.2g}"
        else:  # two digits would be 1e+02; and not all rows are 100 %
            share = f"{min(percent, 99.9):.3g}"
        return f"{self.repeated:,} of {numbered(self.rows, 'row')} ({share} %)"


@dataclass(frozen=True, slots=True)
class Copies(_EqualRows):
    """Equal rows that chance does not explain: one record, written several times."""

    code = "copies"
    when = "rows are equal to an earlier one, and more of them than chance explains"

    @property
    def text(self) -> str:
        what = "copies of an earlier row, equal in features, groups and label"
        becomes = "a record and its copies are trained on or tested, and a test record counts once"
        if self.are_predicted:
            becomes = "a record counts once"
        return f"{what}: {self._share}; {becomes}"

    @property
    def fix(self) -> str:
        if self.are_predicted:
            return ""
        return "epsilon protects one row, and so a record with copies less"


@dataclass(frozen=True, slots=True)
class DuplicateRows(_EqualRows):
    """Equal rows that may be of different people."""

    code = "duplicate_rows"
    when = "rows are equal to an earlier one, and may be of different people"

    @property
    def text(self) -> str:
        return f"duplicates of an earlier row: {self._share}; each counts as a person of its own"

    @property
    def fix(self) -> str:
        if self.are_predicted:
            return "say who is one person in a column id"
        return "epsilon protects a row, not a person who has several"


@dataclass(frozen=True, slots=True)
class SharedIds(Message):
    """How many rows have the id of an earlier one and are not equal to it."""

    code = "shared_ids"
    when = "rows of given predictions share an id and differ"

    rows: int

    @property
    def text(self) -> str:
        rows = numbered(self.rows, "row has", "rows have")
        return (
            f"{rows} the id of an earlier row and says something else: a person with several rows "
            "counts several times"
        )

    @property
    def fix(self) -> str:
        return "intervals are too narrow where people repeat; keep one row of each"


# --- files


@dataclass(frozen=True, slots=True)
class ValidationLeftOut(Message):
    """How many images are of the part for validation, which is no side of a split."""

    code = "validation_left_out"
    level = "notice"
    when = "published images come with a part for validation"

    images: int

    @property
    def text(self) -> str:
        return f"{numbered(self.images, 'image')} left out: of the validation part"


@dataclass(frozen=True, slots=True)
class ImagesNotListed(Message):
    """How many images of a folder have no row in its metadata."""

    code = "images_not_listed"
    when = "a folder holds images of which its metadata say nothing"

    images: int

    @property
    def text(self) -> str:
        return f"{numbered(self.images, 'image')} left out: no row in the metadata"

    @property
    def fix(self) -> str:
        return "add a row for each that should count"


@dataclass(frozen=True, slots=True)
class ArraysIgnored(Message):
    """Arrays of an archive that are no columns."""

    code = "arrays_ignored"
    level = "notice"
    when = "an archive holds arrays that are neither numbers nor text of each row"

    arrays: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"arrays that are no column of numbers or text: {listed(self.arrays)}"


# --- groups and the label


@dataclass(frozen=True, slots=True)
class NearEqualNames(Message):
    """Names of groups, or of classes of the label, that may be one name in several spellings."""

    code = "near_equal_names"
    when = "groups or classes differ in case, blanks or a final dot alone"

    of: Literal["groups of", "classes of label"]
    column: str
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        names = listed(self.names)
        of = f"{self.of} {quoted(self.column)}"
        return f"{of}: {names} differ in case, blanks or a final dot alone"

    @property
    def fix(self) -> str:
        return "make them one name in the file if they are one"


@dataclass(frozen=True, slots=True)
class GroupBinned(Message):
    """A numeric group column that is cut at its quartiles."""

    code = "group_binned"
    level = "notice"
    when = "a group column is numeric and no edges are given"

    column: str

    @property
    def text(self) -> str:
        return f"group column {quoted(self.column)} is numeric and is cut at its quartiles"

    @property
    def fix(self) -> str:
        return f"choose edges with --bin {typed(self.column)}=..."


@dataclass(frozen=True, slots=True)
class GroupMissing(Message):
    """How many rows have no value of a group column; ``shown_as``: the group that they make."""

    code = "group_missing"
    when = "rows have no value in a group column"

    column: str
    rows: int
    shown_as: str

    @property
    def text(self) -> str:
        rows = numbered(self.rows, "row has", "rows have")
        return (
            f"{rows} no {quoted(self.column)}: shown as {self.shown_as}; no rule about groups "
            "passes while they are there"
        )

    @property
    def fix(self) -> str:
        return "name their group in the file, or leave these rows out of it"


@dataclass(frozen=True, slots=True)
class LabelByName(Message):
    """The label, where its name alone said that it is."""

    code = "label_by_name"
    level = "notice"
    when = "nobody names the label and a column's name says that it is"

    label: str

    @property
    def text(self) -> str:
        return f"label {quoted(self.label)} is taken by its name"

    @property
    def fix(self) -> str:
        return "confirm it with --label"


@dataclass(frozen=True, slots=True)
class PositiveUnknown(Message):
    """A label of several classes of which none is known to be the positive one."""

    code = "positive_unknown"
    level = "notice"
    when = "no class of the label is known to be the positive one"

    label: str

    @property
    def text(self) -> str:
        label = quoted(self.label)
        return f"no value of label {label} is said to be the positive or favourable one"

    @property
    def fix(self) -> str:
        return "name it with --favourable VALUE"


@dataclass(frozen=True, slots=True)
class FavourableAssumed(Message):
    """A label and the class that is taken to be what people want."""

    code = "favourable_assumed"
    level = "notice"
    when = "nobody says which class people want, and the positive one is taken"

    label: str
    favourable: str

    @property
    def text(self) -> str:
        return (
            f"{quoted(self.label)} = {quoted(self.favourable)} is assumed to be the favourable "
            "outcome; impact ratios turn on that, so gates on them are inconclusive"
        )

    @property
    def fix(self) -> str:
        return "say which value people want with --favourable VALUE"


# --- given predictions


@dataclass(frozen=True, slots=True)
class ProbabilityOf(Message):
    """Columns of probabilities, and the classes that their names say they are of, in their order.

    A single column is of the one class.
    """

    code = "probability_of"
    when = "names of columns of probabilities decide whose they are"

    columns: tuple[str, ...]
    classes: tuple[str, ...]

    @property
    def text(self) -> str:
        if len(self.columns) == 1:
            of = f"the probability of class {quoted(self.classes[0])}"
            return f"{quoted(self.columns[0])} is read as {of}, by name"
        of = f"the probabilities of the classes {listed(self.classes)}, in this order"
        return f"{listed(self.columns)} are read as {of}, by name"

    @property
    def fix(self) -> str:
        return "if not: --classes"


@dataclass(frozen=True, slots=True)
class TurnedProbability(Message):
    """A column of probabilities whose AUC is below a half in every group.

    ``auc``: over all rows; ``other``: the class that it may be the probability of;
    ``are_several``: ``column`` names several columns, between commas.
    """

    code = "turned_probability"
    when = "given probabilities rank worse than chance in every group"

    column: str
    auc: float
    other: str
    are_several: bool

    @property
    def text(self) -> str:
        return (
            f"{quoted(self.column)} ranks worse than chance in every group (AUC {self.auc:.2f}): "
            "it may be the probability of the other class"
        )

    @property
    def fix(self) -> str:
        if self.are_several:
            return "name the classes in the order of the columns: --classes"
        return (
            f"if it is that of {quoted(self.other)}: --positive {typed(self.other)}, or --classes"
        )
